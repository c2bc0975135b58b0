package projection

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/annals-go/annals"
)

// ranges returns n ranges without owners.
func ranges(n int) (all []lease) {
	for _, s := range annals.SliceRanges(n) {
		all = append(all, lease{From: s.From, To: s.To})
	}
	return all
}

// shares counts the ranges of each runner by what of returns.
func shares(r record, of func(lease) string) map[string]int {
	all := map[string]int{}
	for id := range r.Runners {
		all[id] = 0
	}
	for _, l := range r.Ranges {
		all[of(l)]++
	}
	return all
}

func owner(l lease) string { return l.Owner }

func holder(l lease) string { return l.Runner }

// unfair says what is wrong when the ranges are not shared fairly among the runners of r.
func unfair(r record, of func(lease) string) error {
	all := shares(r, of)
	counts := slices.Sorted(maps.Values(all))
	if n, ok := all[""]; ok || len(r.Ranges) == 0 {
		return fmt.Errorf("of %d ranges, nobody has %d", len(r.Ranges), n)
	}
	if len(all) != len(r.Runners) || counts[len(counts)-1] > counts[0]+1 {
		return fmt.Errorf("the shares of %d runners are %v", len(r.Runners), all)
	}
	return nil
}

// Whoever the ranges belonged to, assign shares them fairly, moves no more than it must, and has nothing to do when it runs again.
func TestAssign(t *testing.T) {
	t.Parallel()
	for runners := 1; runners <= 4; runners++ {
		for n := 1; n <= 5; n++ {
			former := make([]int, n) // 0: no runner, then the runners, then one that is not there any more
			for {
				checkAssign(t, runners, former)
				i := 0
				for ; i < n && former[i] == runners+1; i++ {
					former[i] = 0
				}
				if i == n {
					break
				}
				former[i]++
			}
		}
	}
}

func checkAssign(t *testing.T, runners int, former []int) {
	t.Helper()
	r := record{Runners: map[string]runner{}, Ranges: ranges(len(former))}
	for i := range runners {
		r.Runners[string(rune('a'+i))] = runner{}
	}
	count := make([]int, runners)
	for i, who := range former {
		if who > 0 {
			r.Ranges[i].Owner = string(rune('a' + who - 1))
		}
		if 0 < who && who <= runners {
			count[who-1]++
		}
	}
	// The runners with the most keep the greater shares, the others get what they lack.
	slices.SortFunc(count, func(a, b int) int { return b - a })
	lack := 0
	for i, c := range count {
		share := len(former) / runners
		if i < len(former)%runners {
			share++
		}
		lack += max(share-c, 0)
	}
	before := slices.Clone(r.Ranges)
	r.assign()
	if err := unfair(r, owner); err != nil {
		t.Fatalf("%d runners, owners were %v: %v", runners, former, err)
	}
	moved := 0
	for i, l := range r.Ranges {
		if l.Owner != before[i].Owner {
			moved++
		}
	}
	if moved != lack {
		t.Fatalf("%d runners, owners were %v: %d ranges moved, want %d", runners, former, moved, lack)
	}
	again := r
	again.Ranges = slices.Clone(r.Ranges)
	if again.assign(); !slices.Equal(again.Ranges, r.Ranges) {
		t.Fatalf("%d runners, owners were %v: then %v, then %v", runners, former, r.Ranges, again.Ranges)
	}
}

// A range that its owner does not hold yet moves before one that would have to be handed over.
func TestAssignMovesFreeRangesFirst(t *testing.T) {
	t.Parallel()
	r := record{Runners: map[string]runner{"a": {}, "b": {}}, Ranges: ranges(4)}
	for i := range r.Ranges {
		r.Ranges[i].Owner = "a"
	}
	r.Ranges[0].Runner, r.Ranges[1].Runner = "a", "a"
	r.assign()
	if got := r.Ranges[0].Owner + r.Ranges[1].Owner + r.Ranges[2].Owner + r.Ranges[3].Owner; got != "aabb" {
		t.Errorf("owners %s, want aabb", got)
	}
}

// A range whose former work has not returned is not taken, although it is free.
func TestDecideWaitsForTheFormerWork(t *testing.T) {
	t.Parallel()
	r := record{Ranges: ranges(2)}
	former := map[annals.SliceRange]int64{r.Ranges[0].slices(): 1}
	r = r.decide("a", runner{}, former, nil, 1)
	if r.Ranges[0].Runner != "" || r.Ranges[1].Runner != "a" {
		t.Errorf("the work of the first range has not returned: %+v", r.Ranges)
	}
	if r = r.decide("a", runner{}, map[annals.SliceRange]int64{r.Ranges[1].slices(): 2}, nil, 1); r.Ranges[0].Runner != "a" || r.Ranges[0].Epoch != 3 {
		t.Errorf("the work of the first range has returned: %+v", r.Ranges)
	}
}

// crew is a model of runners that change one record by compare-and-set, and of their works.
type crew struct {
	*rapid.T
	record   record
	revision int
	members  map[string]*modelMember
	begun    map[int64]annals.SliceRange // by epoch
	crashed  []string                    // that no other runner has removed yet
	names    int
}

type modelMember struct {
	read     record // what it has read, and has not decided on yet
	revision int
	running  map[annals.SliceRange]int64
	stopped  map[annals.SliceRange]bool // works that have been told to end
}

func (c *crew) ids() []string { return slices.Sorted(maps.Keys(c.members)) }

func (c *crew) readBy(id string) {
	m := c.members[id]
	m.read, m.revision = c.record, c.revision
}

// writeBy decides on what the runner has read. lost means that the runner does not learn whether it wrote.
func (c *crew) writeBy(id string, dead []string, lost bool) {
	m := c.members[id]
	self := m.read.Runners[id]
	self.Beat++
	next := m.read.decide(id, self, m.running, dead, 0)
	for _, l := range next.Ranges {
		if epoch, runs := m.running[l.slices()]; runs && l.Runner == id && l.Epoch != epoch {
			c.Fatalf("%s takes %v again, while its work under epoch %d has not ended", id, l, epoch)
		}
	}
	if m.revision != c.revision {
		return // conflict
	}
	c.record, c.revision = next, c.revision+1
	c.crashed = slices.DeleteFunc(c.crashed, func(x string) bool { return slices.Contains(dead, x) })
	if lost {
		return
	}
	handles := next.handles(id)
	for r, epoch := range m.running {
		if handles[r] != epoch {
			m.stopped[r] = true
		}
	}
	for r, epoch := range handles {
		if _, runs := m.running[r]; runs {
			continue
		}
		if other, used := c.begun[epoch]; used {
			c.Fatalf("%s handles %v under epoch %d, under which %v was handled", id, r, epoch, other)
		}
		c.begun[epoch], m.running[r] = r, epoch
	}
}

func (c *crew) endWork(id string, r annals.SliceRange) {
	delete(c.members[id].running, r)
	delete(c.members[id].stopped, r)
}

func (c *crew) newest(r annals.SliceRange) (epoch int64) {
	for e, of := range c.begun {
		if of == r {
			epoch = max(epoch, e)
		}
	}
	return epoch
}

// check fails when two runners have works of a range under its newest epoch: both could save.
func (c *crew) check() {
	at := 0
	for _, l := range c.record.Ranges {
		if l.From != at {
			c.Fatalf("the ranges are %v", c.record.Ranges)
		}
		at = l.To
		holders := 0
		for _, m := range c.members {
			if epoch, runs := m.running[l.slices()]; runs && epoch == c.newest(l.slices()) {
				holders++
			}
		}
		if holders > 1 {
			c.Fatalf("%v: %d runners have the newest epoch", l, holders)
		}
	}
}

// settle lets all runners look, and all works that were told to end return, until nothing changes. It returns how often a range was taken.
func (c *crew) settle() (taken int) {
	before := len(c.begun)
	for round := 0; ; round++ {
		if round > 20 {
			c.Fatalf("the runners do not come to rest: %+v", c.record)
		}
		old, ends := c.record, 0
		for _, id := range c.ids() {
			c.readBy(id)
			c.writeBy(id, slices.Clone(c.crashed), false)
			for r := range maps.Clone(c.members[id].stopped) {
				c.endWork(id, r)
				ends++
			}
			c.check()
		}
		if slices.Equal(old.Ranges, c.record.Ranges) && ends == 0 && len(c.crashed) == 0 {
			return len(c.begun) - before
		}
	}
}

// However runners join, leave, crash, are taken for dead, lose answers, decide on old records, pause and resume: no epoch is used twice, and
// when they come to rest, all ranges are handled, each by its owner, in fair shares.
func TestDecide(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "ranges")
		c := &crew{T: t, members: map[string]*modelMember{}, begun: map[int64]annals.SliceRange{}, record: record{Ranges: ranges(n)}}
		one := func() string { return rapid.SampledFrom(c.ids()).Draw(t, "runner") }
		join := func(*rapid.T) {
			c.names++
			c.members[fmt.Sprintf("r%02d", c.names)] = &modelMember{running: map[annals.SliceRange]int64{}, stopped: map[annals.SliceRange]bool{}, revision: -1}
		}
		join(t)
		with := func(f func()) func(*rapid.T) {
			return func(t *rapid.T) {
				if len(c.members) == 0 {
					t.Skip("there is no runner") // rapid chooses another action
				}
				f()
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"join":  join,
			"read":  with(func() { c.readBy(one()) }),
			"write": with(func() { c.writeBy(one(), nil, false) }),
			"lost":  with(func() { c.writeBy(one(), nil, true) }),
			"look": with(func() {
				id := one()
				c.readBy(id)
				c.writeBy(id, nil, false)
			}),
			"remove": with(func() { // rightly or wrongly
				id := one()
				c.readBy(id)
				others := slices.DeleteFunc(slices.Sorted(maps.Keys(c.record.Runners)), func(x string) bool { return x == id })
				if len(others) > 0 {
					c.writeBy(id, []string{rapid.SampledFrom(others).Draw(t, "dead")}, false)
				}
			}),
			"end": with(func() { // a work that was told to, or one that was fenced
				id := one()
				if running := slices.SortedFunc(maps.Keys(c.members[id].running), bySlices); len(running) > 0 {
					c.endWork(id, rapid.SampledFrom(running).Draw(t, "work"))
				}
			}),
			"crash": with(func() {
				id := one()
				delete(c.members, id)
				c.crashed = append(c.crashed, id)
			}),
			"leave": with(func() {
				id := one()
				delete(c.members, id)
				c.record, c.revision = c.record.without(id), c.revision+1
			}),
			"pause":  func(*rapid.T) { c.record.Paused, c.revision = true, c.revision+1 },
			"resume": func(*rapid.T) { c.record.Paused, c.revision = false, c.revision+1 },
			"":       func(*rapid.T) { c.check() },
		})

		if len(c.members) == 0 {
			join(t)
		}
		c.record.Paused, c.revision = true, c.revision+1
		c.settle()
		if got := shares(c.record, holder); got[""] != n {
			t.Fatalf("paused, but ranges are held: %v", got)
		}
		c.record.Paused, c.revision = false, c.revision+1
		c.settle()
		if err := unfair(c.record, holder); err != nil {
			t.Fatal(err)
		}
		if len(c.record.Runners) != len(c.members) {
			t.Fatalf("runners %v, there are %v", c.record.Runners, c.ids())
		}
		running := 0
		for id, m := range c.members {
			running += len(m.running)
			if len(m.stopped) > 0 || !maps.Equal(m.running, c.record.handles(id)) {
				t.Fatalf("%s runs %v, stops %v, in the record is %v", id, m.running, m.stopped, c.record.Ranges)
			}
		}
		if running != n {
			t.Fatalf("%d of %d ranges are handled", running, n)
		}

		// Another one joins: as many ranges are taken as its share has, each once.
		join(t)
		if taken, share := c.settle(), n/len(c.members); taken != share {
			t.Fatalf("one of %d joined: %d of %d ranges were taken, want %d", len(c.members), taken, n, share)
		}
		// One crashes: its ranges are taken, and no others.
		id := one()
		held := len(c.members[id].running)
		delete(c.members, id)
		c.crashed = append(c.crashed, id)
		if taken := c.settle(); taken != held {
			t.Fatalf("a runner with %d of %d ranges crashed: %d ranges were taken", held, n, taken)
		}
	})
}

func bySlices(a, b annals.SliceRange) int { return a.From - b.From }

// A watcher takes a runner for dead when its beat has not changed for a lease while the watcher looked, whatever the watcher's clock did
// between its looks.
func TestWatch(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var w watch
	look := func(after time.Duration, beats map[string]int64) []string {
		at = at.Add(after)
		r := record{Runners: map[string]runner{}}
		for id, beat := range beats {
			r.Runners[id] = runner{Beat: beat, Lease: 1000}
		}
		return w.Look(r.signs(), at)
	}
	for i, step := range []struct {
		after time.Duration
		a, b  int64
		dead  string
	}{
		{0, 1, 1, "[]"},
		{400 * time.Millisecond, 1, 2, "[]"},
		{400 * time.Millisecond, 1, 3, "[]"},
		{200 * time.Millisecond, 1, 4, "[a]"},
		{400 * time.Millisecond, 2, 4, "[]"}, // it was alive after all
		{time.Hour, 2, 4, "[]"},              // the watcher was stopped, or could not read
		{400 * time.Millisecond, 3, 4, "[b]"},
		{-time.Hour, 3, 5, "[]"}, // a clock that goes back
		{500 * time.Millisecond, 3, 5, "[]"},
		{-time.Hour, 3, 5, "[]"},
		{500 * time.Millisecond, 3, 5, "[a b]"},
	} {
		if got := fmt.Sprint(look(step.after, map[string]int64{"a": step.a, "b": step.b})); got != step.dead {
			t.Errorf("look %d: dead are %s, want %s", i, got, step.dead)
		}
	}
}
