package storetest

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// undoing is a store whose server undoes one write when next is set.
type undoing struct {
	faulty.Store
	next atomic.Bool
}

// newUndoing returns an undoing store. hasty acknowledges before the server has confirmed the commit.
func newUndoing(hasty bool) *undoing {
	s := &undoing{Store: faulty.Store{Store: memstore.New()}}
	s.Around = func(_ context.Context, c *faulty.Call, run func() error) error {
		r, ok := c.Result.(*annals.Receipt)
		switch {
		case !ok || !s.next.CompareAndSwap(true, false):
			return run()
		case !hasty:
			return faulty.Failed(c)
		}
		switch w := c.Arg.(type) {
		case *annals.Commit:
			r.SeqNr = w.After + annals.SeqNr(len(w.Events))
		case *annals.StateWrite:
			r.SeqNr = w.After + 1
		}
		return nil
	}
	return s
}

func TestUndo(t *testing.T) {
	t.Parallel()
	undo := func(_ testing.TB, s annals.Store) { s.(*undoing).next.Store(true) }
	run(t, Config{Open: func(testing.TB) annals.Store { return newUndoing(false) }, Undo: undo}, acknowledgementCases)

	c := Config{Open: func(testing.TB) annals.Store { return newUndoing(true) }, Undo: undo}
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
