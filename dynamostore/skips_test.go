package dynamostore_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

var skippers = map[string]dynamostore.Layout{
	"commit": commit.Layout{}, "commit with an index": commit.Layout{Index: "slices"},
	"j5ik2o": j5ik2o.Layout{ShardCount: 4}, "akka0": akka0.Layout{Table: "akka0"},
	"esa, rust 5": esa.Layout{Peer: esa.Rust5},
}

// Of two skips that begin at the same time one succeeds, unless they are to the same number.
func TestSkipsBesideEachOther(t *testing.T) {
	t.Parallel()
	for name, layout := range skippers {
		for _, to := range [][2]annals.SeqNr{{8, 3}, {3, 8}, {8, 1}, {1, 8}, {5, 8}, {8, 5}, {1, 11}, {7, 7}} {
			for _, after := range []annals.SeqNr{0, 3} {
				for _, deleted := range []bool{false, true} {
					skipsBesideEachOther(t, name, layout, after, deleted, [2]annals.SeqNr{after + to[0], after + to[1]})
				}
			}
		}
	}
}

// skipsBesideEachOther has an entity with after events.
func skipsBesideEachOther(t *testing.T, name string, layout dynamostore.Layout, after annals.SeqNr, deleted bool, to [2]annals.SeqNr) {
	t.Helper()
	offer, err := layout.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	s := offer.On(x)
	if after > 0 {
		written(t, s, after, deleted)
	}
	var inner error
	x.Meanwhile = func() { inner = s.SkipTo(t.Context(), "Thing|1-1", after, to[1]) }
	outer := s.SkipTo(t.Context(), "Thing|1-1", after, to[0])
	last, err := s.Journal.LastSeqNr(t.Context(), "Thing|1-1")
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range []error{outer, inner} {
		if stored := last == to[i]; stored != (err == nil) || !stored && !errors.Is(err, annals.ErrConflict) {
			t.Errorf("%s: skips to %v, after %d: the one to %d is %v, and the last number %d", name, to, after, to[i], err, last)
		}
	}
}

// written writes n events, and deletes them where deleted is set.
func written(t *testing.T, s plan.Contracts, n annals.SeqNr, deleted bool) {
	t.Helper()
	_, err := s.Journal.Append(t.Context(), annals.Commit{ID: "Thing|1-1", WriteID: annals.NewWriteID(), Events: slices.Repeat([]annals.NewEvent{text("x")}, int(n))})
	if deleted {
		err = errors.Join(err, s.Journal.DeleteTo(t.Context(), "Thing|1-1", annals.MaxSeqNr))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Of a skip and an append that begin at the same time one succeeds.
func TestSkipBesideAnAppend(t *testing.T) {
	t.Parallel()
	for name, layout := range skippers {
		for i, to := range []annals.SeqNr{4, 5, 11, 4, 5, 11} {
			offer, err := layout.Plan()
			if err != nil {
				t.Fatal(err)
			}
			x := plantest.New(offer.Tables)
			s := offer.On(x)
			written(t, s, 3, i > 2)
			var appended error
			x.Meanwhile = func() {
				_, appended = s.Journal.Append(t.Context(), annals.Commit{ID: "Thing|1-1", After: 3, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{text("x")}})
			}
			skipped := s.SkipTo(t.Context(), "Thing|1-1", 3, to)
			last, err := s.Journal.LastSeqNr(t.Context(), "Thing|1-1")
			won, lost, want := skipped, appended, to
			if appended == nil {
				won, lost, want = appended, skipped, 4
			}
			if err != nil || won != nil || !errors.Is(lost, annals.ErrConflict) || last != want {
				t.Errorf("%s: skip to %d is %v, append %v, and the last number %d, %v", name, to, skipped, appended, last, err)
			}
		}
	}
}

// again is an executor that loses the first answer to each write of one op, and to others only if the service does not know them again.
type again struct{ *plantest.Executor }

func (a again) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if len(w.Ops) == 1 && w.Token == "" {
		if out, err := a.Executor.Write(ctx, w); err != nil || out.Refused {
			return out, err
		}
	}
	return a.Executor.Write(ctx, w)
}

// A skip whose answer was lost is recognised.
func TestSkipOfANumberWithLostAnswer(t *testing.T) {
	t.Parallel()
	for name, layout := range skippers {
		for _, n := range []annals.SeqNr{1, 2, 5, 11} {
			offer, err := layout.Plan()
			if err != nil {
				t.Fatal(err)
			}
			s := offer.On(again{plantest.New(offer.Tables)})
			for range 2 {
				if err := s.SkipTo(t.Context(), "Thing|1-1", 0, n); err != nil {
					t.Errorf("%s: skip to %d: %v", name, n, err)
				}
			}
			if err := s.SkipTo(t.Context(), "Thing|1-1", 0, n+1); !errors.Is(err, annals.ErrConflict) {
				t.Errorf("%s: skip to %d after one to %d: %v", name, n+1, n, err)
			}
		}
	}
}
