package ability_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
)

// overtaken is a store without a Recoverer in which another owner acts between the calls of a recovery.
type overtaken struct {
	*faulty.Store
	between func()
}

func newOvertaken(s annals.Store, between func()) overtaken {
	return overtaken{&faulty.Store{Store: s, Around: func(_ context.Context, _ *faulty.Call, run func() error) error { between(); return run() }}, between}
}

func (o overtaken) Journal() annals.Journal {
	return overtakenJournal{o.Store.Journal(), o.Store.Store.Journal(), o.between}
}

type overtakenJournal struct {
	annals.Journal
	inner   annals.Journal // between is not called before its calls
	between func()
}

// Replay pages, two events at a time, and notices what was deleted between two pages.
func (o overtakenJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		begun := false
		for {
			o.between()
			n := 0
			for e, err := range o.inner.Replay(ctx, id, from, to) {
				if n++; n > 2 {
					break
				}
				if err == nil && begun && e.SeqNr != from {
					yield(annals.Event{}, &annals.Error{Op: "replay", ID: id, Kind: annals.ErrTruncated})
					return
				}
				if !yield(e, err) || err != nil {
					return
				}
				begun, from = true, e.SeqNr+1
			}
			if n == 0 {
				if last, _ := o.inner.LastSeqNr(ctx, id); begun && last >= from {
					yield(annals.Event{}, &annals.Error{Op: "replay", ID: id, Kind: annals.ErrTruncated})
				}
				return
			}
		}
	}
}

// owner writes, snapshots, deletes and prunes one entity as a runtime would: events are deleted and older snapshots
// pruned only up to a snapshot that was acknowledged. The state is the text of all event numbers.
type owner struct {
	t     testing.TB
	store annals.Store
	id    annals.PersistenceID
	last  annals.SeqNr
	saved annals.SeqNr
}

func stateAt(n annals.SeqNr) (s string) {
	for i := range n {
		s += fmt.Sprint(" ", i+1)
	}
	return s
}

func (o *owner) act(what int) {
	ctx := o.t.Context()
	var err error
	switch what {
	case 0, 1:
		n := annals.SeqNr(what*2 + 1)
		events := make([]annals.NewEvent, n)
		for i := range events {
			events[i].Payload = annals.Payload{SerializerID: 4, Data: fmt.Append(nil, " ", o.last+annals.SeqNr(i)+1)}
		}
		_, err = o.store.Journal().Append(ctx, annals.Commit{ID: o.id, After: o.last, Events: events, WriteID: annals.NewWriteID()})
		o.last += n
	case 2, 3: // also in the middle of a commit
		if n := o.last - annals.SeqNr(what-2); n > o.saved {
			err = o.store.Snapshots().Save(ctx, annals.Snapshot{ID: o.id, SeqNr: n, Payload: annals.Payload{SerializerID: 4, Data: []byte(stateAt(n))}})
			o.saved = n
		}
	case 4:
		err = o.store.Journal().DeleteTo(ctx, o.id, o.saved)
	case 5:
		if o.saved > 1 {
			err = o.store.Snapshots().Delete(ctx, o.id, annals.SnapshotCriteria{MaxSeqNr: o.saved - 1})
		}
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// No event comes after a snapshot with the greatest number.
func TestRecoverGreatestSnapshot(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	o := &owner{t: t, store: store, id: "Thing|1"}
	o.act(0)
	if err := store.Snapshots().Save(t.Context(), annals.Snapshot{ID: o.id, SeqNr: annals.MaxSeqNr, Payload: annals.Payload{SerializerID: 4}}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []annals.Store{store, newOvertaken(store, func() {})} {
		snapshots, over := 0, errors.New("it begins again")
		last, err := ability.Recover(t.Context(), s, o.id, func(annals.Snapshot) error {
			if snapshots++; snapshots > 1 {
				return over
			}
			return nil
		}, func(e annals.Event) error { t.Errorf("%T: event %d after the snapshot", s, e.SeqNr); return nil })
		if last != annals.MaxSeqNr || snapshots != 1 || err != nil {
			t.Errorf("%T: last number %d, %d snapshots, %v", s, last, snapshots, err)
		}
	}
}

func TestRecoverBesideAnotherOwner(t *testing.T) {
	t.Parallel()
	for random := range random.Rounds(t, 3000) {
		store := memstore.New()
		o := &owner{t: t, store: store, id: "Thing|1"}
		for range random.IntN(12) {
			o.act(random.IntN(6))
		}
		budget := 25 // the other owner rests at last
		between := func() {
			for budget > 0 && random.OneIn(2) {
				budget--
				o.act(random.IntN(6))
			}
		}
		before := o.last
		state, last, err := fold(t.Context(), newOvertaken(store, between), o.id)
		if err != nil {
			t.Fatal(err)
		}
		if last < before || last > o.last || state != stateAt(last) {
			t.Fatalf("recovered %d %q, want the state of a number from %d to %d", last, state, before, o.last)
		}
	}
}

// fold recovers as a host does.
func fold(ctx context.Context, s annals.Store, id annals.PersistenceID) (string, annals.SeqNr, error) {
	for {
		state := ""
		last, err := ability.Recover(ctx, s, id, func(s annals.Snapshot) error {
			state = string(s.Data)
			return nil
		}, func(e annals.Event) error {
			state += string(e.Data)
			return nil
		})
		if !errors.Is(err, annals.ErrTruncated) {
			return state, last, err
		}
	}
}

func TestRecoverWithoutSnapshotsAndEvents(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	o := &owner{t: t, store: store, id: "Thing|1"}
	if state, last, err := fold(t.Context(), store, o.id); state != "" || last != 0 || err != nil {
		t.Errorf("never written: %q, %d, %v", state, last, err)
	}
	o.act(1)
	if err := store.Journal().DeleteTo(t.Context(), o.id, annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	if state, last, err := fold(t.Context(), store, o.id); state != "" || last != 3 || err != nil {
		t.Errorf("all deleted: %q, %d, %v; want last number 3", state, last, err)
	}
	o.act(0)
	if state, last, err := fold(t.Context(), store, o.id); state != " 4" || last != 4 || err != nil {
		t.Errorf("written after a delete: %q, %d, %v; want 4", state, last, err)
	}
}

func TestRecoverReturnsTheCallersError(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	o := &owner{t: t, store: store, id: "Thing|1"}
	o.act(1)
	o.act(3)
	boom := errors.New("boom")
	ok := func(annals.Event) error { return nil }
	if _, err := ability.Recover(t.Context(), store, o.id, func(annals.Snapshot) error { return boom }, ok); !same(err, boom) {
		t.Errorf("snapshot: got %v", err)
	}
	none := func(annals.Snapshot) error { return nil }
	if _, err := ability.Recover(t.Context(), store, o.id, none, func(annals.Event) error { return boom }); !same(err, boom) {
		t.Errorf("event: got %v", err)
	}
}

// same is identity: the caller's error comes back unwrapped.
func same(a, b any) bool { return a == b }

func TestRecoverUsesTheRecoverer(t *testing.T) {
	t.Parallel()
	if n, err := ability.Recover(t.Context(), recoverer{driver.Unsupported()}, "Thing|1", nil, nil); n != 7 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}

type recoverer struct{ annals.Store }

func (recoverer) Recover(context.Context, annals.PersistenceID, func(annals.Snapshot) error, func(annals.Event) error) (annals.SeqNr, error) {
	return 7, nil
}
