package offsets_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/offsets"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// partly sees a transaction in part: some of its queries see an item as it was before, or do not see it.
type partly struct {
	plan.Executor
	whole, queries int       // how many queries see all, before those that do not
	from           int       // the item
	before         plan.Item // nil: it was not there
}

func (p *partly) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	all := p.Executor.Query(ctx, q)
	if p.whole--; p.whole >= 0 {
		return all
	}
	if p.queries--; p.queries < 0 {
		return all
	}
	var items []plan.Item
	for it, err := range all {
		if err != nil {
			return all
		}
		if n, _ := plan.Number(it, "seq"); n != int64(p.from) {
			items = append(items, it)
		}
	}
	if p.before != nil {
		items = append(items, p.before)
	}
	slices.SortFunc(items, func(a, b plan.Item) int {
		x, _ := plan.Number(a, "seq")
		y, _ := plan.Number(b, "seq")
		return int(x - y)
	})
	return func(yield func(plan.Item, error) bool) {
		for _, it := range items {
			if !yield(it, nil) {
				return
			}
		}
	}
}

// world is a table of offsets.
type world struct {
	*testing.T
	tables *plantest.Executor
	saves  byte
}

func newWorld(t *testing.T) *world {
	return &world{T: t, tables: plantest.New([]plan.Table{{Name: "t", Hash: plan.Key{Name: "pid"}, Range: plan.Key{Name: "seq", Number: true}}})}
}

func (w *world) on(x plan.Executor) offsets.Store {
	return offsets.Store{Table: "t", Hash: "pid", Range: "seq", MaxHash: 2048, Executor: x, NewSave: func(b []byte) { w.saves++; b[0] = w.saves }}
}

func (w *world) item(from int) plan.Item {
	it, ok, err := w.tables.Get(w.Context(), plan.Get{Table: "t", Key: plan.Item{"pid": plan.S("p\x00#"), "seq": plan.N(from)}})
	if !ok || err != nil {
		w.Fatal(from, ok, err)
	}
	return it
}

func at(second int) annals.Offset {
	return annals.Offset{Time: time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC)}
}

func (w *world) save(s offsets.Store, r annals.SliceRange, second int) {
	w.Helper()
	if err := s.Save(w.Context(), annals.Progress{Projection: "p", Slices: r, Through: at(second)}); err != nil {
		w.Error(err)
	}
}

func (w *world) want(s offsets.Store, seconds ...int) {
	w.Helper()
	all, err := s.Load(w.Context(), "p", annals.SliceRange{})
	var got []int
	for _, p := range all {
		got = append(got, p.Through.Time.Second())
	}
	if err != nil || !slices.Equal(got, seconds) {
		w.Errorf("got %v, %v, want %v", all, err, seconds)
	}
}

// Another worker divides or joins items while several are read.
func TestSeenInPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		halves, later := annals.SliceRanges(2), idIn(annals.SliceRange{From: 512, To: 1024})
		for name, join := range map[string]bool{"divided": false, "joined": true} {
			w := newWorld(t)
			s := w.on(w.tables)
			w.save(s, halves[0], 1)
			w.save(s, halves[1], 2)
			before, want := plan.Item(nil), []int{1, 2}
			if join {
				before, want = w.item(512), []int{3}
				w.save(s, annals.SliceRange{}, 3)
			}
			seeing := func(queries int) offsets.Store { return w.on(&partly{w.tables, 0, queries, 512, before}) }
			w.want(seeing(plan.Looks-1), want...)
			if o, err := seeing(1).Handled(t.Context(), "p", later); err != nil || o[0].Time.Second() != want[len(want)-1] {
				t.Errorf("%s: handled %v, %v", name, o, err)
			}
			if _, err := seeing(plan.Looks).Load(t.Context(), "p", annals.SliceRange{}); errors.Is(err, annals.ErrCorrupt) != join {
				t.Errorf("%s: always seen in part: %v", name, err)
			}
			w.save(seeing(1), annals.SliceRange{From: 256, To: 768}, 4)
			w.want(s, want[0], 4, want[len(want)-1])
		}
	})
}

func idIn(r annals.SliceRange) annals.PersistenceID {
	for i := 0; ; i++ {
		if id := annals.NewPersistenceID("Thing", fmt.Sprint(i)); r.Contains(id.Slice()) {
			return id
		}
	}
}

// A save that joins items in two transactions may see the first of them in part. Then the refusal of the second does not mean that it was stored.
func TestOwnTransactionSeenInPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.on(w.tables)
		for i, r := range annals.SliceRanges(96) {
			w.save(s, r, i%2+1)
		}
		w.save(w.on(&partly{w.tables, 1, 1, annals.SliceCount, w.item(annals.SliceCount)}), annals.SliceRange{}, 9)
		w.want(s, 9)
	})
}

// When an item is lost, its slices have no position, and are saved again.
func TestLostItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for lost, r := range map[int]annals.SliceRange{0: {From: 0, To: 256}, 256: {From: 256, To: 300}, 768: {From: 600, To: 800}, annals.SliceCount: {From: 100, To: 200}} {
			w := newWorld(t)
			s := w.on(w.tables)
			for _, r := range annals.SliceRanges(4) {
				w.save(s, r, 1)
			}
			if err := w.tables.DeleteAll(t.Context(), "t", []plan.Item{{"pid": plan.S("p\x00#"), "seq": plan.N(lost)}}); err != nil {
				t.Fatal(err)
			}
			w.save(s, r, 2)
			if all, err := s.Load(t.Context(), "p", r); err != nil || len(all) != 1 || all[0].Slices != r || all[0].Through.Time.Second() != 2 {
				t.Errorf("%d was lost: %v, %v", lost, all, err)
			}
			w.save(s, annals.SliceRange{}, 3)
			w.want(s, 3)
		}
	})
}

// The ranges of a projection are of one kind.
func TestOtherKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.on(w.tables)
	for i, r := range []annals.SliceRange{annals.SliceRanges(4)[1], annals.SpreadRanges(4)[1]} {
		if err := s.Save(t.Context(), annals.Progress{Projection: "p", Slices: r, Through: at(1)}); i == 0 && err != nil || i == 1 && !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", r, err)
		}
	}
}

// A save that was made for an item which others have joined, and then divided again, is not for the new item with the same slices.
func TestSaveForAnItemOfBefore(t *testing.T) {
	t.Parallel()
	w, half := newWorld(t), annals.SliceRanges(2)[1]
	s := w.on(w.tables)
	save := func(r annals.SliceRange, epoch int) error {
		return s.Save(t.Context(), annals.Progress{Projection: "p", Slices: r, Epoch: int64(epoch), Through: at(epoch)})
	}
	if err := save(half, 1); err != nil {
		t.Fatal(err)
	}
	w.tables.Meanwhile = func() { // after the read
		if err := errors.Join(save(annals.SliceRange{}, 3), save(half, 4)); err != nil {
			t.Error(err)
		}
	}
	if err := save(half, 2); !errors.Is(err, annals.ErrFenced) {
		t.Error(err)
	}
	w.want(s, 3, 4)
}
