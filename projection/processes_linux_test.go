package projection_test

import (
	"bytes"
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	. "github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// rounds is how often a worker process is killed, stopped or ended: make soak has 30.
var rounds = flag.Int("rounds", 4, "how often a process of a projection is killed, stopped or ended")

const (
	playWorker  = "PROJECTION_TEST_WORKER" // names the database of a process that is a worker
	workers     = 4
	workerLease = 1500 * time.Millisecond // several times what a write takes while all processors are busy
)

func init() { children[playWorker] = playTheWorker }

// playTheWorker runs the projection on a database, the URL of PostgreSQL or the name of a file of SQLite, until the standard input ends.
func playTheWorker(database string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	p, err := openProcessed(ctx, database)
	if err != nil {
		return err
	}
	defer p.close()
	return p.runner.Run(ctx)
}

// processed is a database with events, and with a read model that lists the events in the order in which they were handled.
type processed struct {
	store  annals.Store
	runner *Runner
	create func(ctx context.Context) error
	list   func(ctx context.Context) ([]handledEvent, error)
	close  func()
}

type handledEvent struct {
	ID    annals.PersistenceID
	SeqNr annals.SeqNr
}

// createProcessed is openProcessed for the test itself, which creates the tables.
func createProcessed(ctx context.Context, t *testing.T, database string) processed {
	t.Helper()
	p, err := openProcessed(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	if err := p.create(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

func openProcessed(ctx context.Context, database string) (processed, error) {
	if strings.HasPrefix(database, "postgres:") {
		return openPostgres(ctx, database)
	}
	return openSQLite(ctx, database)
}

func openPostgres(ctx context.Context, url string) (processed, error) {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return processed{}, err
	}
	// The server ends the transaction of a process that has stopped, after WriteTimeout.
	store, err := pgstore.Open(ctx, pool, pgstore.Options{CreateTables: true, WriteTimeout: time.Second})
	if err != nil {
		return processed{}, err
	}
	p := processed{
		store: store,
		create: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, "CREATE TABLE handled (n BIGSERIAL PRIMARY KEY, id TEXT, seq BIGINT)")
			return err
		},
		list: func(ctx context.Context) ([]handledEvent, error) {
			rows, err := pool.Query(ctx, "SELECT id, seq FROM handled ORDER BY n")
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowToStructByPos[handledEvent])
		},
		close: func() {
			_ = store.Close()
			pool.Close()
		},
	}
	p.runner, err = newProcessRunner(store, func(ctx context.Context, tx pgx.Tx, e envelope) error {
		_, err := tx.Exec(ctx, "INSERT INTO handled (id, seq) VALUES ($1, $2)", e.ID, e.SeqNr)
		return err
	})
	return p, err
}

func openSQLite(ctx context.Context, file string) (processed, error) {
	store, err := sqlitestore.Open(ctx, file, sqlitestore.Options{})
	if err != nil {
		return processed{}, err
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return processed{}, err
	}
	p := processed{
		store: store,
		create: func(ctx context.Context) error {
			_, err := db.ExecContext(ctx, "CREATE TABLE handled (n INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT, seq INTEGER)")
			return err
		},
		list: func(ctx context.Context) (all []handledEvent, err error) {
			rows, err := db.QueryContext(ctx, "SELECT id, seq FROM handled ORDER BY n")
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var e handledEvent
				if err := rows.Scan(&e.ID, &e.SeqNr); err != nil {
					return nil, err
				}
				all = append(all, e)
			}
			return all, rows.Err()
		},
		close: func() {
			_ = db.Close()
			_ = store.Close()
		},
	}
	p.runner, err = newProcessRunner(store, func(ctx context.Context, tx *sql.Tx, e envelope) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO handled (id, seq) VALUES (?, ?)", e.ID, e.SeqNr)
		return err
	})
	return p, err
}

func newProcessRunner[T any](store TxStore[T], handle func(ctx context.Context, tx T, e envelope) error) (*Runner, error) {
	return ExactlyOnce("p", Source[int]{Store: store, Type: "T", Codec: numbers}, store, handle,
		Options{Ranges: 16, BatchSize: 20, Lease: workerLease, Poll: 100 * time.Millisecond})
}

// worker is a process that takes part in the projection.
type worker struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
}

func startWorker(t *testing.T, database string) *worker {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd: exec.CommandContext(context.WithoutCancel(t.Context()), program)}
	w.cmd.Env = append(os.Environ(), playWorker+"="+database, "GOMAXPROCS=2")
	w.cmd.Stderr = &w.stderr
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			w.kill(t)
		}
	})
	return w
}

func (w *worker) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%v: %v\n%s", s, err, &w.stderr)
	}
}

// kill ends the process as a crash does.
func (w *worker) kill(t *testing.T) {
	t.Helper()
	w.signal(t, syscall.SIGKILL)
	_ = w.cmd.Wait() // says that it was killed
}

// end ends the process in order.
func (w *worker) end(t *testing.T) {
	t.Helper()
	if err := w.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &w.stderr)
	}
}

// writers append events until the returned function is called, which returns the last number of each entity.
func writers(t *testing.T, s annals.Store) (stop func() map[annals.PersistenceID]annals.SeqNr) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	random := random.New(t)
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		last = map[annals.PersistenceID]annals.SeqNr{}
	)
	for w := range 4 {
		all.Go(func() {
			random := random.Child()
			pace := time.NewTicker(50 * time.Millisecond)
			defer pace.Stop()
			own := map[annals.PersistenceID]annals.SeqNr{}
			for ctx.Err() == nil {
				id := annals.NewPersistenceID("T", fmt.Sprint(w, random.IntN(1000)))
				c := annals.Commit{ID: id, After: own[id]}
				for n := range 1 + random.IntN(5) {
					p, err := numbers.Encode(int(own[id]) + n + 1)
					if err != nil {
						t.Error(err)
					}
					c.Events = append(c.Events, annals.NewEvent{Payload: p})
				}
				r, err := s.Journal().Append(context.WithoutCancel(ctx), c)
				if annals.SafeToRetry(err) { // on a busy machine it can take longer than WriteTimeout
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				own[id] = r.SeqNr
				select {
				case <-pace.C:
				case <-ctx.Done():
				}
			}
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(last, own)
		})
	}
	return func() map[annals.PersistenceID]annals.SeqNr {
		cancel()
		all.Wait()
		return last
	}
}

// await reports whether what has come true within the time.
func await(within time.Duration, what func() bool) bool {
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(within); time.Now().Before(end); <-look.C {
		if what() {
			return true
		}
	}
	return false
}

// When Await returns, the read model has the event that another process has handled.
func TestAwaitAnotherProcess(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]string{"postgres": postgres.Schema(t), "sqlite": filepath.Join(t.TempDir(), "annals.db")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.WithoutCancel(t.Context())
			p := createProcessed(ctx, t, database)
			w := startWorker(t, database)
			for n := 1; n <= 20; n++ {
				add(t, p.store, n%3, n%3, 1)
				id, number := annals.NewPersistenceID("T", fmt.Sprint(n%3)), annals.SeqNr((n+2)/3)
				for _, c := range []*Control{NewControl(p.store, "p"), p.runner.Control()} { // p.runner does not run
					if err := c.Await(ctx, p.store, id, number); err != nil {
						t.Fatal(err)
					}
					if handled, err := p.list(ctx); err != nil || !slices.Contains(handled, handledEvent{id, number}) {
						t.Fatalf("%s/%d is not in the read model: %v, %v", id, number, handled, err)
					}
				}
			}
			w.end(t)
		})
	}
}

// Four processes share a projection, while events are written. Processes are killed, stopped past their lease and continued, and ended, and
// others take their ranges. Every event is handled, none of them twice, and those of each entity are in order.
func TestProcessesShareAProjection(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) { t.Parallel(); shareProjection(t, postgres.Schema(t)) })
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); shareProjection(t, filepath.Join(t.TempDir(), "annals.db")) })
}

func shareProjection(t *testing.T, database string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	p := createProcessed(ctx, t, database)
	stopWriting := writers(t, p.store)
	shared := func(n int) bool {
		runners, held, err := Holders(ctx, p.store, "p")
		if err != nil {
			t.Fatal(err)
		}
		sum, least := 0, 16
		for _, of := range held {
			sum, least = sum+of, min(least, of)
		}
		return runners == n && sum == 16 && len(held) == n && least >= 16/n
	}
	demand := func(n int) {
		t.Helper()
		if !await(2*time.Minute, func() bool { return shared(n) }) {
			runners, held, _ := Holders(ctx, p.store, "p")
			t.Fatalf("%d runners hold %v, want %d with all ranges", runners, held, n)
		}
	}

	var all []*worker
	for range workers {
		all = append(all, startWorker(t, database))
	}
	demand(workers)
	stopped, rounds := 0, *rounds
	if testing.Short() {
		rounds = min(rounds, 2)
	}
	for round := range rounds {
		w := all[0]
		all = all[1:]
		switch round % 4 {
		case 0:
			w.kill(t)
			demand(workers - 1)
		case 1, 3:
			// A process that has stopped in a transaction holds locks that the others need to take its ranges. Then it is tried again.
			for evicted := false; !evicted; {
				w.signal(t, syscall.SIGSTOP)
				evicted = await(4*workerLease, func() bool { return shared(workers - 1) })
				w.signal(t, syscall.SIGCONT)
				demand(workers)
			}
			stopped++
			all = append(all, w)
			continue
		case 2:
			w.end(t)
			demand(workers - 1)
		}
		all = append(all, startWorker(t, database))
		demand(workers)
	}

	last := stopWriting()
	count := func() (c handledCount) {
		handled, err := p.list(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return countHandled(last, handled)
	}
	await(2*time.Minute, func() bool { return count().skipped == 0 })
	for _, w := range all {
		w.end(t)
	}
	c := count()
	if c.skipped+c.doubled+c.disordered > 0 {
		t.Errorf("skipped %d, doubled %d; of %d entities, %d were not handled in order", c.skipped, c.doubled, len(last), c.disordered)
	}
	t.Logf("%d rounds, in %d of them a process was stopped past its lease; %d events: skipped %d, doubled %d", rounds, stopped, c.events, c.skipped, c.doubled)
}

type handledCount struct{ events, skipped, doubled, disordered int }

// countHandled compares handled with the last number of each entity that was acknowledged.
func countHandled(last map[annals.PersistenceID]annals.SeqNr, handled []handledEvent) (c handledCount) {
	numbers := map[annals.PersistenceID][]annals.SeqNr{}
	for _, e := range handled {
		numbers[e.ID] = append(numbers[e.ID], e.SeqNr)
	}
	for id, n := range last {
		unique := slices.Compact(slices.Sorted(slices.Values(numbers[id])))
		c.events += int(n)
		c.skipped += int(n) - len(unique)
		c.doubled += len(numbers[id]) - len(unique)
		if !slices.IsSorted(numbers[id]) {
			c.disordered++
		}
	}
	return c
}
