package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

var offsetCases = []testCase{
	{id: "OFFSET-1", about: "nothing is known of a new projection", needs: needs(offsets), run: newProjection},
	{id: "OFFSET-2", about: "each entity has the offset that was saved for it", needs: needs(offsets), run: handledByEntity},
	{id: "OFFSET-3", about: "Load returns positions that together are the slices asked for, with the entities of each", needs: needs(offsets), run: positionsOfSlices},
	{id: "OFFSET-4", about: "an offset that was handled before is dropped", needs: needs(offsets), run: olderOffsetDropped},
	{id: "OFFSET-5", about: "projections do not mix", needs: needs(offsets), run: projectionsDoNotMix},
	{id: "OFFSET-6", about: "a save with an older epoch is ErrFenced and stores nothing", needs: needs(offsets), run: olderEpochFenced},
	{id: "OFFSET-7", about: "each slice has its own epoch", needs: needs(offsets), run: epochsBySlice},
	{id: "OFFSET-8", about: "Reset to the zero Offset forgets everything", needs: needs(offsets), run: resetAll},
	{id: "OFFSET-9", about: "Reset takes the slices given back to an offset", needs: needs(offsets), run: resetTo},
	{id: "OFFSET-10", about: "racing saves leave the newest offset", needs: needs(offsets), run: racingOffsets},
	{id: "OFFSET-11", about: "many offsets in one save", needs: needs(offsets), run: manyOffsets},
	{id: "OFFSET-12", about: "wrong saves are ErrInvalid and nothing is stored", needs: needs(offsets), run: wrongProgress},
	{id: "OFFSET-13", about: "everything at or before Through is handled, and Through never goes back", needs: needs(offsets), run: throughRises},
	{id: "OFFSET-14", about: "positions are right when ranges are merged or divided", needs: needs(offsets), run: rangesCutAnew},
	{id: "OFFSET-15", about: "with Once an event that was handled before is ErrConflict, and nothing is stored", needs: needs(offsets), run: handledOnce},
	{id: "OFFSET-16", about: "of racing saves with Once that have an event in common one wins", needs: needs(offsets), run: racingOnce},
	{id: "OFFSET-17", about: "Reset fences the workers that are running", needs: needs(offsets), run: resetFences},
	{id: "OFFSET-18", about: "an event whose time is before that of the event before it is new", needs: needs(offsets), run: clockWentBack},
	{id: "OFFSET-19", about: "more offsets than Limits.MaxOffsets are ErrTooLarge, and as many are stored", needs: needs(offsets, offsetLimit), run: largestProgress},
	{id: "OFFSET-20", about: "random saves, resets and forgets leave what a model slice by slice has", needs: needs(offsets), run: randomProgress},
	{id: "OFFSET-21", about: "of an entity that begins again within one save, only the new events are covered that were handled", needs: needs(offsets), run: beginsAgainInOneSave},
	{id: "OFFSET-22", about: "Forget removes the offsets of the entities given, and changes nothing else", needs: needs(offsets), run: offsetsForgotten},
}

// sameSlice are ids of one slice.
var sameSlice = []annals.PersistenceID{"p500", "p621", "p742", "p863", "p984"}

func offsetAt(id annals.PersistenceID, n annals.SeqNr, seconds int) annals.Offset {
	return annals.Offset{Time: time.Date(2024, 5, 1, 12, 0, seconds, 123_456_000, time.UTC), ID: id, SeqNr: n}
}

func (h *harness) saveOffsets(projection string, os ...annals.Offset) {
	h.Helper()
	h.saveProgress(annals.Progress{Projection: projection, Offsets: os})
}

// reset resets the projection "p".
func (h *harness) reset(r annals.SliceRange, to annals.Offset) {
	h.Helper()
	if err := h.store.Offsets().Reset(h.ctx, "p", r, to); err != nil {
		h.Fatalf("reset slices %s to %+v: got error %v, want none", r, to, err)
	}
}

// handledOf returns what covers the handled events of id.
func (h *harness) handledOf(projection string, id annals.PersistenceID) annals.Offset {
	h.Helper()
	got, err := h.store.Offsets().Handled(h.ctx, projection, id)
	if err != nil || len(got) != 1 {
		h.Fatalf("offset of %q in %q: got %d offsets, error %v, want one", id, projection, len(got), err)
	}
	return got[0]
}

// wantHandled checks that want is what covers the handled events of its entity.
func (h *harness) wantHandled(projection string, want annals.Offset) {
	h.Helper()
	if got := h.handledOf(projection, want.ID); got.Compare(want) != 0 {
		h.Errorf("offset of %q in %q: got %+v, want %+v", want.ID, projection, got, want)
	}
}

func (h *harness) wantNotHandled(projection string, id annals.PersistenceID) {
	h.Helper()
	if got := h.handledOf(projection, id); got.Compare(annals.Offset{}) != 0 {
		h.Errorf("offset of %q in %q: got %+v, want none", id, projection, got)
	}
}

// wantLoaded checks that Load returns these positions.
func (h *harness) wantLoaded(projection string, r annals.SliceRange, want ...annals.Position) {
	h.Helper()
	got, err := h.store.Offsets().Load(h.ctx, projection, r)
	if err != nil || !slices.EqualFunc(got, want, samePosition) {
		h.Errorf("load %q, slices %s: got %+v, error %v, want %+v", projection, r, got, err, want)
	}
}

func samePosition(a, b annals.Position) bool {
	return a.Slices == b.Slices && a.Epoch == b.Epoch && a.Through.Compare(b.Through) == 0 &&
		slices.EqualFunc(a.Offsets, b.Offsets, sameOffset)
}

func sameOffset(a, b annals.Offset) bool { return a.Compare(b) == 0 }

// sliceRange is the slices from ≤ s < to.
func sliceRange(from, to int) annals.SliceRange { return annals.SliceRange{From: from, To: to} }

// saveProgress saves p, of projection "p" where it names none.
func (h *harness) saveProgress(p annals.Progress) {
	h.Helper()
	p.Projection = cmp.Or(p.Projection, "p")
	if err := h.store.Offsets().Save(h.ctx, p); err != nil {
		h.Fatalf("save %+v: got error %v, want none", p, err)
	}
}

// through is the offset of an event of an entity that no test asks for.
func through(seconds int) annals.Offset { return offsetAt("Thing|through", 7, seconds) }

func newProjection(h *harness) {
	h.wantLoaded("new", annals.SliceRange{}, annals.Position{Slices: sliceRange(0, annals.SliceCount)})
	h.wantLoaded("new", sliceRange(3, 5), annals.Position{Slices: sliceRange(3, 5)})
	h.wantNotHandled("new", "p1")
}

func handledByEntity(h *harness) {
	a, b := offsetAt("Thing|a", 3, 10), offsetAt("Thing|b", 7, 20)
	h.saveOffsets("p", a, b)
	h.wantHandled("p", a)
	h.wantHandled("p", b)
	h.wantNotHandled("p", "Thing|c")
	a = offsetAt("Thing|a", 4, 30)
	h.saveOffsets("p", offsetAt("Thing|a", 5, 40), a) // in any order
	a = offsetAt("Thing|a", 5, 40)
	got, err := h.store.Offsets().Handled(h.ctx, "p", b.ID, "Thing|c", a.ID, b.ID)
	if want := []annals.Offset{b, {}, a, b}; err != nil || !slices.EqualFunc(got, want, sameOffset) {
		h.Errorf("offsets of four ids: got %+v, error %v, want %+v", got, err, want)
	}
	if got, err := h.store.Offsets().Handled(h.ctx, "p"); len(got) != 0 || err != nil {
		h.Errorf("offsets of no ids: got %+v, error %v, want none", got, err)
	}
	h.wantLoaded("p", annals.SliceRange{}, annals.Position{Slices: sliceRange(0, annals.SliceCount), Offsets: []annals.Offset{b, a}})
}

func positionsOfSlices(h *harness) {
	s := sameSlice
	x, y := offsetAt(s[0], 1, 3), offsetAt(s[1], 5, 2)
	elsewhere := offsetAt("p92", 9, 1) // in another slice
	slice := s[0].Slice()
	h.saveOffsets("p", x, y, elsewhere)
	h.wantLoaded("p", annals.SliceRange{}, annals.Position{Slices: sliceRange(0, annals.SliceCount), Offsets: []annals.Offset{elsewhere, y, x}})
	h.wantLoaded("p", sliceRange(slice, slice+1), annals.Position{Slices: sliceRange(slice, slice+1), Offsets: []annals.Offset{y, x}})
	h.saveProgress(annals.Progress{Slices: sliceRange(slice, slice+1), Through: through(2), Epoch: 4})
	h.wantLoaded("p", annals.SliceRange{},
		annals.Position{Slices: sliceRange(0, slice), Offsets: positionOffsets(elsewhere, 0, slice)},
		annals.Position{Slices: sliceRange(slice, slice+1), Epoch: 4, Through: through(2), Offsets: []annals.Offset{x}},
		annals.Position{Slices: sliceRange(slice+1, annals.SliceCount), Offsets: positionOffsets(elsewhere, slice+1, annals.SliceCount)})
}

// positionOffsets returns o if its entity is of the slices from ≤ s < to.
func positionOffsets(o annals.Offset, from, to int) []annals.Offset {
	if sliceRange(from, to).Contains(o.ID.Slice()) {
		return []annals.Offset{o}
	}
	return nil
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
	h.reset(annals.SliceRange{}, annals.Offset{})
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
	var low, high annals.PersistenceID
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
	h.wantKind(h.saveAs(4, sliceRange(500, 600)), annals.ErrFenced, "save with epoch 4 for slices that overlap those of epoch 5")
	h.wantHandled("p", offsetAt(low, 1, 10))
	h.wantHandled("p", offsetAt(high, 1, 10))
}

func resetAll(h *harness) {
	h.saveOffsets("p", offsetAt("Thing|a", 5, 50), offsetAt("Thing|b", 2, 20))
	h.saveProgress(annals.Progress{Through: through(30)})
	h.reset(annals.SliceRange{}, annals.Offset{})
	h.wantLoaded("p", annals.SliceRange{}, annals.Position{Slices: sliceRange(0, annals.SliceCount), Epoch: 1})
	h.wantNotHandled("p", "Thing|a")
	h.saveOffsets("p", offsetAt("Thing|a", 1, 10)) // lower than before
	h.wantHandled("p", offsetAt("Thing|a", 1, 10))
}

func resetTo(h *harness) {
	early, at, late := offsetAt(sameSlice[0], 1, 10), offsetAt(sameSlice[1], 1, 20), offsetAt(sameSlice[2], 1, 30)
	elsewhere := offsetAt("p92", 1, 40)
	h.saveOffsets("p", early, at, late, elsewhere)
	slice := sameSlice[0].Slice()
	one := sliceRange(slice, slice+1)
	h.reset(one, at)
	h.wantHandled("p", early)
	h.wantHandled("p", at)
	h.wantNotHandled("p", late.ID)
	h.wantHandled("p", elsewhere)
	h.saveProgress(annals.Progress{Slices: one, Through: through(25)})
	h.reset(one, through(30)) // where nothing is stored
	if got := h.handledOf("p", late.ID); got.Compare(through(25)) != 0 {
		h.Errorf("offset of %q after a reset to an offset beyond Through: got %+v, want %+v", late.ID, got, through(25))
	}
	h.reset(one, annals.Offset{Time: at.Time}) // before what has that time
	h.wantLoaded("p", one, annals.Position{Slices: one, Epoch: 3, Through: annals.Offset{Time: at.Time}})
	h.wantHandled("p", elsewhere)
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
		"of another slice":         {Projection: "p", Slices: sliceRange(o.ID.Slice()+1, annals.SliceCount), Offsets: []annals.Offset{o}},
	} {
		h.wantKind(h.store.Offsets().Save(h.ctx, p), annals.ErrInvalid, "save offsets %s", what)
	}
	h.wantNotHandled("p", o.ID)
}

func manyOffsets(h *harness) {
	var os []annals.Offset
	var ids []annals.PersistenceID
	for i := range h.volume(300, 120) {
		os = append(os, offsetAt(h.id(), annals.SeqNr(i+1), i%60))
		ids = append(ids, os[i].ID)
	}
	h.saveOffsets("p", os...)
	got, err := h.store.Offsets().Handled(h.ctx, "p", ids...)
	if err != nil || !slices.EqualFunc(got, os, sameOffset) {
		h.Errorf("offsets of %d ids: got %+v, error %v, want %+v", len(ids), got, err, os)
	}
}

func throughRises(h *harness) {
	before, at, beyond := offsetAt("Thing|a", 3, 10), offsetAt("Thing|b", 4, 19), offsetAt("Thing|c", 5, 30)
	h.saveProgress(annals.Progress{Through: through(20), Offsets: []annals.Offset{before, beyond}})
	all := sliceRange(0, annals.SliceCount)
	h.wantLoaded("p", all, annals.Position{Slices: all, Through: through(20), Offsets: []annals.Offset{beyond}})
	for _, o := range []annals.Offset{before, at} {
		if handled := h.handledOf("p", o.ID); !handled.Covers(o) || handled.Covers(offsetAt(o.ID, o.SeqNr+1, 21)) {
			h.Errorf("what covers the handled events of %q: got %+v, want the Through %+v", o.ID, handled, through(20))
		}
	}
	h.wantHandled("p", beyond)
	h.saveProgress(annals.Progress{Through: through(15)}) // older
	h.saveProgress(annals.Progress{Offsets: []annals.Offset{at}})
	h.wantLoaded("p", all, annals.Position{Slices: all, Through: through(20), Offsets: []annals.Offset{beyond}})
	h.saveProgress(annals.Progress{Through: beyond})
	h.wantLoaded("p", all, annals.Position{Slices: all, Through: beyond})
	h.wantHandled("p", beyond)
}

func rangesCutAnew(h *harness) {
	a := annals.PersistenceID("p92")
	low, high := sliceRange(0, 512), sliceRange(512, annals.SliceCount)
	if !low.Contains(a.Slice()) {
		low, high = high, low
	}
	beyond := offsetAt(a, 8, 50)
	h.saveProgress(annals.Progress{Slices: low, Through: through(40), Epoch: 1, Offsets: []annals.Offset{beyond}})
	h.saveProgress(annals.Progress{Slices: high, Through: through(10), Epoch: 1}) // lags
	want := []annals.Position{{Slices: low, Epoch: 1, Through: through(40), Offsets: []annals.Offset{beyond}}, {Slices: high, Epoch: 1, Through: through(10)}}
	slices.SortFunc(want, func(a, b annals.Position) int { return a.Slices.From - b.Slices.From })
	h.wantLoaded("p", annals.SliceRange{}, want...)
	h.wantLoaded("p", sliceRange(high.From+10, high.From+20), annals.Position{Slices: sliceRange(high.From+10, high.From+20), Epoch: 1, Through: through(10)})

	h.saveProgress(annals.Progress{Through: through(30), Epoch: 2}) // one worker for all slices
	want = []annals.Position{{Slices: low, Epoch: 2, Through: through(40), Offsets: []annals.Offset{beyond}}, {Slices: high, Epoch: 2, Through: through(30)}}
	slices.SortFunc(want, func(a, b annals.Position) int { return a.Slices.From - b.Slices.From })
	h.wantLoaded("p", annals.SliceRange{}, want...)

	h.saveProgress(annals.Progress{Through: through(60), Epoch: 2})
	all := sliceRange(0, annals.SliceCount)
	h.wantLoaded("p", all, annals.Position{Slices: all, Epoch: 2, Through: through(60)})
	h.saveProgress(annals.Progress{Slices: sliceRange(100, 200), Through: through(70), Epoch: 3}) // and a part of them
	h.wantLoaded("p", sliceRange(50, 250), annals.Position{Slices: sliceRange(50, 100), Epoch: 2, Through: through(60)},
		annals.Position{Slices: sliceRange(100, 200), Epoch: 3, Through: through(70)}, annals.Position{Slices: sliceRange(200, 250), Epoch: 2, Through: through(60)})
}

func handledOnce(h *harness) {
	a1, a2, a3 := offsetAt("Thing|a", 1, 10), offsetAt("Thing|a", 2, 20), offsetAt("Thing|a", 3, 30)
	b1 := offsetAt("Thing|b", 1, 25)
	once := func(os ...annals.Offset) error {
		return h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "p", Epoch: 1, Offsets: os, Once: true})
	}
	if err := once(a1, a2); err != nil {
		h.Fatalf("save the first two events of an entity once: got error %v, want none", err)
	}
	h.wantKind(once(a2), annals.ErrConflict, "save the same event once more")
	h.wantKind(once(b1, a2, a3), annals.ErrConflict, "save an event once more, with later ones")
	h.wantHandled("p", a2)
	h.wantNotHandled("p", b1.ID)
	if err := once(b1, a3); err != nil {
		h.Errorf("save two new events once: got error %v, want none", err)
	}
	h.saveProgress(annals.Progress{Through: through(40)})
	h.wantKind(once(offsetAt("Thing|c", 1, 39)), annals.ErrConflict, "save an event before Through once more")
	if err := once(offsetAt("Thing|c", 2, 41)); err != nil {
		h.Errorf("save an event after Through once: got error %v, want none", err)
	}
	h.wantHandled("p", offsetAt("Thing|c", 2, 41))
}

func racingOnce(h *harness) {
	var won, lost int
	for round := range h.volume(10, 3) {
		shared := offsetAt("Thing|shared", annals.SeqNr(round+1), round)
		errs := make([]error, 4)
		together(len(errs), func(i int) {
			own := offsetAt(annals.PersistenceID(fmt.Sprintf("Thing|%d", i)), annals.SeqNr(round+1), round)
			errs[i] = h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{own, shared}, Once: true})
		})
		for i, err := range errs {
			handled := h.handledOf("p", annals.PersistenceID(fmt.Sprintf("Thing|%d", i))).SeqNr == annals.SeqNr(round+1)
			switch {
			case err == nil && handled:
				won++
			case errors.Is(err, annals.ErrConflict) && !handled:
				lost++
			default:
				h.Errorf("round %d, save %d: got error %v, its own event handled: %v", round, i, err, handled)
			}
		}
	}
	if rounds := h.volume(10, 3); won != rounds || lost != 3*rounds {
		h.Errorf("%d rounds of four racing saves: got %d winners and %d conflicts, want %d and %d", rounds, won, lost, rounds, 3*rounds)
	}
}

func resetFences(h *harness) {
	a := offsetAt("Thing|a", 1, 10)
	if err := h.saveAs(5, annals.SliceRange{}, a); err != nil {
		h.Fatalf("save with epoch 5: got error %v, want none", err)
	}
	slice := a.ID.Slice()
	h.reset(sliceRange(slice, slice+1), annals.Offset{})
	h.wantKind(h.saveAs(5, annals.SliceRange{}, offsetAt("Thing|a", 2, 20)), annals.ErrFenced, "save of the worker that was running")
	h.wantNotHandled("p", a.ID)
	h.wantLoaded("p", sliceRange(slice, slice+1), annals.Position{Slices: sliceRange(slice, slice+1), Epoch: 6})
	if err := h.saveAs(6, annals.SliceRange{}, offsetAt("Thing|a", 2, 20)); err != nil {
		h.Errorf("save with the next epoch: got error %v, want none", err)
	}
}

func clockWentBack(h *harness) {
	h.saveOffsets("p", offsetAt("Thing|a", 5, 50))
	if err := h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "p", Once: true, Offsets: []annals.Offset{offsetAt("Thing|a", 6, 40)}}); err != nil {
		h.Errorf("save event 6, which has an earlier time than event 5: got error %v, want none", err)
	}
	h.wantHandled("p", offsetAt("Thing|a", 6, 50)) // covers both
	h.saveOffsets("p", offsetAt("Thing|a", 5, 50))
	h.wantHandled("p", offsetAt("Thing|a", 6, 50))
	h.saveOffsets("p", offsetAt("Thing|a", 1, 60)) // the entity was forgotten and began again
	h.wantHandled("p", offsetAt("Thing|a", 1, 60))
	h.saveOffsets("p", offsetAt("Thing|b", 5, 50), offsetAt("Thing|b", 6, 40)) // both in one step
	h.wantHandled("p", offsetAt("Thing|b", 6, 50))
}

func largestProgress(h *harness) {
	limit := h.caps.Limits.MaxOffsets
	var os []annals.Offset
	for i := range limit + 1 {
		os = append(os, offsetAt(h.id(), 1, i%60))
	}
	h.wantKind(h.store.Offsets().Save(h.ctx, annals.Progress{Projection: "p", Offsets: os}), annals.ErrTooLarge, "save %d offsets", len(os))
	h.wantNotHandled("p", os[0].ID)
	h.saveOffsets("p", os[:limit]...)
	h.wantHandled("p", os[limit-1])
}
