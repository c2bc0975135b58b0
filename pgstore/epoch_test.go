package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

func progress(from, to int, epoch int64) annals.Progress {
	return annals.Progress{Projection: "p", Slices: annals.SliceRange{From: from, To: to}, Epoch: epoch}
}

// Two workers on different slices save and begin a new epoch, each within a transaction that stays open. Neither waits for the other.
func TestWorkersOnOtherSlicesDoNotWait(t *testing.T) {
	t.Parallel()
	const workers = 3 // of which two share a half of the tree, at a bound that is no power of two
	url := postgres.Schema(t)
	stores := make([]*pgstore.Store, workers)
	for i := range stores {
		stores[i] = openAt(t, url, pgstore.Options{CreateTables: true, WriteTimeout: time.Minute})
	}
	slices := [workers][2]int{{0, 341}, {341, 682}, {682, 1024}}
	for round := range int64(2) { // first without rows of epochs, then with them
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		saved := make(chan int, workers)
		proceed := make(chan struct{})
		var both sync.WaitGroup
		for i, s := range stores {
			both.Go(func() {
				err := s.InTx(ctx, func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
					for step := range int64(2) { // both of a step before any of the next
						if err := in.Offsets().Save(ctx, progress(slices[i][0], slices[i][1], 1+round+step)); err != nil {
							return err
						}
						if step == 0 {
							saved <- i
							<-proceed
						}
					}
					saved <- i
					<-ctx.Done() // open until all have saved twice
					return nil
				})
				if errors.Is(err, annals.ErrFenced) || errors.Is(err, annals.ErrInvalid) {
					t.Errorf("worker %d: %v", i, err)
				}
			})
		}
		await := func(what string) {
			for range workers {
				select {
				case <-saved:
				case <-ctx.Done():
					t.Errorf("%s: a worker waits for one on other slices", what)
				}
			}
		}
		await("first save")
		close(proceed)
		await("new epoch")
		cancel()
		both.Wait()
		for i, s := range stores { // what was open has been rolled back
			if err := s.Offsets().Save(t.Context(), progress(slices[i][0], slices[i][1], 1)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The first save of a new epoch waits for saves of older epochs that overlap its slices. After it has returned, no older save is under way.
func TestNewEpochWaitsForTheOld(t *testing.T) {
	t.Parallel()
	for _, old := range [][2]int{{0, 1024}, {100, 200}, {0, 512}} {
		t.Run(fmt.Sprint("slices ", old), func(t *testing.T) {
			t.Parallel()
			url := postgres.Schema(t)
			s := openAt(t, url, pgstore.Options{CreateTables: true, WriteTimeout: time.Minute})
			other := openAt(t, url, pgstore.Options{WriteTimeout: time.Minute})
			for _, first := range []bool{true, false} { // the old lease's first save, with no row of it yet, and a later one
				held, release := make(chan struct{}), make(chan struct{})
				done := make(chan error, 1)
				epoch := int64(1)
				if !first {
					epoch = 2
					if err := s.Offsets().Save(t.Context(), progress(old[0], old[1], epoch)); err != nil {
						t.Fatal(err)
					}
				}
				go func() {
					done <- s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
						if err := in.Offsets().Save(ctx, progress(old[0], old[1], epoch)); err != nil {
							return err
						}
						close(held)
						<-release
						return nil
					})
				}()
				select {
				case <-held:
				case err := <-done:
					t.Fatal(err)
				}
				returned := make(chan error, 1)
				go func() { returned <- other.Offsets().Save(t.Context(), progress(150, 160, epoch+1)) }()
				awaitLock(t, url)
				select {
				case err := <-returned:
					t.Errorf("the new lease's save returned (%v) while one of the old was on its way", err)
				default:
				}
				close(release)
				if err := errors.Join(<-done, <-returned); err != nil {
					t.Fatal(err)
				}
				wantKind(t, s.Offsets().Save(t.Context(), progress(old[0], old[1], epoch)), annals.ErrFenced)
				if err := s.Offsets().Save(t.Context(), progress(0, 1024, epoch+1)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// awaitLock waits until a session on the tables of url waits for a lock.
func awaitLock(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for waiting := false; !waiting; {
		if err := conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity a, pg_namespace n WHERE n.nspname = current_schema()
			AND a.wait_event_type = 'Lock' AND a.query LIKE '%annals%epoch%')`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
}
