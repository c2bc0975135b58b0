package storetest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// undoing is a store whose server undoes one write when next is set.
type undoing struct {
	annals.Store
	next  atomic.Bool
	hasty bool // acknowledges before the server has confirmed the commit
}

func (s *undoing) undone(op string, r annals.Receipt) (annals.Receipt, error) {
	if s.hasty {
		return r, nil
	}
	return annals.Receipt{}, &annals.Error{Op: op, Kind: annals.ErrUnavailable}
}

func (s *undoing) Journal() annals.Journal {
	j := s.Store.Journal()
	return mutantJournal{Journal: j, append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
		if s.next.CompareAndSwap(true, false) {
			return s.undone("append", annals.Receipt{SeqNr: c.After + annals.SeqNr(len(c.Events))})
		}
		return j.Append(ctx, c)
	}}
}

func (s *undoing) States() annals.StateStore { return undoingStates{s.Store.States(), s} }

type undoingStates struct {
	annals.StateStore
	s *undoing
}

func (st undoingStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	if st.s.next.CompareAndSwap(true, false) {
		return st.s.undone("put state", annals.Receipt{SeqNr: w.After + 1})
	}
	return st.StateStore.Put(ctx, w)
}

func TestUndo(t *testing.T) {
	t.Parallel()
	undo := func(_ testing.TB, s annals.Store) { s.(*undoing).next.Store(true) }
	run(t, Config{Open: func(testing.TB) annals.Store { return &undoing{Store: memstore.New()} }, Undo: undo}, acknowledgementCases)

	c := Config{Open: func(testing.TB) annals.Store { return &undoing{Store: memstore.New(), hasty: true} }, Undo: undo}
	for _, id := range []string{"RECEIPT-2", "RECEIPT-3"} {
		if !fails(t, caseOf(t, id), c.probe(t)) {
			t.Errorf("%s: passes for a store that acknowledges what the server undoes", id)
		}
	}
}

// halving answers a commit that is sent again with the number up to which events were deleted.
type halving struct {
	*memstore.Store
	deleted atomic.Int64
}

func (s *halving) Journal() annals.Journal {
	j := s.Store.Journal()
	return mutantJournal{Journal: j,
		append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
			r, err := j.Append(ctx, c)
			if to := annals.SeqNr(s.deleted.Load()); r.Repeated && c.After < to && to < r.SeqNr {
				r.SeqNr = to
			}
			return r, err
		},
		delete: func(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
			s.deleted.Store(int64(to))
			return j.DeleteTo(ctx, id, to)
		}}
}
