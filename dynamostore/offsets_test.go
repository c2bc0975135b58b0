package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/servers/dynamo"
)

// idsIn returns n ids of the slices r.
func idsIn(r annals.SliceRange, n int) (ids []annals.PersistenceID) {
	for i := 0; len(ids) < n; i++ {
		if id := annals.NewPersistenceID("Thing", fmt.Sprint(i)); r.Contains(id.Slice()) {
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

// A save with 100 entities is one request that writes one item, also within a transaction of the caller's. The figures are those of
// docs/layouts/commit.md.
func TestCostOfProgress(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	seen := &recorder{}
	s, p := behindProxy(t, dynamostore.Options{Observer: seen})
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) // six nanoseconds that nobody keeps
	var ids []annals.PersistenceID
	for range 100 {
		ids = append(ids, annals.NewPersistenceID("Account", annals.NewWriteID().String()))
	}
	step := func(n annals.SeqNr) annals.Progress {
		return annals.Progress{Projection: "p", Epoch: 1, Through: annals.Offset{Time: at.Add(time.Duration(n-1) * time.Second)}, Once: true,
			Offsets: offsetsOf(ids, at.Add(time.Duration(n)*time.Second), n)}
	}
	save := func(s annals.Store, n annals.SeqNr) {
		t.Helper()
		if err := s.Offsets().Save(ctx, step(n)); err != nil {
			t.Fatal(err)
		}
	}
	save(s, 1) // creates the item
	before := p.Counts()
	save(s, 2)
	r, after := seen.last(), p.Counts()
	if after["PutItem"]-before["PutItem"] != 1 || after["TransactWriteItems"] != before["TransactWriteItems"] || r.Requests != 2 || r.WriteUnits == 0 || r.WriteUnits > 5 {
		t.Errorf("a save of 100 entities: %+v; requests %v, before %v", r, after, before)
	}
	t.Logf("a save of 100 entities: %+v", r)
	if err := s.InTx(ctx, func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
		return in.Offsets().Save(ctx, step(3))
	}); err != nil {
		t.Fatal(err)
	}
	if r := seen.last(); r.WriteUnits == 0 || r.WriteUnits > 10 {
		t.Errorf("a save of 100 entities in a transaction: %+v", r)
	}
	t.Logf("in a transaction: %+v", seen.last())
	got, err := s.Offsets().Load(ctx, "p", annals.SliceRange{})
	if err != nil || len(got) != 1 || len(got[0].Offsets) != 100 || !got[0].Offsets[0].Time.Equal(at.Truncate(time.Microsecond).Add(3*time.Second)) {
		t.Errorf("%d positions, %v", len(got), err)
	}
}

// Many workers with small ranges each read their own item alone. They are replaced by one: its save joins more items than fit into one transaction.
func TestManyRangesJoined(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p := behindProxy(t, dynamostore.Options{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, ranges := range map[string][]annals.SliceRange{"near": annals.SliceRanges(96), "far apart": annals.SpreadRanges(96)} {
		for i, r := range ranges {
			if err := s.Offsets().Save(ctx, annals.Progress{Projection: name, Slices: r, Epoch: 1, Through: annals.Offset{Time: at.Add(time.Duration(i) * time.Second)}}); err != nil {
				t.Fatal(err)
			}
		}
		before := p.Counts()
		own, err := s.Offsets().Load(ctx, name, ranges[7])
		if after := p.Counts(); err != nil || len(own) != 1 || own[0].Slices != ranges[7] || !own[0].Through.Time.Equal(at.Add(7*time.Second)) || after["GetItem"]-before["GetItem"] != 1 || after["Query"] != before["Query"] {
			t.Errorf("%s: a load of one range: %+v, %v; requests %v, before %v", name, own, err, after, before)
		}
		if err := s.Offsets().Save(ctx, annals.Progress{Projection: name, Epoch: 2, Through: annals.Offset{Time: at.Add(48 * time.Second)}}); err != nil {
			t.Fatal(err)
		}
		got, err := s.Offsets().Load(ctx, name, annals.SliceRange{})
		if err != nil || len(got) != 48 || got[0].Slices != (annals.SliceRange{From: ranges[0].From, To: ranges[48].To}) || got[47].Epoch != 2 || !got[47].Through.Time.Equal(at.Add(95*time.Second)) {
			t.Errorf("%s: %d positions, %v: %+v", name, len(got), err, got)
		}
	}
}

// Two workers with other ranges save at the same time: neither leaves an item that overlaps one of the other, and an event that both have
// handled is refused to one of them.
func TestOverlappingWorkers(t *testing.T) {
	t.Parallel()
	for _, r := range []annals.SliceRange{{From: 0, To: 512}, {From: 64, To: 1024}, {From: 64, To: 128}} {
		p := newPair(t)
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		ids := idsIn(annals.SliceRanges(16)[1], 2)
		save := func(s *dynamostore.Store, r annals.SliceRange) error {
			return s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Slices: r, Once: true, Offsets: offsetsOf(ids, at, 1)})
		}
		p.before("TransactWriteItems", 1, func() {
			if err := save(p.beside, r); err != nil {
				t.Error(err)
			}
		})
		if err := save(p.slow, annals.SliceRange{}); !errors.Is(err, annals.ErrConflict) {
			t.Errorf("beside a worker of %s: %v", r, err)
		}
		got, err := p.beside.Offsets().Load(t.Context(), "p", annals.SliceRange{})
		if err != nil || len(got) != 1 || len(got[0].Offsets) != 2 {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

// The answer to a save is lost, and the save is sent again: with Once, too, it has been stored once and is no conflict.
func TestLostAnswerOfProgress(t *testing.T) {
	t.Parallel()
	s, p := behindProxy(t, dynamostore.Options{})
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ids := idsIn(annals.SliceRanges(16)[1], 2)
	for n, operation := range []string{"TransactWriteItems", "PutItem", "PutItem"} {
		lost := false
		p.SetRule(func(r dynamo.Request) dynamo.Fault {
			if r.Operation != operation || lost {
				return dynamo.Fault{}
			}
			lost = true
			return dynamo.Fault{LoseAnswer: true}
		})
		err := s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Once: true, Offsets: offsetsOf(ids, at.Add(time.Duration(n)*time.Second), annals.SeqNr(n+1))})
		if err != nil || !lost {
			t.Errorf("save %d: %v, answer lost: %v", n+1, err, lost)
		}
	}
}

// A worker is fenced when a newer one writes between its read and its write. The offsets of the newer one stay.
func TestOvertakenWorker(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	ids := idsIn(annals.SliceRanges(16)[1], 2)
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
			if o, err := p.beside.Offsets().Handled(t.Context(), "p", id); err != nil || o[0].SeqNr != want {
				t.Error(o, err)
			}
		}
	}
	p.before("TransactWriteItems", 1, func() { beside(2, 5) })
	if err := save(p.slow, 1, 9); !errors.Is(err, annals.ErrFenced) {
		t.Error(err)
	}
	handled(5)
	p.before("PutItem", 1, func() { beside(2, 8) })
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
	for _, name := range []string{"", "a\x00b", "\xff", strings.Repeat("x", 2047)} {
		_, err := s.Offsets().Load(t.Context(), name, annals.SliceRange{})
		_, err2 := s.Offsets().Handled(t.Context(), name, "Thing|1")
		for _, err := range []error{err, err2, s.Offsets().Save(t.Context(), annals.Progress{Projection: name}),
			s.Offsets().Reset(t.Context(), name, annals.SliceRange{}, annals.Offset{})} {
			if !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	long := annals.Progress{Projection: strings.Repeat("x", 2046), Offsets: []annals.Offset{{ID: "Thing|1", SeqNr: 1, Time: time.Unix(1, 0)}}}
	if err := s.Offsets().Save(t.Context(), long); err != nil {
		t.Error(err)
	}
}
