package akka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"pgregory.net/rapid"
)

// plugin is a model of the plugin, version 1.1.2 or later, for one entity: what it reads and what it writes.
type plugin struct {
	x      *plantest.Executor
	shards int
	next   annals.SeqNr // of a writer that has been started
	writer string
}

func (p *plugin) mark(kind string) (n annals.SeqNr) {
	for shard := range p.shards {
		key := plan.Item{"par": plan.S(fmt.Sprintf("journal-%s-%s-%d", kind, entityID, shard)), "num": plan.N(0)}
		if it, ok, _ := p.x.Get(context.Background(), plan.Get{Table: journalTable, Key: key}); ok {
			seq, _ := plan.Number(it, "seq")
			n = max(n, annals.SeqNr(seq))
		}
	}
	return n
}

// group returns the rows of a group in ascending order.
func (p *plugin) group(group annals.SeqNr) (rows []row) {
	for it, err := range p.x.Query(context.Background(), plan.Query{Table: journalTable, Hash: fmt.Sprintf("journal-P-%s-%d", entityID, group)}) {
		if err != nil {
			panic(err)
		}
		num, _ := plan.Number(it, "num")
		idx, _ := plan.Number(it, "idx")
		cnt, _ := plan.Number(it, "cnt")
		n := 100*group + annals.SeqNr(num)
		rows = append(rows, row{n: n, first: n - annals.SeqNr(idx), last: n - annals.SeqNr(idx) + annals.SeqNr(cnt), item: it})
	}
	return rows
}

// highest is the plugin's highest number, without high-distrust.
func (p *plugin) highest() annals.SeqNr {
	start := p.mark("SH")
	if rows := p.group(start / 100); len(rows) > 0 {
		return rows[len(rows)-1].n
	}
	return max(start, p.mark("SL")-1)
}

// replay are the numbers that the plugin replays.
func (p *plugin) replay(from, to annals.SeqNr) []annals.SeqNr {
	var rows []row
	from, to = max(from, p.mark("SL")), min(to, p.highest())
	for group := annals.SeqNr(0); group <= to/100; group++ {
		for _, r := range p.group(group) {
			if r.n >= from && r.n <= to {
				rows = append(rows, r)
			}
		}
	}
	return pluginFilter(rows)
}

// start begins a new incarnation of the writer.
func (p *plugin) start(writer string) { p.next, p.writer = p.highest()+1, writer }

// write stores events, as one batch if there are several, without any condition.
func (p *plugin) write(count int) {
	low, high := p.next, p.next+annals.SeqNr(count)-1
	for n := low; n <= high; n++ {
		it := plan.Item{"par": plan.S(fmt.Sprintf("journal-P-%s-%d", entityID, n/100)), "num": plan.N(n % 100), "persistence_id": plan.S(string(entityID)), "seq": plan.N(n),
			"event": plan.B([]byte("e")), "ev_ser_id": plan.N(20), "writer_uuid": plan.S(p.writer)}
		if count > 1 {
			it["idx"], it["cnt"] = plan.N(n-low), plan.N(count-1)
		}
		p.put(it)
	}
	if count == 1 && high%100 == 0 || count > 1 && (low-1)/100 != high/100 {
		p.put(plan.Item{"par": plan.S(fmt.Sprintf("journal-SH-%s-%d", entityID, high/100%annals.SeqNr(p.shards))), "num": plan.N(0), "seq": plan.N(high - high%100)})
	}
	p.next = high + 1
}

func (p *plugin) put(it plan.Item) {
	if _, err := p.x.Write(context.Background(), plan.Write{Ops: []plan.Op{{Table: journalTable, Put: it}}}); err != nil {
		panic(err)
	}
}

// deleteTo is the plugin's delete.
func (p *plugin) deleteTo(to annals.SeqNr) {
	low := p.mark("SL")
	if to = min(to, p.highest()); to+1 > low {
		p.put(plan.Item{"par": plan.S(fmt.Sprintf("journal-SL-%s-%d", entityID, (to+1)/100%annals.SeqNr(p.shards))), "num": plan.N(0), "seq": plan.N(to + 1)})
	}
	for n := low; n <= to; n++ {
		_ = p.x.DeleteAll(context.Background(), journalTable, []plan.Item{{"par": plan.S(fmt.Sprintf("journal-P-%s-%d", entityID, n/100)), "num": plan.N(n % 100)}})
	}
}

// The plugin and this package write in turn. Each finds what the other has written: the plugin finds all that this package has appended and
// deleted, also when the plugin itself had left out a marker before; this package finds all events of the plugin, with and without markers.
func TestMixedWriters(t *testing.T) {
	t.Parallel()
	layout := Layout{Journal: Journal{SequenceShards: 3, Gaps: true}}
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		x := plantest.New(offer.Tables)
		p := &plugin{x: x, shards: 3}
		var stored []annals.SeqNr // acknowledged and not deleted
		last := annals.SeqNr(0)
		add := func(n annals.SeqNr) { stored, last = append(stored, n), n }
		remove := func(to annals.SeqNr) {
			stored = slices.DeleteFunc(stored, func(n annals.SeqNr) bool { return n <= to })
		}
		number := func(name string) annals.SeqNr {
			return annals.SeqNr(rapid.IntRange(0, int(last)+2).Draw(t, name))
		}
		size := rapid.OneOf(rapid.IntRange(1, 3), rapid.IntRange(1, 60))
		for turn := range rapid.IntRange(1, 4).Draw(t, "turns") {
			x.Log()
			p.start(fmt.Sprint("writer ", turn))
			for range rapid.IntRange(0, 4).Draw(t, "writes of the plugin") {
				switch rapid.IntRange(0, 5).Draw(t, "what") {
				case 0: // it refuses to store events, and their numbers stay unused
					p.next += annals.SeqNr(rapid.IntRange(1, 3).Draw(t, "refused"))
				case 1:
					if p.highest() == last { // it has not lost the end
						to := number("deleted")
						p.deleteTo(to)
						remove(to)
					}
				default:
					count := size.Draw(t, "events")
					for n := p.next; n < p.next+annals.SeqNr(count); n++ {
						add(n)
					}
					p.write(count)
				}
			}

			fresh, err := layout.Plan() // another process
			if err != nil {
				t.Fatal(err)
			}
			j := fresh.On(x).Journal.(*journal)
			found, err := j.LastSeqNr(t.Context(), entityID)
			if err != nil || found != last {
				t.Fatalf("the last number is %d, %v, want %d", found, err, last)
			}
			for range rapid.IntRange(1, 3).Draw(t, "appends") {
				count := size.Draw(t, "events")
				if _, err := j.Append(t.Context(), annals.Commit{ID: entityID, After: last, WriteID: annals.NewWriteID(), Events: slices.Repeat([]annals.NewEvent{plantest.Event("e")}, count)}); err != nil {
					t.Fatal(err)
				}
				for range count {
					add(last + 1)
				}
				if p.highest() != last {
					t.Fatalf("the plugin finds %d as the highest number, want %d", p.highest(), last)
				}
			}
			if rapid.Bool().Draw(t, "delete") {
				to := number("to")
				if err := j.DeleteTo(t.Context(), entityID, to); err != nil {
					t.Fatal(err)
				}
				if remove(to); to > 0 && p.mark("SL") < min(to, last)+1 {
					t.Fatalf("after a delete to %d the plugin finds %d as the lowest number", to, p.mark("SL"))
				}
			}
			from := max(1, number("from"))
			var got []annals.SeqNr
			for e, err := range j.Replay(t.Context(), entityID, from, annals.MaxSeqNr) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, e.SeqNr)
			}
			from = max(from, p.mark("SL"))
			want := slices.DeleteFunc(slices.Clone(stored), func(n annals.SeqNr) bool { return n < from })
			if !slices.Equal(got, want) {
				t.Fatalf("replay from %d: %v, want %v", from, got, want)
			}
			// The plugin shows the same, but for the batch that the beginning of the window cuts.
			if shown := p.replay(from, annals.MaxSeqNr); !slices.Equal(shown, got) && !slices.Equal(shown, got[uncut(p, from, got):]) {
				t.Fatalf("the plugin replays %v, want %v", shown, got)
			}
		}
	})
}

// uncut returns how many of the numbers shown are of a batch that begins before from.
func uncut(p *plugin, from annals.SeqNr, shown []annals.SeqNr) int {
	if len(shown) == 0 {
		return 0
	}
	rows := p.group(shown[0] / 100)
	at, _ := slices.BinarySearchFunc(rows, shown[0], func(r row, n annals.SeqNr) int { return cmp.Compare(r.n, n) })
	if rows[at].first >= from {
		return 0
	}
	end, _ := slices.BinarySearch(shown, rows[at].last+1)
	return end
}

// Numbers may be missing where the plugin left them unused, and nowhere else.
func TestHoles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first   annals.SeqNr // 11 unless it is given
		writers string       // of the events from first on; . is no event, - no writer
		batches string       // the numbers with the same letter are of one batch
		gaps    bool
		want    string // the numbers replayed, by the last digit; ! is ErrCorrupt
	}{
		"lost":                                    {writers: "12.4567", want: "12!"},
		"lost, with Gaps":                         {writers: "12.4567", gaps: true, want: "124567"},
		"lost, the last of a group":               {first: 97, writers: "12.4567", want: "78!"},
		"lost, the first but one of a group":      {first: 97, writers: "1234.67", want: "7890!"},
		"lost between two batches":                {writers: "aaa.ccc", batches: "aaa ccc", want: "123!"},
		"unused":                                  {writers: "pp.pppp", want: "124567"},
		"unused, between commits of others":       {writers: "1p.p567", want: "124567"},
		"unused by a writer that had just begun":  {writers: "123.pp7", want: "123567"},
		"unused, after two commits of the writer": {writers: "1pp.567", want: "123567"},
		"unused, before a batch":                  {writers: "12.pppp", batches: "   aa  ", want: "124567"},
		"of a marker without event":               {first: 97, writers: "123.567", want: "789!"},
		"the rest of a batch":                     {writers: "1bb.567", batches: " bbb   ", want: "1567"},
		"the rest of a batch, its end":            {writers: "1.b4567", batches: " bb    ", want: "14567"},
		"the rests of two batches":                {writers: "1b.cc.7", batches: " bbccc ", want: "17"},
		"the rest of a batch, and one more lost":  {writers: "1b..567", batches: " bb    ", want: "1!"},
		"no writer":                               {writers: "1-.4567", want: "124567"},
	} {
		layout := Layout{Journal: Journal{Gaps: c.gaps}}
		offer, err := layout.Plan()
		if err != nil {
			t.Fatal(err)
		}
		p := &plugin{x: plantest.New(offer.Tables), shards: 10}
		first := cmp.Or(c.first, 11)
		p.put(plan.Item{"par": plan.S(fmt.Sprintf("journal-SL-%s-0", entityID)), "num": plan.N(0), "seq": plan.N(first)})
		for i, writer := range c.writers {
			n := first + annals.SeqNr(i)
			it := plan.Item{"par": plan.S(fmt.Sprintf("journal-P-%s-%d", entityID, n/100)), "num": plan.N(n % 100), "persistence_id": plan.S(string(entityID)), "seq": plan.N(n),
				"event": plan.B(nil), "ev_ser_id": plan.N(20), "writer_uuid": plan.S(strings.Trim(string(writer), "-"))}
			if c.batches != "" && c.batches[i] != ' ' {
				letter := c.batches[i : i+1]
				it["idx"], it["cnt"] = plan.N(i-strings.Index(c.batches, letter)), plan.N(strings.Count(c.batches, letter)-1)
			}
			if writer != '.' {
				p.put(it)
			}
		}
		got := ""
		for e, err := range offer.On(p.x).Journal.Replay(t.Context(), entityID, 1, annals.MaxSeqNr) {
			switch {
			case err == nil:
				got += fmt.Sprint(e.SeqNr % 10)
			case errors.Is(err, annals.ErrCorrupt):
				got += "!"
			default:
				t.Errorf("%s: %v", name, err)
			}
		}
		if got != c.want {
			t.Errorf("%s: replayed %s, want %s", name, got, c.want)
		}
	}
}

// The example of the rejected event at a multiple of 100: the plugin's next incarnation overwrites three acknowledged events, ours finds them.
func TestRejectedAt100(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ stored, rejected int }{{99, 1}, {98, 3}, {40, 61}} { // J-X11, J-X12, and a longer batch
		offer, err := Layout{}.Plan()
		if err != nil {
			t.Fatal(err)
		}
		p := &plugin{x: plantest.New(offer.Tables), shards: 10}
		p.start("a")
		for range c.stored {
			p.write(1)
		}
		p.next += annals.SeqNr(c.rejected)
		for range 3 {
			p.write(1)
		}
		last, err := offer.On(p.x).Journal.LastSeqNr(t.Context(), entityID)
		if want := p.next - 1; err != nil || last != want || p.highest() != annals.SeqNr(c.stored) {
			t.Errorf("after %d events, %d rejected and 3 more: the last number is %d, %v, want %d; the plugin finds %d", c.stored, c.rejected, last, err, want, p.highest())
		}
		var got []string
		for e, err := range offer.On(p.x).Journal.Replay(t.Context(), entityID, annals.SeqNr(c.stored), annals.MaxSeqNr) {
			got = append(got, fmt.Sprint(e.SeqNr, err))
		}
		if len(got) != 4 {
			t.Errorf("after %d events, %d rejected and 3 more: %s", c.stored, c.rejected, strings.Join(got, ", "))
		}
	}
}

// The last number when it is not that of the newest event in the marked group.
func TestLastNumber(t *testing.T) {
	t.Parallel()
	x, j := filled(t, 99, 33)
	last := func(what string, j *journal, want annals.SeqNr) {
		t.Helper()
		if got, err := j.LastSeqNr(t.Context(), entityID); err != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", what, got, err, want)
		}
	}
	last("one group", j, 99)
	p := &plugin{x: x, shards: 3}
	p.start("p")
	p.write(3)
	unmarked := x.Clone()
	for shard := range int64(3) { // as versions up to 1.1.1 left it
		if err := unmarked.DeleteAll(t.Context(), journalTable, []plan.Item{j.Counter(akkakeys.High, entityID, shard)}); err != nil {
			t.Fatal(err)
		}
	}
	known := *j
	known.x = unmarked
	last("a batch without its marker, behind the number that the process knows", &known, 102)
	late, _, _ := x.Get(t.Context(), plan.Get{Table: journalTable, Key: j.key(entityID, 101)})
	if err := j.DeleteTo(t.Context(), entityID, annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	last("all events deleted", j, 102)
	p.put(late)
	last("a deleted event written late", j, 102)
	shown(t, j, 103, 102)
}
