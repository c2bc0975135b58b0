package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// Two stores append to the same entities in opposite orders, commits of one and of three events. There is no deadlock, and no commit is
// lost, stored twice or stored in part.
func TestGroupsOfTwoProcesses(t *testing.T) {
	t.Parallel()
	const entities, rounds = 24, 15
	url := postgres.Schema(t)
	stores := []*pgstore.Store{
		openAt(t, url, pgstore.Options{CreateTables: true}),
		openAt(t, url, pgstore.Options{CreateTables: true}),
	}
	ids := make([]annals.PersistenceID, entities)
	for i := range ids {
		ids[i] = annals.PersistenceID(fmt.Sprintf("Race|%02d", i))
	}
	var mu sync.Mutex
	won := map[annals.PersistenceID]map[annals.SeqNr]annals.WriteID{}
	for _, id := range ids {
		won[id] = map[annals.SeqNr]annals.WriteID{}
	}
	var wg sync.WaitGroup
	for k, s := range stores {
		order := slices.Clone(ids)
		if k == 1 {
			slices.Reverse(order)
		}
		for i, id := range order {
			wg.Go(func() {
				for range rounds {
					after, err := s.Journal().LastSeqNr(t.Context(), id)
					if err != nil {
						t.Error(err)
						return
					}
					c := annals.Commit{ID: id, After: after, WriteID: annals.NewWriteID()}
					for n := range 1 + 2*((i+k)%2) {
						c.Events = append(c.Events, annals.NewEvent{Payload: text(fmt.Sprint(after + annals.SeqNr(n) + 1))})
					}
					r, err := s.Journal().Append(t.Context(), c)
					switch {
					case err == nil:
						mu.Lock()
						for n := after + 1; n <= r.SeqNr; n++ {
							if _, ok := won[id][n]; ok {
								t.Errorf("%q: number %d was given twice", id, n)
							}
							won[id][n] = c.WriteID
						}
						mu.Unlock()
					case !errors.Is(err, annals.ErrConflict):
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, id := range ids {
		n, earlier := annals.SeqNr(0), annals.Event{}
		for e, err := range stores[0].Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
			if n++; err != nil || e.SeqNr != n || e.WriteID != won[id][n] || string(e.Data) != fmt.Sprint(n) {
				t.Fatalf("%q: event %d is %+v (%v), acknowledged to %v", id, n, e, err, won[id][n])
			}
			if !e.Time.After(earlier.Time) && e.WriteID != earlier.WriteID {
				t.Errorf("%q: time of %d does not rise: %v after %v", id, n, e.Time, earlier.Time)
			}
			earlier = e
		}
		if int(n) != len(won[id]) || n == 0 {
			t.Errorf("%q: %d events stored, %d acknowledged", id, n, len(won[id]))
		}
	}
}

// hold makes the journal's inserts by one writer wait for an advisory lock, after the statement has read the table.
const hold = `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.writer = '%s' THEN PERFORM pg_advisory_xact_lock_shared(hashtextextended(current_schema(), 0)); END IF;
	RETURN NEW; END $$;
CREATE TRIGGER hold BEFORE INSERT ON event_journal FOR EACH ROW EXECUTE FUNCTION hold()`

func holding(w annals.WriteID) string { return fmt.Sprintf(hold, w) }

// A statement waits after it has read the last number and before it inserts. Meanwhile another owner writes, saves a snapshot and deletes
// everything. The number must not be used again.
func TestHeldUpWriterMeetsTheDeleted(t *testing.T) {
	t.Parallel()
	for _, events := range []int{1, 3} {
		t.Run(fmt.Sprint(events, " events"), func(t *testing.T) {
			t.Parallel()
			url := postgres.Schema(t)
			held := openAt(t, url, pgstore.Options{CreateTables: true})
			owner := openAt(t, url, pgstore.Options{})
			appendOne(t, owner, "Held|1", 0)
			w := annals.NewWriteID()
			run(t, url, holding(w))
			release := lockSchema(t, url)

			result := make(chan error, 1)
			go func() {
				c := annals.Commit{ID: "Held|1", After: 1, WriteID: w}
				for range events {
					c.Events = append(c.Events, annals.NewEvent{Payload: text("late")})
				}
				_, err := held.Journal().Append(t.Context(), c)
				result <- err
			}()
			awaitHeld(t, url)
			for after := annals.SeqNr(1); after < 4; after++ {
				appendOne(t, owner, "Held|1", after)
			}
			if err := owner.Snapshots().Save(t.Context(), annals.Snapshot{ID: "Held|1", SeqNr: 4, Payload: text("all")}); err != nil {
				t.Error(err)
			}
			if err := owner.Journal().DeleteTo(t.Context(), "Held|1", annals.MaxSeqNr); err != nil {
				t.Error(err)
			}
			release()
			wantKind(t, <-result, annals.ErrConflict)
			last, err := ability.Recover(t.Context(), owner, "Held|1", func(annals.Snapshot) error { return nil }, func(e annals.Event) error {
				t.Errorf("event %d came back", e.SeqNr)
				return nil
			})
			if last != 4 || err != nil {
				t.Errorf("last number %d (%v), want 4", last, err)
			}
		})
	}
}

// The writer of one entity waits for a lock. Writers of other entities that began at the same time do not wait for long.
func TestNeighboursOfAHeldUpWriter(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true, WriteTimeout: time.Minute})
	w := annals.NewWriteID()
	run(t, url, holding(w))
	release := lockSchema(t, url)
	held := make(chan error, 1)
	go func() {
		_, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Held|1", WriteID: w, Events: []annals.NewEvent{{Payload: text("x")}}})
		held <- err
	}()
	awaitHeld(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // far less than the held up one may take
	defer cancel()
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			for after := range annals.SeqNr(3) {
				c := annals.Commit{ID: annals.PersistenceID(fmt.Sprintf("Free|%d", i)), After: after, Events: []annals.NewEvent{{Payload: text("x")}}}
				if _, err := s.Journal().Append(ctx, c); err != nil {
					t.Errorf("a neighbour: %v", err)
				}
			}
		})
	}
	wg.Wait()
	release()
	if err := <-held; err != nil {
		t.Errorf("the one held up: %v", err)
	}
}

// A commit that the database refuses fails alone.
func TestNeighboursOfARefusedWriter(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	run(t, url, `ALTER TABLE event_journal ADD CONSTRAINT small CHECK (length(event_payload) < 10)`)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			p := text("x")
			if i%5 == 0 {
				p = text("a secret of more than ten bytes")
			}
			_, err := s.Journal().Append(t.Context(), annals.Commit{ID: annals.PersistenceID(fmt.Sprintf("T|%d", i)), Events: []annals.NewEvent{{Payload: p}}})
			if i%5 == 0 {
				wantKind(t, err, annals.ErrConstraint)
				wantNoSecret(t, err)
			} else if err != nil {
				t.Errorf("a neighbour: %v", err)
			}
		})
	}
	wg.Wait()
}

// lockSchema takes the lock that hold waits for.
func lockSchema(t *testing.T, url string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(hashtextextended(current_schema(), 0))"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}
}

// awaitHeld returns when a session waits for the lock.
func awaitHeld(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for waiting := false; !waiting; {
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(current_schema(), 0))`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}
