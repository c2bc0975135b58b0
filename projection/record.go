package projection

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/document"
	"github.com/annals-go/annals/internal/leases"
	"github.com/annals-go/annals/internal/quote"
)

// watch finds runners that are dead.
type watch = leases.Watch[int64]

// record is what the runners of a projection share: who they are, and who handles which slices. It is one durable state. A runner changes
// it only after the revision that it has read, so each change is decided on the newest record.
type record struct {
	Source  source            `json:"source"`           // of the events; fixed by the first runner
	Orders  int64             `json:"orders,omitempty"` // counts the changes of parked entities by Control, so that runners read them again
	Paused  bool              `json:"paused,omitempty"`
	Late    int64             `json:"late,omitempty"`  // events that became visible too late, since the first run
	LateAt  time.Time         `json:"lateAt,omitzero"` // when the last of them was found
	Epoch   int64             `json:"epoch"`           // the highest that a lease has had
	Ranges  []lease           `json:"ranges"`          // of all slices, in their order; the same while there are runners
	Runners map[string]runner `json:"runners"`         // by id
}

// source says what a projection follows.
type source struct {
	Type   string `json:"type,omitempty"`   // "": all
	Tag    string `json:"tag,omitempty"`    // "": any
	States bool   `json:"states,omitempty"` // durable states, not events
}

func (s source) String() string {
	what := "events"
	if s.States {
		what = "states"
	}
	return fmt.Sprintf("%s of type %q with tag %q", what, s.Type, s.Tag)
}

func (s source) filter() annals.Filter { return annals.Filter{Type: s.Type, Tag: s.Tag} }

// lease says who handles the slices From ≤ s < To.
type lease struct {
	From  int    `json:"from"`
	To    int    `json:"to"`
	Owner string `json:"owner,omitempty"` // the runner whose share the range belongs to
	// Runner is the runner that handles the range. When it is not the owner, it finishes its batch and frees the range.
	Runner string `json:"runner,omitempty"`
	Epoch  int64  `json:"epoch,omitempty"` // under which the range was taken last; no two takes have the same
}

func (l lease) slices() annals.SliceRange { return annals.SliceRange{From: l.From, To: l.To} }

// runner is a process that takes part in a projection.
type runner struct {
	Beat  int64 `json:"beat"`  // changes with each sign of life
	Lease int64 `json:"lease"` // in milliseconds: without a sign of life for so long, the others take it for dead
	// Troubles are of ranges, in their order. Those in which nothing was repeated and that go on have none.
	Troubles []trouble `json:"troubles,omitempty"`
}

// trouble is what a runner says of a range that it handles.
type trouble struct {
	From    int       `json:"from"`            // of the range
	Since   time.Time `json:"since,omitzero"`  // when the range has stopped to go on; zero: it goes on
	Hangs   bool      `json:"hangs,omitempty"` // the handler does not return: the range is free for other runners
	Repeats int64     `json:"repeats,omitempty"`
	Cause   string    `json:"cause,omitempty"`   // of the last repeat
	Warning string    `json:"warning,omitempty"` // of the store of the events
}

// hangs reports whether the handler of the runner id does not return in l.
func (r record) hangs(id string, l lease) bool {
	return slices.ContainsFunc(r.Runners[id].Troubles, func(t trouble) bool { return t.Hangs && t.From == l.From })
}

// able is how many runners hang in no range.
func (r record) able() (n int) {
	for _, x := range r.Runners {
		if !slices.ContainsFunc(x.Troubles, func(t trouble) bool { return t.Hangs }) {
			n++
		}
	}
	return n
}

// signs are the signs of life of the runners in r.
func (r record) signs() map[string]leases.Sign[int64] {
	all := make(map[string]leases.Sign[int64], len(r.Runners))
	for id, x := range r.Runners {
		all[id] = leases.Sign[int64]{Beat: x.Beat, Lease: x.lease()}
	}
	return all
}

func (r runner) lease() time.Duration { return time.Duration(r.Lease) * time.Millisecond }

// recordOf is the document with the record of projection.
func recordOf(projection string) document.Document[record] {
	return document.Document[record]{ID: annals.NewPersistenceID("annals.projection", projection), Codec: recordCodec, Check: record.fault}
}

// fault returns what is wrong with a record that was read. The ranges are all slices, each once, or none before the first runner.
func (r record) fault() error {
	first := r.whole().From
	to := first
	for _, l := range r.Ranges {
		if l.From != to || l.To <= l.From {
			return fmt.Errorf("the ranges %v are not those of all slices", r.Ranges)
		}
		to = l.To
	}
	if len(r.Ranges) > 0 && (to != first+annals.SliceCount || first != 0 && first != annals.SliceCount) {
		return fmt.Errorf("the ranges end at slice %d", to)
	}
	for id, x := range r.Runners {
		if x.Lease <= 0 {
			return fmt.Errorf("the lease of runner %s is %d ms", quote.Text(id), x.Lease)
		}
	}
	return nil
}

// whole is the range of all slices: all that of Ranges are together.
func (r record) whole() (all annals.SliceRange) {
	if n := len(r.Ranges); n > 0 {
		all = annals.SliceRange{From: r.Ranges[0].From, To: r.Ranges[n-1].To}
	}
	return all
}

var recordCodec = codec.JSON[record]("annals.projection")

// trouble is what the runner of l says of it, or one that hangs in it.
func (r record) trouble(l lease) (found trouble) {
	for id, x := range r.Runners {
		for _, t := range x.Troubles {
			if t.From == l.From && (id == l.Runner || l.Runner == "" && t.Hangs) {
				found = t
			}
		}
	}
	return found
}

// decide returns the record that the runner me writes after it has read r. It is a member with the sign of life self and handles the ranges
// in running, each under the epoch that is given. dead are runners to remove. New epochs are above floor.
func (r record) decide(me string, self runner, running map[annals.SliceRange]int64, dead []string, floor int64) record {
	r = r.without(dead...)
	r.Runners[me] = self
	r.assign()
	for i := range r.Ranges {
		l := &r.Ranges[i]
		epoch, runs := running[l.slices()]
		if l.Runner == me && (!runs || epoch != l.Epoch || r.hangs(me, *l)) {
			l.Runner = "" // its work has ended or hangs, or did not begin because the answer to an earlier write was lost
		}
		if l.Runner == "" && l.Owner == me && !runs && !r.Paused {
			r.Epoch = max(r.Epoch, floor) + 1
			l.Runner, l.Epoch = me, r.Epoch
		}
	}
	return r
}

// without returns a copy of the record without runners that have left or are dead. Their ranges are free.
func (r record) without(ids ...string) record {
	all := map[string]runner{}
	for id, x := range r.Runners {
		if !slices.Contains(ids, id) {
			all[id] = x
		}
	}
	r.Ranges, r.Runners = slices.Clone(r.Ranges), all
	r.assign()
	return r
}

// assign gives each range an owner. A range whose holder is not a runner any more is free, and a runner that hangs in it owns it only if all
// do. Without runners no range has an owner.
func (r *record) assign() {
	parts := make([]leases.Part, len(r.Ranges))
	for i := range r.Ranges {
		l := &r.Ranges[i]
		if _, ok := r.Runners[l.Runner]; !ok {
			l.Runner = ""
		}
		parts[i] = leases.Part{Owner: l.Owner, Holder: l.Runner}
	}
	runners := slices.Collect(maps.Keys(r.Runners))
	for i, owner := range leases.Share(parts, runners, func(i int, runner string) bool { return !r.hangs(runner, r.Ranges[i]) }) {
		r.Ranges[i].Owner = owner
	}
}

// handles returns the ranges that the runner me handles, with their epochs: those that it holds and does not have to hand over.
func (r record) handles(me string) map[annals.SliceRange]int64 {
	all := map[annals.SliceRange]int64{}
	for _, l := range r.Ranges {
		if l.Runner == me && l.Owner == me && !r.Paused {
			all[l.slices()] = l.Epoch
		}
	}
	return all
}

// waits reports whether the runner me waits for a range that another one has to hand over.
func (r record) waits(me string) bool {
	return slices.ContainsFunc(r.Ranges, func(l lease) bool { return l.Owner == me && l.Runner != me && !r.hangs(me, l) }) && !r.Paused
}
