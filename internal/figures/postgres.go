package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// postgresFigures compare pgstore, with all its guarantees, with the bare driver on the same table and server: the one of
// ANNALS_POSTGRES, or one started for the figure, with fsync on.
func postgresFigures() []Figure {
	return []Figure{
		{Name: "postgres-group-commit-64", Goal: AtLeast(2.0), Run: onPostgres(groupCommit),
			About: "appends per second of 64 writers, each to its own entity, divided by single-row INSERTs per second of 64 writers through a bare pgx pool of 16 or 32 connections, whichever is faster"},
		{Name: "postgres-append-cpu-64", Goal: AtMost(1.6), Run: onPostgres(appendGroups),
			About: "processor time of the program and the server for appends of 64 writers, each to its own entity, divided by that of the same rows in INSERTs of 64 rows from arrays through one bare pgx connection"},
		{Name: "postgres-append-1", Goal: AtLeast(0.95), Run: onPostgres(beside(1, 20, 100*time.Millisecond, (*side).perSecond)),
			About: "appends per second of one writer, divided by single-row INSERTs per second of one bare pgx connection"},
		{Name: "postgres-replay", Goal: AtLeast(0.95), Run: onPostgres(replay),
			About: "events per second of a replay of 20,000 events of 200 bytes, divided by rows per second of the same SELECT through bare pgx"},
		{Name: "postgres-p99-16", Goal: AtMost(2), Run: onPostgres(beside(16, 10, 250*time.Millisecond, (*side).p99)),
			About: "99th percentile of the duration of an append with 16 writers, divided by that of a single-row INSERT with 16 writers through a bare pgx pool of 16"},
		{Name: "shared-reads", Goal: AtLeast(0.5), Run: onPostgres(sharedReads),
			About: "commands a second of 64 callers to one entity, half of them reads, divided by the same with SingleOwner: what it costs that the store confirms each answer"},
		{Name: "postgres-guarded-read", Goal: AtMost(1.3), Run: onPostgres(guardedRead),
			About: "median duration of a transaction that reads an entity of two events and appends to another one, divided by that of one which reads only the first event, so that nothing is guarded"},
		{Name: "postgres-recover-10", Goal: AtMost(1.35), Run: onPostgres(recoverTen),
			About: "processor time of the program and the server for a recovery of an entity of 10 events of 200 bytes without a snapshot, divided by that of a SELECT of its events through bare pgx"},
		pgbenchFigure(1, 0.6), pgbenchFigure(16, 0.8), pgbenchFigure(64, 1.5),
	}
}

// pgbenchFigure compares that many writers with pgbench, PostgreSQL's own benchmark. pgbench is a C program that waits for many
// connections at once and does not read the answers, so it shows the most that a server can do with that statement.
func pgbenchFigure(writers int, goal float64) Figure {
	return Figure{Name: fmt.Sprint("postgres-pgbench-", writers), Goal: AtLeast(goal), Run: onPostgres(func(ctx context.Context, b *postgresBench) (float64, error) {
		return pgbench(ctx, b, writers)
	}), About: fmt.Sprintf("appends per second of %d writers, each to its own entity, divided by transactions per second of pgbench -c %[1]d -M prepared with the single-row INSERT of the same table", writers)}
}

// postgresBench is a store and a table for the bare driver.
type postgresBench struct {
	url   string
	pool  *pgxpool.Pool // of the store, which reads through it
	store *pgstore.Store
	ids   atomic.Int64
}

// onPostgres runs measure on an empty database.
func onPostgres(measure func(ctx context.Context, b *postgresBench) (float64, error)) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (value float64, err error) {
		url := os.Getenv(postgres.Env)
		if url == "" {
			server, err := postgres.Start(ctx)
			if err != nil {
				return 0, err
			}
			defer server.Stop()
			url = server.URL
		}
		admin, err := pgx.Connect(ctx, url)
		if err != nil {
			return 0, err
		}
		defer admin.Close(ctx)
		const schema = "annals_figures"
		drop := func() error {
			_, err := admin.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
			return err
		}
		if err := drop(); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, drop()) }()
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		store, err := pgstore.Open(ctx, pool, pgstore.Options{CreateTables: true, Tables: pgstore.Tables{Schema: schema}})
		if err != nil {
			return 0, err
		}
		defer store.Close()
		return measure(ctx, &postgresBench{url: url, pool: pool, store: store})
	}
}

var postgresPayload = annals.Payload{SerializerID: 4, Manifest: "bench", Data: make([]byte, 200)}

// writer appends to an entity of its own.
func (b *postgresBench) writer() func(ctx context.Context) error {
	c := annals.Commit{ID: annals.NewPersistenceID("Bench", fmt.Sprint("store-", b.ids.Add(1))), Events: []annals.NewEvent{{Payload: postgresPayload}}}
	return func(ctx context.Context) error {
		c.WriteID = annals.NewWriteID()
		r, err := b.store.Journal().Append(ctx, c)
		c.After = r.SeqNr
		return err
	}
}

const bareInsert = `INSERT INTO annals_figures.event_journal (slice, entity_type, persistence_id, seq_nr, writer, adapter_manifest, event_ser_id,
	event_ser_manifest, event_payload, db_timestamp) VALUES ($1, $2, $3, $4, $5, '', $6, $7, $8, now())`

// inserter inserts rows of an entity of its own, without any guarantee.
func (b *postgresBench) inserter(pool *pgxpool.Pool) func(ctx context.Context) error {
	id, seqNr := annals.NewPersistenceID("Bench", fmt.Sprint("bare-", b.ids.Add(1))), int64(0)
	slice, entityType := id.Slice(), id.Type()
	return func(ctx context.Context) error {
		seqNr++
		_, err := pool.Exec(ctx, bareInsert, slice, entityType, string(id), seqNr, annals.NewWriteID().String(), postgresPayload.SerializerID, postgresPayload.Manifest, postgresPayload.Data)
		return err
	}
}

// bare is a pool with n connections, all of them open.
func (b *postgresBench) bare(ctx context.Context, n int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = n, n
	return pgxpool.NewWithConfig(ctx, config)
}

// side is one of the two sides that are measured alternately: its writers, and what they did so far.
type side struct {
	writers   []func(ctx context.Context) error
	durations []time.Duration // of every write
	spent     time.Duration
}

func newSide(n int, writer func() func(ctx context.Context) error) *side {
	s := &side{}
	for range n {
		s.writers = append(s.writers, writer())
	}
	return s
}

// run lets all writers write for some time.
func (s *side) run(ctx context.Context, while time.Duration) error {
	var wg sync.WaitGroup
	durations, errs := make([][]time.Duration, len(s.writers)), make([]error, len(s.writers))
	start := time.Now()
	for i, write := range s.writers {
		wg.Go(func() {
			for now := start; errs[i] == nil && now.Sub(start) < while; {
				errs[i] = write(ctx)
				then := time.Now()
				durations[i], now = append(durations[i], then.Sub(now)), then
			}
		})
	}
	wg.Wait()
	s.spent += time.Since(start)
	s.durations = append(s.durations, slices.Concat(durations...)...)
	return errors.Join(errs...)
}

// each lets each writer write n times.
func (s *side) each(ctx context.Context, n int) error {
	var wg sync.WaitGroup
	errs := make([]error, len(s.writers))
	for i, write := range s.writers {
		wg.Go(func() { errs[i] = times(n, func() error { return write(ctx) })() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *side) perSecond() float64 { return float64(len(s.durations)) / s.spent.Seconds() }

// p99 is the 99th percentile of the durations, in seconds.
func (s *side) p99() float64 { return s.percentile(99) }

func (s *side) median() float64 { return s.percentile(50) }

func (s *side) percentile(n int) float64 {
	slices.Sort(s.durations)
	return s.durations[len(s.durations)*n/100].Seconds()
}

// divided runs two sides alternately, and divides the value of a by that of b.
func divided(ctx context.Context, turns int, while time.Duration, value func(*side) float64, a, b *side) (float64, error) {
	if err := inTurns(ctx, turns, while, a, b); err != nil {
		return 0, err
	}
	return value(a) / value(b), nil
}

// inTurns runs the sides alternately. The first run of each is not counted.
func inTurns(ctx context.Context, turns int, while time.Duration, sides ...*side) error {
	for turn := range turns + 1 {
		for _, s := range sides {
			if err := s.run(ctx, while); err != nil {
				return err
			}
			if turn == 0 {
				s.durations, s.spent = nil, 0
			}
		}
	}
	return nil
}

func groupCommit(ctx context.Context, b *postgresBench) (float64, error) {
	ours := newSide(64, b.writer)
	var bare []*side
	for _, n := range []int32{16, 32} {
		pool, err := b.bare(ctx, n)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		bare = append(bare, newSide(64, func() func(ctx context.Context) error { return b.inserter(pool) }))
	}
	if err := inTurns(ctx, 6, 500*time.Millisecond, ours, bare[0], bare[1]); err != nil {
		return 0, err
	}
	return ours.perSecond() / max(bare[0].perSecond(), bare[1].perSecond()), nil
}

// appendGroups lets 64 writers append ten times each.
func appendGroups(ctx context.Context, b *postgresBench) (float64, error) {
	pool, err := b.bare(ctx, 1)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	spent, err := withServer(ctx, pool)
	if err != nil {
		return 0, err
	}
	ours := newSide(writers, b.writer)
	return ratio(12, spent, func() error { return ours.each(ctx, 10*each) }, times(10*each, b.insertGroup(ctx, pool)))
}

// insertGroup inserts a row of each of 64 entities of its own in one statement, without any guarantee.
func (b *postgresBench) insertGroup(ctx context.Context, pool *pgxpool.Pool) func() error {
	var slice, serializer []int32
	var seqNr []int64
	var entityType, id, writer, manifest []string
	var payload [][]byte
	for range writers {
		x := annals.NewPersistenceID("Bench", fmt.Sprint("bare-", b.ids.Add(1)))
		slice, entityType, id = append(slice, int32(x.Slice())), append(entityType, x.Type()), append(id, string(x))
		seqNr, writer = append(seqNr, 0), append(writer, "")
		serializer, manifest, payload = append(serializer, postgresPayload.SerializerID), append(manifest, postgresPayload.Manifest), append(payload, postgresPayload.Data)
	}
	return func() error {
		for i := range writers {
			seqNr[i]++
			writer[i] = annals.NewWriteID().String()
		}
		_, err := pool.Exec(ctx, `INSERT INTO annals_figures.event_journal (slice, entity_type, persistence_id, seq_nr, writer, adapter_manifest, event_ser_id,
			event_ser_manifest, event_payload, db_timestamp) SELECT slice, entity_type, id, seq_nr, writer, '', serializer, manifest, payload, now()
			FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::int[], $7::text[], $8::bytea[])
			AS e (slice, entity_type, id, seq_nr, writer, serializer, manifest, payload)`, slice, entityType, id, seqNr, writer, serializer, manifest, payload)
		return err
	}
}

// beside runs so many writers of the store and as many on a bare pool with a connection for each, in turns.
func beside(writers, turns int, while time.Duration, value func(*side) float64) func(ctx context.Context, b *postgresBench) (float64, error) {
	return func(ctx context.Context, b *postgresBench) (float64, error) {
		pool, err := b.bare(ctx, int32(writers))
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		return divided(ctx, turns, while, value, newSide(writers, b.writer), newSide(writers, func() func(ctx context.Context) error { return b.inserter(pool) }))
	}
}

// guardedRead runs transactions that read an entity of two events, all of them or the first one. What is behind the end of a read is not guarded.
func guardedRead(ctx context.Context, b *postgresBench) (float64, error) {
	write := b.writer()
	if err := errors.Join(write(ctx), write(ctx)); err != nil {
		return 0, err
	}
	other := annals.NewPersistenceID("Bench", fmt.Sprint("store-", b.ids.Load()))
	transactions := func(guards bool) *side {
		to := annals.SeqNr(1)
		if guards {
			to = annals.MaxSeqNr
		}
		return newSide(1, func() func(ctx context.Context) error {
			c := annals.Commit{ID: annals.NewPersistenceID("Bench", fmt.Sprint("guarded-", b.ids.Add(1))), Events: []annals.NewEvent{{Payload: postgresPayload}}}
			return func(ctx context.Context) error {
				return b.store.InTx(ctx, func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
					for _, err := range in.Journal().Replay(ctx, other, 1, to) {
						if err != nil {
							return err
						}
					}
					c.WriteID = annals.NewWriteID()
					r, err := in.Journal().Append(ctx, c)
					c.After = r.SeqNr
					return err
				})
			}
		})
	}
	return divided(ctx, 60, 50*time.Millisecond, (*side).median, transactions(true), transactions(false))
}

// sharedReads has one of two runtimes confirm its answers.
func sharedReads(ctx context.Context, b *postgresBench) (float64, error) {
	return askers(ctx, b.store, tally, 64, 500*time.Millisecond, entity.Options{}, entity.Options{SingleOwner: true})
}

// askers runs the callers of an entity of two runtimes alternately, and divides what those with the options o get by what the others get, in a
// second. The commands of a caller are 1 and 0 by turns.
func askers(ctx context.Context, s annals.Store, b behavior.EventSourced[int, int, int, int], callers int, while time.Duration, o, other entity.Options) (float64, error) {
	var sides []*side
	for i, o := range []entity.Options{o, other} {
		rt, err := entity.New(s, b, o)
		if err != nil {
			return 0, err
		}
		defer func() { _ = rt.Shutdown(ctx) }()
		sides = append(sides, newSide(callers, func() func(ctx context.Context) error {
			n := 0
			return func(ctx context.Context) error {
				n++
				_, err := rt.Ask(ctx, fmt.Sprint("hot-", i), n%2)
				return err
			}
		}))
	}
	return divided(ctx, 6, while, (*side).perSecond, sides[0], sides[1])
}

// tally counts the commands that are not 0.
var tally = behavior.EventSourced[int, int, int, int]{
	Type: "Tally",
	Decide: func(_, add int) ([]int, error) {
		if add == 0 {
			return nil, nil
		}
		return []int{add}, nil
	},
	Evolve: func(total, added int) int { return total + added },
	Reply:  func(total, _ int, _ []int) int { return total },
}

// pgbench runs the writers of the store and those of pgbench alternately, for a second each.
func pgbench(ctx context.Context, b *postgresBench, writers int) (float64, error) {
	program, err := pgbenchProgram()
	if err != nil {
		return 0, err
	}
	script := fmt.Sprintf(`\set n :n + 1
INSERT INTO annals_figures.event_journal (slice, entity_type, persistence_id, seq_nr, writer, adapter_manifest, event_ser_id, event_ser_manifest,
	event_payload, db_timestamp) VALUES (7, 'Bench', 'Bench|pgbench-' || :client_id, :n, '%s', '', %d, '%s', '\x%x', now());
`, annals.NewWriteID(), postgresPayload.SerializerID, postgresPayload.Manifest, postgresPayload.Data)
	run := 0
	return costRatio(4, func() (float64, error) {
		ours := newSide(writers, b.writer)
		err := ours.run(ctx, time.Second)
		return ours.perSecond(), err
	}, func() (float64, error) {
		run++ // each run continues with the next numbers
		cmd := exec.CommandContext(ctx, program, "-n", "-M", "prepared", "-c", fmt.Sprint(writers), "-j", fmt.Sprint(min(writers, runtime.NumCPU())), "-T", "1",
			"-D", fmt.Sprint("n=", run*10_000_000), "-f", "-", b.url)
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return 0, fmt.Errorf("pgbench: %w: %s", err, out)
		}
		tps := regexp.MustCompile(`(?m)^tps = ([0-9.]+)`).FindSubmatch(out)
		if tps == nil {
			return 0, fmt.Errorf("pgbench said %s", out)
		}
		return strconv.ParseFloat(string(tps[1]), 64)
	})
}

// pgbenchProgram is on the PATH, or where Debian's package postgresql installs it.
func pgbenchProgram() (string, error) {
	if program, err := exec.LookPath("pgbench"); err == nil {
		return program, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
	if err != nil || len(found) == 0 {
		return "", errors.Join(errors.New("there is no pgbench"), err)
	}
	return found[len(found)-1], nil
}

func replay(ctx context.Context, b *postgresBench) (float64, error) {
	const events, perCommit = 20_000, 500
	id := annals.NewPersistenceID("Bench", "replay")
	if err := appendEqual(ctx, b.store, id, events, perCommit, postgresPayload); err != nil {
		return 0, err
	}
	if _, err := b.pool.Exec(ctx, "VACUUM ANALYZE annals_figures.event_journal"); err != nil {
		return 0, err
	}
	// Both sides use one connection, so that the same server process answers them.
	return ratio(200, clock, reading(events, func() (n int, err error) { return bareReplay(ctx, b.pool, id) }), reading(events, func() (int, error) {
		n, _, err := replayed(ctx, b.store, id)
		return n, err
	}))
}

// recoverTen recovers 200 entities in turns.
func recoverTen(ctx context.Context, b *postgresBench) (float64, error) {
	const entities, events, rounds = 200, 10, 10
	ids := make([]annals.PersistenceID, entities)
	for i := range ids {
		ids[i] = annals.NewPersistenceID("Bench", fmt.Sprint("recover-", i))
		if err := appendEqual(ctx, b.store, ids[i], events, events, postgresPayload); err != nil {
			return 0, err
		}
	}
	if _, err := b.pool.Exec(ctx, "VACUUM ANALYZE annals_figures.event_journal"); err != nil {
		return 0, err
	}
	spent, err := withServer(ctx, b.pool)
	if err != nil {
		return 0, err
	}
	each := func(read func(id annals.PersistenceID) (n int, err error)) func() error {
		return reading(entities*events*rounds, func() (total int, err error) {
			for i := range entities * rounds {
				n, err := read(ids[i%entities])
				if total += n; err != nil {
					return total, err
				}
			}
			return total, nil
		})
	}
	return ratio(12, spent,
		each(func(id annals.PersistenceID) (int, error) { return recovered(ctx, b.store, id) }),
		each(func(id annals.PersistenceID) (int, error) { return bareReplay(ctx, b.pool, id) }))
}

// bareReplay scans the same columns.
func bareReplay(ctx context.Context, pool *pgxpool.Pool, id annals.PersistenceID) (n int, err error) {
	rows, err := pool.Query(ctx, `SELECT persistence_id, seq_nr, db_timestamp, event_ser_id, event_ser_manifest, event_payload, writer, adapter_manifest, tags,
		meta_ser_id, meta_ser_manifest, meta_payload FROM annals_figures.event_journal WHERE persistence_id = $1 AND NOT deleted ORDER BY seq_nr`, string(id))
	if err != nil {
		return 0, err
	}
	var e annals.Event
	var text, writer string
	var metaID *int32
	var metaManifest *string
	_, err = pgx.ForEachRow(rows, []any{&text, (*int64)(&e.SeqNr), &e.Time, &e.SerializerID, &e.Manifest, &e.Data, &writer, &e.Adapter, &e.Tags,
		&metaID, &metaManifest, &e.Metadata.Data}, func() error { n++; return nil })
	return n, err
}
