package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
)

// ofGroup returns n ids of the slices 64 to 127.
func ofGroup(n int) (ids []annals.PersistenceID) {
	for i := 0; len(ids) < n; i++ {
		if id := annals.NewPersistenceID("Thing", fmt.Sprint(i)); id.Slice()/64 == 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

func offsetsOf(ids []annals.PersistenceID, at time.Time, n annals.SeqNr) (all []annals.Offset) {
	for _, id := range ids {
		all = append(all, annals.Offset{ID: id, Time: at, SeqNr: n})
	}
	return all
}

// A save is one transaction. More than fits into one is refused as a whole.
func TestLargestProgress(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p := behindProxy(t, dynamostore.Options{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) // no store keeps the six nanoseconds
	all := offsetsOf(ofGroup(100), at, 1)
	if err := s.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: all}); !errors.Is(err, annals.ErrTooLarge) {
		t.Error(err)
	}
	if got, err := s.Offsets().Load(ctx, "p", annals.SliceRange{}); len(got) != 0 || err != nil {
		t.Error(got, err)
	}
	for range 2 { // the second has nothing to write
		if err := s.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: all[:99]}); err != nil {
			t.Error(err)
		}
	}
	if n := p.Counts()["TransactWriteItems"]; n != 1 {
		t.Errorf("%d transactions", n)
	}
	got, err := s.Offsets().Load(ctx, "p", annals.SliceRange{From: 64, To: 128})
	if len(got) != 99 || err != nil || !got[0].Time.Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("%d offsets, %v", len(got), err)
	}
}

// Reset can remove more than fits into one transaction. Load and Handled return what is left.
func TestResetMany(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, _ := behindProxy(t, dynamostore.Options{})
	early := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ids := ofGroup(250)
	for i, some := range slices.Collect(slices.Chunk(ids, 50)) {
		if err := s.Offsets().Save(ctx, annals.Progress{Projection: "p", Epoch: 7, Offsets: offsetsOf(some, early.Add(time.Duration(i)*time.Second), 3)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Offsets().Reset(ctx, "p", annals.SliceRange{}, annals.Offset{Time: early.Add(time.Second)}); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if _, ok, err := s.Offsets().Handled(ctx, "p", id); ok != (i < 50) || err != nil {
			t.Errorf("%d: %v, %v", i, ok, err)
		}
	}
	if got, err := s.Offsets().Load(ctx, "p", annals.SliceRange{}); len(got) != 50 || err != nil {
		t.Errorf("%d offsets, %v", len(got), err)
	}
	if err := s.Offsets().Save(ctx, annals.Progress{Projection: "p", Epoch: 6, Offsets: offsetsOf(ids[:1], early, 4)}); !errors.Is(err, annals.ErrFenced) {
		t.Errorf("an epoch from before: %v", err)
	}
}

// A worker is fenced when a newer one writes between its read and its write. The offsets of the newer one stay.
func TestOvertakenWorker(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ids := ofGroup(2)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	save := func(s *dynamostore.Store, epoch int64, n annals.SeqNr) error {
		return s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Slices: annals.SliceRange{From: 64, To: 128}, Epoch: epoch,
			Offsets: offsetsOf(ids, at.Add(time.Duration(n)*time.Second), n)})
	}
	beside := func(epoch int64, n annals.SeqNr) {
		if err := save(p.beside, epoch, n); err != nil {
			t.Error(err)
		}
	}
	handled := func(want annals.SeqNr) {
		t.Helper()
		for _, id := range ids {
			if o, _, err := p.beside.Offsets().Handled(t.Context(), "p", id); o.SeqNr != want || err != nil {
				t.Error(o, err)
			}
		}
	}
	p.before("TransactWriteItems", 1, func() { beside(2, 5) })
	if err := save(p.slow, 1, 9); !errors.Is(err, annals.ErrFenced) {
		t.Error(err)
	}
	handled(5)
	p.before("TransactWriteItems", 1, func() { beside(2, 8) })
	if err := save(p.slow, 2, 7); err != nil { // older by now: dropped
		t.Error(err)
	}
	handled(8)
	p.before("TransactWriteItems", 1, func() { beside(3, 9) })
	err := p.slow.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
		return in.Offsets().Save(ctx, annals.Progress{Projection: "p", Slices: annals.SliceRange{From: 64, To: 128}, Epoch: 2, Offsets: offsetsOf(ids, at.Add(time.Minute), 10)})
	})
	if !errors.Is(err, annals.ErrConflict) {
		t.Errorf("in a transaction: %v", err)
	}
	handled(9)
}

func TestWrongProjections(t *testing.T) {
	t.Parallel()
	s, _ := behindProxy(t, dynamostore.Options{})
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 2045)} {
		_, err := s.Offsets().Load(t.Context(), name, annals.SliceRange{})
		_, _, err2 := s.Offsets().Handled(t.Context(), name, "Thing|1")
		for _, err := range []error{err, err2, s.Offsets().Save(t.Context(), annals.Progress{Projection: name}),
			s.Offsets().Reset(t.Context(), name, annals.SliceRange{}, annals.Offset{})} {
			if !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	long := annals.Progress{Projection: strings.Repeat("x", 2044), Offsets: []annals.Offset{{ID: "Thing|1", SeqNr: 1, Time: time.Unix(1, 0)}}}
	if err := s.Offsets().Save(t.Context(), long); err != nil {
		t.Error(err)
	}
}
