package sqlitestore_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// ledger is an Observer that counts.
type ledger struct {
	mu           sync.Mutex
	started      []annals.Call
	ended        []annals.Result
	foreignStart int // ended with a context that Start did not return
}

type ledgerKey struct{}

func (l *ledger) Start(ctx context.Context, c annals.Call) context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = append(l.started, c)
	return context.WithValue(ctx, ledgerKey{}, true)
}

func (l *ledger) End(ctx context.Context, _ annals.Call, r annals.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = append(l.ended, r)
	if ctx.Value(ledgerKey{}) == nil {
		l.foreignStart++
	}
}

func TestObserver(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	var l ledger
	s := open(t, sqlitestore.Options{Observer: &l})
	check := func(op string, id annals.PersistenceID, events int, fails bool) {
		t.Helper()
		if len(l.started) != 1 || len(l.ended) != 1 || l.foreignStart != 0 {
			t.Fatalf("%s: %d calls started, %d ended, %d of them with another context", op, len(l.started), len(l.ended), l.foreignStart)
		}
		c, r := l.started[0], l.ended[0]
		if c.Op != op || c.Store != "sqlite" || c.ID != id || r.Events != events || (r.Err != nil) != fails || !fails && r.Requests == 0 {
			t.Errorf("%s was reported as %+v %+v", op, c, r)
		}
		l.started, l.ended = nil, nil
	}
	mustAppend(t, s, commit("T|1", 0, 3))
	check("append", "T|1", 3, false)
	_, _ = s.Journal().Append(ctx, annals.Commit{ID: "T|1"})
	check("append", "T|1", 0, true)
	numbers(t, s, "T|1")
	check("replay", "T|1", 3, false)
	for _, err := range s.Journal().Replay(ctx, "T|1", 1, annals.MaxSeqNr) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	check("replay", "T|1", 1, false)
	_, _ = s.Journal().LastSeqNr(ctx, "")
	check("last number", "", 0, true)
	_, _ = annals.Recover(ctx, s, "T|1", func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
	check("recover", "T|1", 3, false)
	_ = s.InTx(ctx, func(context.Context, *sql.Tx, annals.Store) error { return nil })
	check("transaction", "", 0, false)
	_, _ = put(s, "S|1", 0, "x")
	check("put state", "S|1", 0, false)
	_, _, _ = s.States().Get(ctx, "S|1")
	check("get state", "S|1", 0, false)
	_, _ = s.Forget(ctx, annals.Forgetting{ID: "S|1"})
	check("forget", "S|1", 0, true)
	_, _ = s.Forget(ctx, annals.Forgetting{ID: "S|2", DryRun: true})
	check("forget", "S|2", 0, false)
	_ = s.Offsets().Save(ctx, annals.Progress{Projection: "p"})
	check("save offsets", "", 0, false)
	for _, err := range s.Query().Events(ctx, annals.Filter{}) {
		if err != nil {
			t.Error(err)
		}
	}
	check("query events", "", 3, false)
}
