package projection_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

var numbers = codec.JSON[int]("number")

// silent is a Logger for tests with failures on purpose.
var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

type envelope = Envelope[int]

// target is a store with a read model, which counts how often each event was handled. Its runners call before, which may be nil,
// for each event, before they count the event.
type target struct {
	store  annals.Store
	once   maker
	group  maker
	least  maker
	count  func(t *testing.T) map[string]int
	faults *faults
}

// faults are what a store does wrong.
type faults struct {
	around func(run func() error) error // called instead of each transaction, and of each Save outside of one
	commit func() error                 // called at the end of each transaction
}

// maker is one of the methods of a target that make a Runner.
type maker = func(name string, from annals.Store, before func(envelope) error, o Options) (*Runner, error)

// withFaults is a store with faults.
type withFaults[T any] struct {
	faulty.TxStore[T]
	*faults
}

func newWithFaults[T any](s TxStore[T], f *faults) withFaults[T] {
	return withFaults[T]{faulty.NewTx(s, func(_ context.Context, c *faulty.Call, run func() error) error {
		if c.InTx || c.Op != "transaction" && c.Op != "save offsets" {
			return run()
		}
		return f.around(run)
	}), f}
}

func (s withFaults[T]) InTx(ctx context.Context, fn func(ctx context.Context, tx T, in annals.Store) error) error {
	return s.TxStore.InTx(ctx, func(ctx context.Context, tx T, in annals.Store) error {
		if err := fn(ctx, tx, in); err != nil {
			return err
		}
		return s.commit()
	})
}

func key(e envelope) string { return fmt.Sprintf("%s/%d", e.ID, e.SeqNr) }

func newTarget[T any](sound TxStore[T], add func(ctx context.Context, tx T, e envelope) error, count func(t *testing.T) map[string]int) target {
	source := func(from annals.Store) Source[int] { return Source[int]{Store: from, Type: "T", Codec: numbers} }
	handle := func(ctx context.Context, tx T, e envelope, before func(envelope) error) error {
		if before != nil {
			if err := before(e); err != nil {
				return err
			}
		}
		return add(ctx, tx, e)
	}
	f := &faults{around: func(run func() error) error { return run() }, commit: func() error { return nil }}
	store := newWithFaults(sound, f)
	return target{
		store: sound, faults: f,
		once: func(name string, from annals.Store, before func(envelope) error, o Options) (*Runner, error) {
			return ExactlyOnce(name, source(from), store, func(ctx context.Context, tx T, e envelope) error { return handle(ctx, tx, e, before) }, o)
		},
		group: func(name string, from annals.Store, before func(envelope) error, o Options) (*Runner, error) {
			return ExactlyOnceGrouped(name, source(from), store, func(ctx context.Context, tx T, es []envelope) error {
				for _, e := range es {
					if err := handle(ctx, tx, e, before); err != nil {
						return err
					}
				}
				return nil
			}, o)
		},
		least: func(name string, from annals.Store, before func(envelope) error, o Options) (*Runner, error) {
			return AtLeastOnce(name, source(from), store, func(ctx context.Context, e envelope) error {
				return sound.InTx(ctx, func(ctx context.Context, tx T, _ annals.Store) error { return handle(ctx, tx, e, before) })
			}, o)
		},
		count: count,
	}
}

// countIn counts e in the read model of inMemory.
func countIn(tx memstore.Tx, e envelope) error {
	counts, _ := tx.Value("counts").(map[string]int)
	counts = maps.Clone(counts)
	if counts == nil {
		counts = map[string]int{}
	}
	counts[key(e)]++
	tx.SetValue("counts", counts)
	return nil
}

func inMemory(store *memstore.Store) target {
	return newTarget(store, func(_ context.Context, tx memstore.Tx, e envelope) error { return countIn(tx, e) }, func(*testing.T) map[string]int {
		counts, _ := store.Value("counts").(map[string]int)
		return maps.Clone(counts)
	})
}

func inSQLite(t *testing.T) target {
	t.Helper()
	file := filepath.Join(t.TempDir(), "annals.db")
	store, err := sqlitestore.Open(t.Context(), file, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE counts (event TEXT)")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	add := func(ctx context.Context, tx *sql.Tx, e envelope) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO counts VALUES (?)", key(e))
		return err
	}
	return newTarget(store, add, func(t *testing.T) map[string]int {
		t.Helper()
		counts := map[string]int{}
		if err := store.InTx(context.WithoutCancel(t.Context()), func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
			rows, err := tx.QueryContext(ctx, "SELECT event FROM counts")
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var event string
				if err := rows.Scan(&event); err != nil {
					return err
				}
				counts[event]++
			}
			return rows.Err()
		}); err != nil {
			t.Fatal(err)
		}
		return counts
	})
}

// onStores runs test with a read model in each store.
func onStores(t *testing.T, test func(t *testing.T, in target)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) { t.Parallel(); test(t, inMemory(memstore.New())) })
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, inSQLite(t)) })
}

// add appends n events to each of the entities T|first to T|last.
func add(t *testing.T, s annals.Store, first, last, n int) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for i := first; i <= last; i++ {
		id := annals.NewPersistenceID("T", strconv.Itoa(i))
		after, err := s.Journal().LastSeqNr(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		c := annals.Commit{ID: id, After: after}
		for j := range n {
			p, err := numbers.Encode(int(after) + j + 1)
			if err != nil {
				t.Fatal(err)
			}
			c.Events = append(c.Events, annals.NewEvent{Payload: p})
		}
		if _, err := s.Journal().Append(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
}

// check compares the read model with the events of s: each was handled once, but for those of left.
func (in target) check(t *testing.T, s annals.Store, left ...string) {
	t.Helper()
	want := map[string]int{}
	for e, err := range s.Query().Events(context.WithoutCancel(t.Context()), annals.Filter{Type: "T"}) {
		if err != nil {
			t.Fatal(err)
		}
		if k := key(envelope{Event: e}); !slices.Contains(left, k) {
			want[k] = 1
		}
	}
	got := in.count(t)
	for k := range want {
		if got[k] != 1 {
			t.Errorf("%s was handled %d times", k, got[k])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d events were handled, want %d", len(got), len(want))
	}
}

func must(t *testing.T) func(r *Runner, err error) *Runner {
	return func(r *Runner, err error) *Runner {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func catchUp(t *testing.T, r *Runner) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := r.CatchUp(ctx); err != nil {
		t.Fatal(err)
	}
}
