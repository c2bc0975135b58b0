package sqlitestore_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// requests is an Observer that keeps what the last call cost.
type requests struct{ last annals.Result }

func (*requests) Start(ctx context.Context, _ annals.Call) context.Context     { return ctx }
func (r *requests) End(_ context.Context, _ annals.Call, result annals.Result) { r.last = result }

// A request is a transaction or a query that a call waits for, also inside a transaction of the user's.
func TestRequests(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var r requests
	outer := open(t, sqlitestore.Options{Observer: &r})
	check := func(s annals.Store, id annals.PersistenceID) {
		t.Helper()
		cost := func(what string, want int, call func() error) {
			t.Helper()
			if err := call(); err != nil || r.last.Requests != want {
				t.Errorf("%s: %d requests, %v, want %d", what, r.last.Requests, err, want)
			}
		}
		cost("append", 1, func() error { mustAppend(t, s, commit(id, 0, sqlitestore.PageRows)); return nil })
		cost("replay of a page", 1, func() error { numbers(t, s, id); return nil })
		mustAppend(t, s, commit(id, sqlitestore.PageRows, 2))
		cost("replay of two pages", 2, func() error { numbers(t, s, id); return nil })
		cost("last number", 1, func() error { _, err := s.Journal().LastSeqNr(ctx, id); return err })
		cost("put state", 1, func() error { _, err := put(s, id, 0, "x"); return err })
		cost("forget", 1, func() error {
			f, err := ability.Of[ability.Forgetter](s)
			if err == nil {
				_, err = f.Forget(ctx, ability.Forgetting{ID: "S|2", DryRun: true})
			}
			return err
		})
		cost("delete in batches", 4, func() error { return s.Journal().DeleteTo(ctx, id, 4*sqlitestore.DeleteBatch) })
	}
	check(outer, "T|1")
	err := outer.InTx(ctx, func(_ context.Context, _ *sql.Tx, in annals.Store) error { check(in, "T|2"); return nil })
	if err != nil || r.last.Requests != 1 {
		t.Errorf("transaction: %d requests, %v, want 1", r.last.Requests, err)
	}
}
