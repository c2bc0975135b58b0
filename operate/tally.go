package operate

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// counted is what an entity has, or the events of it that were counted.
type counted struct {
	ID     annals.PersistenceID `json:"id"`
	Events int                  `json:"events"`
	Bytes  int64                `json:"bytes"` // of payloads and metadata
	// Over is how much of Events, or of Bytes where these are compared, may be of other entities: so many entities had events that not all of them could be
	// remembered.
	Over int64 `json:"over,omitempty"`

	place int // in the heap of a tally
}

// tally counts the events of entities, of which it remembers most at a time. When there are more, a new one takes the place of the smallest one, and may be
// shown with what that had: an entity with more than 1/most of all events is never missed.
type tally struct {
	most    int
	bytes   bool // the smallest has the least bytes, not events
	whole   bool // each entity is added once, with all it has: then nothing of another one is shown with it
	of      map[annals.PersistenceID]*counted
	heap    []*counted // the smallest one first
	evicted bool       // there were more
}

// mostTallied bounds the memory of a tally to some 20 MB.
const mostTallied = 100_000

func (t *tally) Len() int           { return len(t.heap) }
func (t *tally) Less(i, j int) bool { return t.weight(t.heap[i]) < t.weight(t.heap[j]) }
func (t *tally) Swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].place, t.heap[j].place = i, j
}
func (t *tally) Push(x any) { t.heap = append(t.heap, x.(*counted)) }
func (t *tally) Pop() any   { panic("operate: a tally only replaces") }

func (t *tally) weight(c *counted) int64 {
	if t.bytes {
		return c.Bytes
	}
	return int64(c.Events)
}

// add counts events of an entity, and reports whether it was not remembered.
func (t *tally) add(id annals.PersistenceID, events int, bytes int64) (isNew bool) {
	c := t.of[id]
	switch {
	case c != nil && t.whole:
		return false // it was given twice
	case c != nil:
	case len(t.heap) < t.most:
		c = &counted{ID: id, place: len(t.heap)}
		heap.Push(t, c)
	default:
		c, t.evicted = t.heap[0], true
		added := counted{ID: id, Events: events, Bytes: bytes}
		if t.whole && t.weight(&added) <= t.weight(c) {
			return true
		}
		delete(t.of, c.ID)
		if c.ID, c.Over = id, t.weight(c); t.whole {
			*c = counted{ID: id, place: c.place}
		}
	}
	if isNew = t.of[id] == nil; isNew {
		if t.of == nil {
			t.of = map[annals.PersistenceID]*counted{}
		}
		t.of[id] = c
	}
	c.Events, c.Bytes = c.Events+events, c.Bytes+bytes
	heap.Fix(t, c.place)
	return isNew
}

// top are the n largest, the largest first, without those that have nothing of what is compared.
func (t *tally) top(n int) []counted {
	slices.SortFunc(t.heap, func(a, b *counted) int {
		return cmp.Or(cmp.Compare(t.weight(b), t.weight(a)), cmp.Compare(a.ID, b.ID))
	})
	all := []counted{}
	for _, c := range t.heap[:min(n, len(t.heap))] {
		if t.weight(c) > 0 {
			all = append(all, *c)
		}
	}
	return all
}

// sizeOf is what an event or a state has in bytes.
func sizeOf(p, metadata annals.Payload) int64 { return int64(len(p.Data) + len(metadata.Data)) }

// reading says what stats, top, cost, trace and verify read.
type reading struct {
	kind, since string
	from        time.Time // of since; zero: there is none
	rate        int
	part        bool // only some of them are read
	keysOnly    bool // of events
}

func readingFlags(c *cobra.Command, o *options) *reading {
	r := &reading{}
	r.limits(c, o)
	c.Flags().StringVar(&r.since, "since", "", "only events since this time (RFC 3339), or since so long ago")
	c.Flags().Lookup("rate").Usage = "at most so many entities in a second, or events with --since; 0 is no limit"
	return r
}

// limits adds the flags for what is read of all entities.
func (r *reading) limits(c *cobra.Command, o *options) {
	c.Flags().StringVar(&r.kind, "type", "", "only entities of this type")
	c.Flags().IntVar(&r.rate, "rate", 0, "at most so many entities in a second; 0 is no limit")
	o.completeType(c)
}

// begin checks the flags beside args, and reads --since.
func (r *reading) begin(args []string) (err error) {
	switch {
	case r.rate < 0:
		return usage("--rate is 0 or more")
	case len(args) > 0 && (r.kind != "" || r.since != ""):
		return usage("give ids, or --type and --since")
	case r.since != "":
		r.from, err = since(r.since)
	}
	return err
}

// open begins, and opens the store.
func (r *reading) open(k *call) (annals.Store, error) {
	if err := r.begin(k.args); err != nil {
		return nil, err
	}
	return k.store()
}

// announce says on a terminal what reading all events costs, where the store knows.
func (k *call) announce(s annals.Store) {
	_, noUnits := ability.Of[ability.UnitCounter](s)
	sizer, err := ability.Of[ability.Sizer](s)
	if err != nil || noUnits != nil {
		return
	}
	if sizes, err := sizer.Sizes(k.ctx); err == nil && len(sizes) > 0 && sizes[0].Items > 0 {
		k.progress("reading about %d items, %d bytes, %.0f read units\n", sizes[0].Items, sizes[0].Bytes, sizes[0].ReadUnits)
	}
}

// ids yields the entities to read.
func (r *reading) ids(k *call, s annals.Store) iter.Seq2[annals.PersistenceID, error] {
	ids := listed(k.args)
	if len(k.args) == 0 {
		if !r.part {
			k.announce(s)
		}
		ids = s.Query().IDs(k.ctx, r.kind, "")
	}
	return limited(k.ctx, ids, r.rate)
}

// walk calls entity with each entity or, with --since, event with each event since then, in the order of times: at most limit times, if that is not 0. all
// reports whether there are no more.
func (r *reading) walk(k *call, s annals.Store, limit int, entity func(annals.PersistenceID) error, event func(annals.Event) error) (all bool, err error) {
	if r.since == "" {
		return each(r.ids(k, s), limit, entity)
	}
	f := annals.Filter{Type: r.kind, After: annals.Offset{Time: r.from}, KeysOnly: r.keysOnly}
	return each(limited(k.ctx, s.Query().Events(k.ctx, f), r.rate), limit, event)
}

// each calls do with items, at most limit of them if that is not 0. all reports whether there are no more.
func each[T any](items iter.Seq2[T, error], limit int, do func(T) error) (all bool, err error) {
	n := 0
	for item, err := range items {
		if err != nil || limit > 0 && n == limit {
			return false, err
		}
		if err := do(item); err != nil {
			return false, err
		}
		n++
	}
	return true, nil
}

// contents hands over the events of an entity, or its durable state when it has none, and reports whether all of it could be read.
func (a *answer) contents(s annals.Store, id annals.PersistenceID, event func(annals.Event), state func(annals.State)) (readable bool, err error) {
	caps, some := s.Capabilities(), false
	if caps.Events {
		for e, err := range s.Journal().Replay(a.ctx, id, 1, annals.MaxSeqNr) {
			if errors.Is(err, annals.ErrCorrupt) || errors.Is(err, annals.ErrTruncated) {
				return false, nil
			}
			if err != nil {
				return false, err
			}
			some = true
			event(e)
		}
	}
	if some || !caps.States {
		return true, nil
	}
	st, ok, err := s.States().Get(a.ctx, id)
	if ok {
		state(st)
	}
	return true, err
}

// unreadable says that entities could not be read to their ends.
func (a *answer) unreadable(n int) {
	if n > 0 {
		a.find("unreadable", a.next("verify"), "not everything could be read: %s", entities(n, false))
	}
}

// listed yields each of ids once.
func listed(ids []string) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		for i, id := range ids {
			if !slices.Contains(ids[:i], id) && !yield(annals.PersistenceID(id), nil) {
				return
			}
		}
	}
}

// limited yields what items does, at most perSecond in a second if that is not 0. It ends with ctx.
func limited[T any](ctx context.Context, items iter.Seq2[T, error], perSecond int) iter.Seq2[T, error] {
	if perSecond == 0 {
		return items
	}
	return func(yield func(T, error) bool) {
		ticks := time.NewTicker(max(time.Second/time.Duration(perSecond), 1))
		defer ticks.Stop()
		for item, err := range items {
			if !yield(item, err) || err != nil {
				return
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				var none T
				yield(none, ctx.Err())
				return
			}
		}
	}
}
