package lost

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/annals-go/annals"
)

// Progress saves what a projection has handled, and returns a check for s without one of the rows: it may then say that less has been handled, so
// that events are handled again, or ErrCorrupt, but never that more has been.
func Progress(t testing.TB, s annals.OffsetStore) (check func(row string, s annals.OffsetStore)) {
	t.Helper()
	const name = "lost"
	at := func(id annals.PersistenceID, second int) annals.Offset {
		return annals.Offset{Time: time.Date(2026, 1, 1, 0, 0, second, 0, time.UTC), ID: id, SeqNr: annals.SeqNr(second)}
	}
	var ids []annals.PersistenceID
	for i := range 40 {
		ids = append(ids, annals.NewPersistenceID("Thing", fmt.Sprint(i)))
	}
	for epoch := int64(1); epoch <= 2; epoch++ {
		for part := range int(epoch) { // the ranges of the second epoch are halves
			size := annals.SliceCount / int(epoch)
			r := annals.SliceRange{From: part * size, To: (part + 1) * size}
			p := annals.Progress{Projection: name, Slices: r, Epoch: epoch, Through: at("Thing|through", 10*int(epoch)+part)}
			for i, id := range ids {
				if r.Contains(id.Slice()) {
					p.Offsets = append(p.Offsets, at(id, 20*int(epoch)+i%5))
				}
			}
			if err := s.Save(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, err := s.Handled(t.Context(), name, ids...)
	if err != nil {
		t.Fatal(err)
	}
	throughs, err := s.Load(t.Context(), name, annals.SliceRange{})
	if err != nil || len(throughs) != 2 {
		t.Fatalf("positions %+v, %v", throughs, err)
	}
	return func(row string, s annals.OffsetStore) {
		t.Helper()
		got, err := s.Handled(t.Context(), name, ids...)
		positions, err2 := s.Load(t.Context(), name, annals.SliceRange{})
		if err := errors.Join(err, err2); err != nil {
			if !errors.Is(err, annals.ErrCorrupt) {
				t.Errorf("without row %s: %v, want ErrCorrupt", row, err)
			}
			return
		}
		for i, o := range got {
			if o.Compare(want[i]) > 0 {
				t.Errorf("without row %s: %s is handled to %+v, it was to %+v", row, ids[i], o, want[i])
			}
		}
		for _, p := range positions {
			for _, was := range throughs {
				if p.Slices.From < was.Slices.To && p.Slices.To > was.Slices.From && p.Through.Compare(was.Through) > 0 {
					t.Errorf("without row %s: slices %v are handled through %+v, they were through %+v", row, p.Slices, p.Through, was.Through)
				}
			}
		}
	}
}
