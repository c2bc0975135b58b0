package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

var offsetCases = []testCase{
	{id: "OFFSET-1", about: "nothing is known of a new projection", needs: needs(offsets), run: newProjection},
	{id: "OFFSET-2", about: "each entity has the offset that was saved for it", needs: needs(offsets), run: handledByEntity},
	{id: "OFFSET-3", about: "Load returns the newest offset of each slice, with all others of the same time", needs: needs(offsets), run: newestPerSlice},
	{id: "OFFSET-4", about: "an offset before the stored one is dropped", needs: needs(offsets), run: olderOffsetDropped},
	{id: "OFFSET-5", about: "projections do not mix", needs: needs(offsets), run: projectionsDoNotMix},
	{id: "OFFSET-6", about: "a save with an older epoch is ErrFenced and stores nothing", needs: needs(offsets), run: olderEpochFenced},
	{id: "OFFSET-7", about: "each slice has its own epoch", needs: needs(offsets), run: epochsBySlice},
	{id: "OFFSET-8", about: "Reset to the zero Offset forgets everything", needs: needs(offsets), run: resetAll},
	{id: "OFFSET-9", about: "Reset forgets the offsets at or after another one, in the slices given", needs: needs(offsets), run: resetTo},
	{id: "OFFSET-10", about: "racing saves leave the newest offset", needs: needs(offsets), run: racingOffsets},
	{id: "OFFSET-12", about: "wrong saves are ErrInvalid and nothing is stored", needs: needs(offsets), run: wrongProgress},
	{id: "OFFSET-11", about: "many offsets in one save", needs: needs(offsets), run: manyOffsets},
}

// sameSlice are ids of one slice.
var sameSlice = []annals.PersistenceID{"p500", "p621", "p742", "p863", "p984"}

func offsetAt(id annals.PersistenceID, n annals.SeqNr, seconds int) annals.Offset {
	return annals.Offset{Time: time.Date(2024, 5, 1, 12, 0, seconds, 123_456_000, time.UTC), ID: id, SeqNr: n}
}

func (h *harness) saveOffsets(projection string, os ...annals.Offset) {
	h.Helper()
	if err := h.store.Offsets().Save(h.ctx, annals.Progress{Projection: projection, Offsets: os}); err != nil {
		h.Fatalf("save offsets of %q: got error %v, want none", projection, err)
	}
}

// wantHandled checks that want is the stored offset of its entity.
func (h *harness) wantHandled(projection string, want annals.Offset) {
	h.Helper()
	got, ok, err := h.store.Offsets().Handled(h.ctx, projection, want.ID)
	if err != nil || !ok || got.Compare(want) != 0 {
		h.Errorf("offset of %q in %q: got %v, %+v, error %v, want %+v", want.ID, projection, ok, got, err, want)
	}
}

func (h *harness) wantNotHandled(projection string, id annals.PersistenceID) {
	h.Helper()
	if got, ok, err := h.store.Offsets().Handled(h.ctx, projection, id); err != nil || ok {
		h.Errorf("offset of %q in %q: got %v, %+v, error %v, want none", id, projection, ok, got, err)
	}
}

// wantLoaded checks that Load returns these offsets, in any order.
func (h *harness) wantLoaded(projection string, r annals.SliceRange, want ...annals.Offset) {
	h.Helper()
	got, err := h.store.Offsets().Load(h.ctx, projection, r)
	slices.SortFunc(got, annals.Offset.Compare)
	slices.SortFunc(want, annals.Offset.Compare)
	if err != nil || !slices.EqualFunc(got, want, func(a, b annals.Offset) bool { return a.Compare(b) == 0 }) {
		h.Errorf("load %q, slices %s: got %+v, error %v, want %+v", projection, r, got, err, want)
	}
}

func newProjection(h *harness) {
	h.wantLoaded("new", annals.SliceRange{})
	h.wantNotHandled("new", "p1")
}

func handledByEntity(h *harness) {
	a, b := offsetAt("Thing|a", 3, 10), offsetAt("Thing|b", 7, 20)
	h.saveOffsets("p", a, b)
	h.wantHandled("p", a)
	h.wantHandled("p", b)
	h.wantNotHandled("p", "Thing|c")
	a = offsetAt("Thing|a", 4, 30)
	h.saveOffsets("p", a)
	h.wantHandled("p", a)
	h.wantHandled("p", b)
	h.wantLoaded("p", annals.SliceRange{}, a, b)
}

func newestPerSlice(h *harness) {
	s := sameSlice
	old, x, y := offsetAt(s[0], 1, 1), offsetAt(s[1], 5, 2), offsetAt(s[2], 2, 2)
	elsewhere := offsetAt("p92", 9, 1) // in another slice
	h.saveOffsets("p", old, x, y, elsewhere)
	h.wantLoaded("p", annals.SliceRange{}, x, y, elsewhere)
	slice := s[0].Slice()
	h.wantLoaded("p", annals.SliceRange{From: slice, To: slice + 1}, x, y)
	h.wantLoaded("p", annals.SliceRange{From: slice + 1, To: annals.SliceCount}, elsewhere)
	h.wantLoaded("p", annals.SliceRange{From: 0, To: slice})
	h.wantHandled("p", old)
	newer := offsetAt(s[0], 2, 3)
	h.saveOffsets("p", newer)
	h.wantLoaded("p", annals.SliceRange{}, newer, elsewhere)
}

func olderOffsetDropped(h *harness) {
	newest, other := offsetAt("Thing|a", 5, 50), offsetAt("Thing|b", 1, 10)
	h.saveOffsets("p", newest)
	h.saveOffsets("p", offsetAt("Thing|a", 4, 40), other)
	h.wantHandled("p", newest)
	h.wantHandled("p", other)
	h.saveOffsets("p", newest) // the same again
	h.wantHandled("p", newest)
}

func projectionsDoNotMix(h *harness) {
	h.saveOffsets("p", offsetAt("Thing|a", 5, 50))
	h.saveOffsets("p-2", offsetAt("Thing|a", 2, 20))
	h.wantHandled("p", offsetAt("Thing|a", 5, 50))
	h.wantHandled("p-2", offsetAt("Thing|a", 2, 20))
	h.wantNotHandled("p-", "Thing|a")
	if err := h.store.Offsets().Reset(h.ctx, "p", annals.SliceRange{}, annals.Offset{}); err != nil {
		h.Fatalf("reset p: got error %v, want none", err)
	}
	h.wantHandled("p-2", offsetAt("Thing|a", 2, 20))
}

// saveAs saves o as the worker of a range of slices with a lease.
func (h *harness) saveAs(epoch int64, r annals.SliceRange, os ...annals.Offset) error {
	return h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "p", Slices: r, Epoch: epoch, Offsets: os})
}

func olderEpochFenced(h *harness) {
	a, b := offsetAt("Thing|a", 1, 10), offsetAt("Thing|b", 1, 10)
	all := annals.SliceRange{}
	for _, epoch := range []int64{1, 3, 3} {
		if err := h.saveAs(epoch, all, a); err != nil {
			h.Fatalf("save with epoch %d: got error %v, want none", epoch, err)
		}
	}
	h.wantKind(h.saveAs(2, all, offsetAt("Thing|a", 9, 90), b), annals.ErrFenced, "save with epoch 2 after epoch 3")
	h.wantHandled("p", a)
	h.wantNotHandled("p", b.ID)
	if err := h.saveAs(4, all, b); err != nil {
		h.Errorf("save with epoch 4 after epoch 3: got error %v, want none", err)
	}
	h.wantHandled("p", b)
}

func epochsBySlice(h *harness) {
	half := annals.SliceRanges(2)
	low, high := annals.PersistenceID("p92"), annals.PersistenceID("a") // replaced below by ids of low and high slices
	for _, id := range []annals.PersistenceID{"a", "p92", "p500", "p1"} {
		if half[0].Contains(id.Slice()) {
			low = id
		} else {
			high = id
		}
	}
	if err := h.saveAs(5, half[0], offsetAt(low, 1, 10)); err != nil {
		h.Fatalf("save with epoch 5 for %s: got error %v, want none", half[0], err)
	}
	if err := h.saveAs(2, half[1], offsetAt(high, 1, 10)); err != nil {
		h.Errorf("save with epoch 2 for %s after epoch 5 for %s: got error %v, want none", half[1], half[0], err)
	}
	h.wantKind(h.saveAs(4, annals.SliceRange{From: 500, To: 600}, offsetAt(high, 2, 20)), annals.ErrFenced, "save with epoch 4 for slices that overlap those of epoch 5")
	h.wantHandled("p", offsetAt(low, 1, 10))
	h.wantHandled("p", offsetAt(high, 1, 10))
}

func resetAll(h *harness) {
	h.saveOffsets("p", offsetAt("Thing|a", 5, 50), offsetAt("Thing|b", 2, 20))
	if err := h.store.Offsets().Reset(h.ctx, "p", annals.SliceRange{}, annals.Offset{}); err != nil {
		h.Fatalf("reset: got error %v, want none", err)
	}
	h.wantLoaded("p", annals.SliceRange{})
	h.wantNotHandled("p", "Thing|a")
	h.saveOffsets("p", offsetAt("Thing|a", 1, 10)) // lower than before
	h.wantHandled("p", offsetAt("Thing|a", 1, 10))
}

func resetTo(h *harness) {
	early, at, late := offsetAt(sameSlice[0], 1, 10), offsetAt(sameSlice[1], 1, 20), offsetAt(sameSlice[2], 1, 30)
	elsewhere := offsetAt("p92", 1, 40)
	h.saveOffsets("p", early, at, late, elsewhere)
	slice := sameSlice[0].Slice()
	if err := h.store.Offsets().Reset(h.ctx, "p", annals.SliceRange{From: slice, To: slice + 1}, at); err != nil {
		h.Fatalf("reset to %+v: got error %v, want none", at, err)
	}
	h.wantHandled("p", early)
	h.wantNotHandled("p", at.ID)
	h.wantNotHandled("p", late.ID)
	h.wantHandled("p", elsewhere)
	h.wantLoaded("p", annals.SliceRange{}, early, elsewhere)
}

func racingOffsets(h *harness) {
	order := shuffled(h.volume(40, 12))
	errs := make([]error, len(order))
	together(len(order), func(i int) {
		n := order[i]
		errs[i] = h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{offsetAt("Thing|a", n, int(n)), offsetAt("Thing|b", n, int(n))}})
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("%d racing saves of offsets: got error %v, want none", len(order), err)
	}
	n := annals.SeqNr(len(order))
	h.wantHandled("p", offsetAt("Thing|a", n, int(n)))
	h.wantHandled("p", offsetAt("Thing|b", n, int(n)))
}

func wrongProgress(h *harness) {
	o := offsetAt("Thing|a", 1, 1)
	for what, p := range map[string]annals.Progress{
		"without a projection":     {Offsets: []annals.Offset{o}},
		"with slices beyond 1,024": {Projection: "p", Slices: annals.SliceRange{From: 0, To: 1025}, Offsets: []annals.Offset{o}},
		"with no slices":           {Projection: "p", Slices: annals.SliceRange{From: 5, To: 5}, Offsets: []annals.Offset{o}},
		"with epoch -1":            {Projection: "p", Epoch: -1, Offsets: []annals.Offset{o}},
		"with an offset of no id":  {Projection: "p", Offsets: []annals.Offset{o, {Time: o.Time, SeqNr: 1}}},
	} {
		h.wantKind(h.store.Offsets().Save(h.ctx, p), annals.ErrInvalid, "save offsets %s", what)
	}
	h.wantNotHandled("p", o.ID)
}

func manyOffsets(h *harness) {
	var os []annals.Offset
	for i := range h.volume(300, 60) {
		os = append(os, offsetAt(h.id(), annals.SeqNr(i+1), i%60))
	}
	h.saveOffsets("p", os...)
	for _, o := range os {
		h.wantHandled("p", o)
	}
}
