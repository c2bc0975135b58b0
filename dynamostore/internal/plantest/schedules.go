package plantest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/random"
)

// RandomSchedules runs owners that append, save snapshots, delete, skip and forget, and write states, and readers, in random orders of their
// requests: with small pages, with indexes that lag behind, with one write that is executed a second time, with clocks that differ and jump, and with
// faults of writes, which tries sends. Reads must be complete. It does so for each layout, by name.
func RandomSchedules(t *testing.T, layouts map[string]plan.Layout, tries Tries) {
	t.Helper()
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for r := range random.Rounds(t, 8) {
				synctest.Test(t, func(t *testing.T) { schedule(t, layout, r, tries) })
			}
		})
	}
}

func schedule(t *testing.T, layout plan.Layout, r *random.Source, tries Tries) {
	t.Helper()
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	s := &Run{random: r, tokens: map[string]time.Time{}}
	h := &history{Entity: &Entity{Ctx: t.Context(), Offer: offer, ID: "Thing|1", First: 1}, run: s, random: r, owners: 1, times: map[annals.SeqNr]time.Time{},
		stateEvents: offer.Capabilities.StateEvents && r.OneIn(2),
		put:         map[annals.SeqNr][]string{}, skips: map[annals.SeqNr]string{}, targets: map[annals.SeqNr][]annals.SeqNr{}}
	s.Orders = Orders{Page: random.OneOf(r, 0, 2, 3), Late: r.OneIn(3), Lag: r.OneIn(2), Faults: r.OneIn(2), Clocks: r.OneIn(2)}
	p := Scenario{Tables: New(offer.Tables)}
	if r.OneIn(4) { // the numbers get a third digit soon
		h.size = min(95+r.IntN(5), cmp.Or(offer.Capabilities.Limits.MaxEvents, 100))
	}
	for range r.IntN(6) {
		if err := h.step(p.Tables); err != nil {
			t.Fatal(err)
		}
	}
	through := func(do Process) Process {
		return func(x plan.Executor) error { return do(tries(x, offer.Tables, x.(*process))) }
	}
	owner := through(h.steps(1 + r.IntN(6)))
	h.guards = NewGuards(h.Ctx, layout, p.Tables)
	reader := func(x plan.Executor) error {
		read, err := h.numbers(x)
		return errors.Join(err, h.recover(x), h.replay(x), h.others(x), h.guards.Send(x, offer, read))
	}
	p.Processes = []Process{owner, through(reader)}
	if offer.Capabilities.FenceAfterDelete && r.OneIn(2) {
		h.owners++
		p.Processes = append(p.Processes, through(h.steps(1+r.IntN(3)))) // another owner
	}
	if r.OneIn(2) {
		p.Processes = append(p.Processes, through(reader))
	}
	p.End = reader
	if err := s.run(p); err != nil {
		t.Errorf("%v\npages of %d, late %t, lag %t, faults %t, clocks %t, in the order\n%s", err, s.Page, s.Late, s.Lag, s.Faults, s.Clocks, p.Tables.Log())
	}
}

// history is an entity in a random schedule.
type history struct {
	*Entity
	run       *Run
	guards    *Guards
	random    *random.Source
	owners    int
	size      int // of the next commit; 0 is a small one
	writes    byte
	saved     annals.SeqNr               // the newest snapshot whose save was acknowledged
	marked    annals.SeqNr               // the number up to which a delete was begun
	uncovered annals.SeqNr               // that of a delete that no snapshot covers
	times     map[annals.SeqNr]time.Time // of events, as receipts have them

	stateEvents bool                            // writes of the state have events
	revision    annals.SeqNr                    // the last one that was acknowledged
	put         map[annals.SeqNr][]string       // the data of the writes of a revision
	skipped     annals.SeqNr                    // the last number of the entity that skips
	skips       map[annals.SeqNr]string         // what was acknowledged after a number of that entity
	targets     map[annals.SeqNr][]annals.SeqNr // from which numbers it was tried to skip to a number
}

// object returns an event whose data is a JSON object, which the formats of all layouts take.
func object(n byte) annals.NewEvent { return Event(fmt.Sprintf(`{"n":%d}`, n)) }

// call makes a call until it has an outcome, as hosts do. unknown says that it may have been stored before the last try.
func call(do func() error) (unknown bool, err error) {
	for range 30 {
		switch err = do(); {
		case errors.Is(err, annals.ErrUnknown):
			unknown = true
		case !errors.Is(err, annals.ErrUnavailable):
			return unknown, err
		}
	}
	return unknown, err
}

// steps are those of an owner.
func (h *history) steps(n int) Process {
	return InTurn(slices.Repeat([]Process{h.step}, n)...)
}

// step is a random step of an owner.
func (h *history) step(x plan.Executor) error {
	c := h.Offer.On(x)
	caps := h.Offer.Capabilities
	switch what := h.random.IntN(14); {
	case what == 8:
		return h.stepState(x)
	case what == 9, what > 11:
		return h.stepSkip(x)
	case what == 10:
		return h.stepForget(x)
	case what < 4 || what == 11 || h.Acked == 0:
		h.writes++
		after := h.Acked
		commit := annals.Commit{ID: h.ID, After: after, WriteID: annals.WriteID{14: 1, 15: h.writes}}
		size := cmp.Or(h.size, 1+h.random.IntN(3))
		h.size = 0
		for range size {
			commit.Events = append(commit.Events, object(h.writes))
		}
		last := after + annals.SeqNr(len(commit.Events))
		if caps.CommitSnapshot && (after == 0 && caps.Limits.FirstSnapshot || h.random.OneIn(4)) {
			commit.Snapshot = &annals.Snapshot{ID: h.ID, SeqNr: last, Payload: object(h.writes).Payload}
		}
		var r annals.Receipt
		unknown, err := call(func() (err error) { r, err = c.Journal.Append(h.Ctx, commit); return err })
		switch {
		case errors.Is(err, annals.ErrConflict) && h.owners > 1: // another owner was first
			return nil
		case errors.Is(err, annals.ErrConflict) && unknown && !caps.Repeatable:
			last, err := c.Journal.LastSeqNr(h.Ctx, h.ID)
			h.Acked = max(h.Acked, last)
			return err
		case err != nil:
			return fmt.Errorf("append after %d: %w", after, err)
		case r.SeqNr != last:
			return fmt.Errorf("append after %d: the last number is %d, want %d", after, r.SeqNr, last)
		}
		for n := after + 1; n <= last; n++ {
			h.times[n] = r.Time
		}
		h.Acked = max(h.Acked, last)
		if commit.Snapshot != nil {
			h.saved = max(h.saved, last)
		}
	case what < 6 && caps.Snapshots:
		n := h.Acked - annals.SeqNr(h.random.IntN(int(min(h.Acked, 3))))
		if _, err := call(func() error {
			return c.Snapshots.Save(h.Ctx, annals.Snapshot{ID: h.ID, SeqNr: n, Payload: object(h.writes).Payload})
		}); err != nil {
			return fmt.Errorf("save %d: %w", n, err)
		}
		h.saved = max(h.saved, n)
	case what < 7 || !caps.ManySnapshots:
		to := h.saved
		if h.saved == 0 || h.random.OneIn(6) {
			to = annals.SeqNr(h.random.IntN(int(h.Acked))) + 1
		}
		if h.marked = max(h.marked, to); to > h.saved {
			h.uncovered = max(h.uncovered, to)
		}
		if _, err := call(func() error { return c.Journal.DeleteTo(h.Ctx, h.ID, to) }); err != nil {
			return fmt.Errorf("delete to %d: %w", to, err)
		}
	case h.saved > 1:
		if _, err := call(func() error {
			return c.Snapshots.Delete(h.Ctx, h.ID, annals.SnapshotCriteria{MaxSeqNr: h.saved - 1})
		}); err != nil {
			return fmt.Errorf("delete snapshots below %d: %w", h.saved, err)
		}
	}
	return nil
}

// restored reports whether an append that was executed a second time may have stored an event again that was deleted: where the layout does not
// claim FenceAfterDelete. The event in front of those that are deleted makes reads ErrCorrupt.
func (h *history) restored(err error) bool {
	return errors.Is(err, annals.ErrCorrupt) && h.run.stored && h.marked > 0 && !h.Offer.Capabilities.FenceAfterDelete
}

// recover recovers the entity. Only numbers that were deleted without a snapshot may be missing, and none between two events.
func (h *history) recover(x plan.Executor) error {
	for {
		acked := h.Acked
		var covered, missing annals.SeqNr
		begun, torn := false, false
		last, err := h.Offer.On(x).Recover(h.Ctx, h.ID, func(s annals.Snapshot) error {
			covered, missing, begun, torn = s.SeqNr, 0, false, false
			return nil
		}, func(e annals.Event) error {
			if e.SeqNr != covered+1 {
				missing, torn = e.SeqNr-1, torn || begun
			}
			covered, begun = e.SeqNr, true
			return nil
		})
		switch {
		case errors.Is(err, annals.ErrTruncated):
			continue
		case h.restored(err):
			return nil
		case err != nil:
			return fmt.Errorf("recovery: %w", err)
		case torn || missing > h.uncovered || last > covered && last > h.uncovered:
			return fmt.Errorf("recovery: to %d, events up to %d are missing, between events: %t, the last number is %d; %d deleted, %d of them without a snapshot", covered, missing, torn, last, h.marked, h.uncovered)
		case last < acked:
			return fmt.Errorf("recovery: the last number is %d, %d was acknowledged", last, acked)
		}
		return nil
	}
}

// replay reads all events, and the last number.
func (h *history) replay(x plan.Executor) error {
	acked := h.Acked
	c := h.Offer.On(x)
	var before annals.SeqNr
	truncated := false
	for e, err := range c.Journal.Replay(h.Ctx, h.ID, 1, annals.MaxSeqNr) {
		switch {
		case errors.Is(err, annals.ErrTruncated) && before > 0 && h.marked > before:
			truncated = true
		case h.restored(err):
			return nil
		case err != nil:
			return fmt.Errorf("replay: %w", err)
		case e.SeqNr != before+1 && (before > 0 || e.SeqNr > h.marked+1):
			return fmt.Errorf("replay: event %d after %d, %d deleted", e.SeqNr, before, h.marked)
		case !h.times[e.SeqNr].IsZero() && !h.times[e.SeqNr].Equal(e.Time):
			return fmt.Errorf("replay: event %d has the time %v, its receipt %v", e.SeqNr, e.Time, h.times[e.SeqNr])
		default:
			before = e.SeqNr
		}
	}
	if before < acked && !truncated && h.marked < acked {
		return fmt.Errorf("replay: to %d, %d was acknowledged", before, acked)
	}
	if last, err := c.Journal.LastSeqNr(h.Ctx, h.ID); last < acked || err != nil {
		return fmt.Errorf("the last number is %d, %d was acknowledged: %w", last, acked, err)
	}
	return nil
}

// index returns the tables as the indexes have them.
func (s *Run) index() *Executor {
	if s.lagging == nil || s.random.OneIn(3) {
		s.lagging = s.tables.Clone()
	}
	return s.lagging
}

// lags reports whether a query is answered by what an index had at an earlier time.
func (s *Run) lags(q plan.Query) bool {
	return s.Lag && q.Index != "" && !s.tables.tables[q.Table].Local(q.Index)
}
