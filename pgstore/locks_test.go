package pgstore_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// Whatever takes a lock by a key makes the same key in every store on the same tables, and does not wait for a store in another schema, which makes
// another one.
func TestLocksAreThoseOfTables(t *testing.T) {
	t.Parallel()
	open := func(url string) *pgstore.Store {
		return openAt(t, url, pgstore.Options{CreateTables: true, WriteTimeout: 10 * time.Second})
	}
	url, otherURL := postgres.Schema(t), postgres.Schema(t)
	for _, u := range []string{url, otherURL} {
		open(u)
		run(t, u, "ALTER TABLE durable_state DROP CONSTRAINT durable_state_pkey, ADD PRIMARY KEY (persistence_id, revision)")
	}
	one, again, other := open(url), open(url), open(otherURL)
	const id = annals.PersistenceID("T|1")
	guard := func(read, written []driver.Seen) func(context.Context, *pgstore.Store, pgx.Tx, annals.Store) error {
		return func(ctx context.Context, s *pgstore.Store, tx pgx.Tx, _ annals.Store) error {
			return pgstore.GuardIn(ctx, s, tx, read, written)
		}
	}
	all := map[int64]string{} // the keys of one
	for name, c := range map[string]struct {
		locks int
		act   func(ctx context.Context, s *pgstore.Store, tx pgx.Tx, in annals.Store) error
	}{
		"DeleteTo": {1, func(ctx context.Context, _ *pgstore.Store, _ pgx.Tx, in annals.Store) error {
			return in.Journal().DeleteTo(ctx, "T|2", 1)
		}},
		"Forget": {1, func(ctx context.Context, _ *pgstore.Store, _ pgx.Tx, in annals.Store) error {
			f, err := ability.Of[ability.Forgetter](in)
			if err == nil {
				_, err = f.Forget(ctx, ability.Forgetting{ID: "T|3"})
			}
			return err
		}},
		"the first revision of a state": {1, func(ctx context.Context, _ *pgstore.Store, _ pgx.Tx, in annals.Store) error {
			_, err := in.States().Put(ctx, annals.StateWrite{ID: id, Payload: text("s")})
			return err
		}},
		"a guard of events":         {1, guard([]driver.Seen{{ID: id}}, []driver.Seen{{ID: id}})},
		"a guard of a state":        {1, guard([]driver.Seen{{ID: id, State: true}}, nil)},
		"a guard of another entity": {1, guard([]driver.Seen{{ID: "T|4"}}, nil)},
		"a guard beside its writes": {2, guard([]driver.Seen{{ID: "T|5"}}, []driver.Seen{{ID: "T|6", State: true}})},
		"the position of a projection": {2, func(ctx context.Context, _ *pgstore.Store, _ pgx.Tx, in annals.Store) error {
			return in.Offsets().Save(ctx, progress(0, 1024, 1))
		}},
	} {
		locked := func(s *pgstore.Store, then func()) (keys []int64) {
			t.Helper()
			err := s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
				if err := c.act(ctx, s, tx, in); err != nil {
					return err
				}
				rows, err := tx.Query(ctx, `SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
					WHERE locktype = 'advisory' AND objsubid = 1 AND pid = pg_backend_pid() ORDER BY 1`)
				if err != nil {
					return err
				}
				if keys, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
					return err
				}
				then()
				return errRollback // the next one needs no locks of this one
			})
			if !errors.Is(err, errRollback) || len(keys) != c.locks {
				t.Fatalf("%s: the keys %d, want %d; %v", name, keys, c.locks, err)
			}
			return keys
		}
		var others []int64
		keys := locked(one, func() { others = locked(other, func() {}) }) // while one holds its locks
		if same := locked(again, func() {}); !slices.Equal(keys, same) {
			t.Errorf("%s: two stores on the same tables have the keys %d and %d", name, keys, same)
		}
		for _, key := range keys {
			if slices.Contains(others, key) {
				t.Errorf("%s: a store in another schema has the same key", name)
			}
			if all[key] != "" {
				t.Errorf("%s and %s have the same key", name, all[key])
			}
			all[key] = name
		}
	}
}
