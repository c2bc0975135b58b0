package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// projectionFigures are what a projection costs beside the reads and writes that it is for, and how soon it handles an event.
func projectionFigures() []Figure {
	const about = "events a second of a projection that catches up exactly once, in %s, divided by those of one loop over Query.Events that writes the same rows in the same batches by hand and saves no position"
	const latencyAbout = "99th percentile in milliseconds of the time from the answer to an append to the end of the transaction that handles its event exactly once, with 500 appends a second"
	const awaitAbout = "90th percentile in milliseconds of the time from the end of the transaction that handles an event to the return of Await, of a Control without the Runner, at the load of projection-latency"
	const cpuAbout = "processor time%s of the projection in %s, divided by that of the loop"
	const liveAbout = "processor time of a program and of PostgreSQL for an append and its handling exactly once, with 100 appends a second and %d ranges, divided by that with one range"
	return []Figure{
		{Name: "projection-catchup-cpu-sqlite", Goal: AtMost(1.35), Run: inverse(onSQLite(catchupSQLite(processorTime))), About: fmt.Sprintf(cpuAbout, "", "projection-catchup-sqlite")},
		{Name: "projection-catchup-cpu-postgres", Goal: AtMost(1.25), Run: inverse(onPostgres(catchupPostgres(true))), About: fmt.Sprintf(cpuAbout, ", with that of the server,", "projection-catchup-postgres")},
		{Name: "projection-catchup-sqlite", Goal: AtLeast(0.6), Run: onSQLite(catchupSQLite(clock)), About: fmt.Sprintf(about, "transactions of 100 INSERTs")},
		{Name: "projection-catchup-postgres", Goal: AtLeast(0.6), Run: onPostgres(catchupPostgres(false)), About: fmt.Sprintf(about, "transactions with one batch of 100 INSERTs")},
		{Name: "projection-catchup-dynamodb", Goal: AtLeast(0.6), Run: onDynamo(false, lateLayout, dynamostore.Options{}, catchupDynamoDB), About: fmt.Sprintf(about, "transactions of 50 puts")},
		{Name: "projection-latency-sqlite", Goal: AtMost(50), Run: onSQLite(latencySQLite(handledIn)), About: latencyAbout},
		{Name: "projection-latency-postgres", Goal: AtMost(50), Run: onPostgres(latencyPostgres(handledIn)), About: latencyAbout},
		{Name: "projection-await-sqlite", Goal: AtMost(20), Run: onSQLite(latencySQLite(awaitedIn)), About: awaitAbout},
		{Name: "projection-await-postgres", Goal: AtMost(40), Run: onPostgres(latencyPostgres(awaitedIn)), About: awaitAbout},
		{Name: "projection-live-4", Goal: AtMost(1.3), Run: onPostgres(livePostgres(4)), About: fmt.Sprintf(liveAbout, 4)},
		{Name: "projection-live-16", Goal: AtMost(1.4), Run: onPostgres(livePostgres(16)), About: fmt.Sprintf(liveAbout, 16)},

		{Name: "projection-idle", Goal: AtMost(1), Run: idle,
			About: "requests a second and range of a projection of one entity type with 4 ranges and without new events, on PostgreSQL or on DynamoDB, whichever is more"},
		{Name: "projection-scale-4", Goal: AtLeast(2.5), Run: scale,
			About: "events a second of a projection with 4 ranges, divided by those with 1 range, with a handler that waits 2 ms for each event"},
		{Name: "projection-shared-rows", Goal: AtLeast(0.8), Run: onPostgres(sharedRows),
			About: "events a second of a projection with 4 ranges, divided by those with 1 range, with a handler that adds each event to one of 50 rows of PostgreSQL"},
	}
}

// lateLayout has an index for queries.
var lateLayout = commit.Layout{Table: "figures", Index: "slices", Lateness: 10 * time.Second}

// asRead is the codec of a projection that uses payloads as they are stored.
type asRead struct{}

func (asRead) Encode(p annals.Payload) (annals.Payload, error) { return p, nil }
func (asRead) Decode(p annals.Payload) (annals.Payload, error) { return p, nil }

var quiet = slog.New(slog.DiscardHandler)

type envelope = projection.Envelope[annals.Payload]

func sourceOf(s annals.Store) projection.Source[annals.Payload] {
	return projection.Source[annals.Payload]{Store: s, Type: "Figure", Codec: codec.Codec[annals.Payload](asRead{})}
}

// fill appends count events in commits of ten, the commits of 200 entities in turn.
func fill(ctx context.Context, s annals.Store, count int) error {
	const entities, each = 200, 10
	events := slices.Repeat([]annals.NewEvent{{Payload: figurePayload}}, each)
	for n := 0; n < count; n += each {
		id := fmt.Sprintf("%016x", uint64(n/each%entities)*0x9e3779b97f4a7c15) // in slices all over, as those of UUIDs are
		c := annals.Commit{ID: annals.NewPersistenceID("Figure", id), After: annals.SeqNr(n / each / entities * each), Events: events}
		if _, err := s.Journal().Append(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// catchup alternates between a projection that handles all events of store and a loop that does so by hand; both write batches. It returns what
// the loop spends, divided by what the projection does.
func catchup[T any](ctx context.Context, store projection.TxStore[T], count, batch int, spent func() float64, handle func(ctx context.Context, tx T, es []envelope) error, byHand func(ctx context.Context, es []envelope) error) (float64, error) {
	if err := errors.Join(fill(ctx, store, count), settle(ctx, store)); err != nil {
		return 0, err
	}
	turn := 0
	ours := func() error {
		turn++
		var handled atomic.Int64
		r, err := projection.ExactlyOnceGrouped(fmt.Sprint("turn ", turn), sourceOf(store), store, func(ctx context.Context, tx T, es []envelope) error {
			handled.Add(int64(len(es)))
			return handle(ctx, tx, es)
		}, projection.Options{BatchSize: batch, Logger: quiet})
		if err == nil {
			err = r.CatchUp(ctx)
		}
		if err == nil && handled.Load() < int64(count) { // a batch whose transaction failed is handled again
			err = fmt.Errorf("of %d events %d were handled", count, handled.Load())
		}
		return err
	}
	return ratio(4, spent, reading(count, func() (written int, err error) {
		var es []envelope
		for e, err := range store.Query().Events(ctx, annals.Filter{Type: "Figure"}) {
			if err != nil {
				return 0, err
			}
			if es = append(es, envelope{Event: e, Value: e.Payload}); len(es) == batch {
				if err := byHand(ctx, es); err != nil {
					return 0, err
				}
				es, written = es[:0], written+len(es)
			}
		}
		return written + len(es), byHand(ctx, es)
	}), ours)
}

func catchupSQLite(spent func() float64) func(ctx context.Context, b *sqliteBench) (ratio float64, err error) {
	return func(ctx context.Context, b *sqliteBench) (ratio float64, err error) {
		// By hand the rows go to the same file as the events, through a connection with the settings of the store's.
		hand, err := sql.Open("sqlite", "file:"+filepath.Join(b.dir, "annals.db")+sqlitePragmas)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, hand.Close()) }()
		hand.SetMaxOpenConns(1)
		if err := errors.Join(sqliteTable(ctx, hand, "ours"), sqliteTable(ctx, hand, "hand")); err != nil {
			return 0, err
		}
		return catchup(ctx, b.store, 20_000, 100, spent, insertSQLite("ours"), func(ctx context.Context, es []envelope) error {
			tx, err := hand.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := insertSQLite("hand")(ctx, tx, es); err != nil {
				return err
			}
			return tx.Commit()
		})
	}
}

// inverse is 1 divided by what run returns.
func inverse(run func(ctx context.Context) (float64, error)) func(ctx context.Context) (float64, error) {
	return func(ctx context.Context) (float64, error) {
		value, err := run(ctx)
		return 1 / value, err
	}
}

// sqliteTable creates a table with a row for each event.
func sqliteTable(ctx context.Context, db interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, name string) error {
	_, err := db.ExecContext(ctx, "CREATE TABLE "+name+" (id TEXT, seq_nr INTEGER, data BLOB, PRIMARY KEY (id, seq_nr)) WITHOUT ROWID")
	return err
}

// insertSQLite returns a handler that writes a row for each event.
func insertSQLite(table string) func(ctx context.Context, tx *sql.Tx, es []envelope) error {
	return func(ctx context.Context, tx *sql.Tx, es []envelope) error {
		stmt, err := tx.PrepareContext(ctx, "INSERT OR REPLACE INTO "+table+" VALUES (?, ?, ?)")
		if err != nil {
			return err
		}
		defer func() { _ = stmt.Close() }()
		for _, e := range es {
			if _, err := stmt.ExecContext(ctx, string(e.ID), int64(e.SeqNr), e.Data); err != nil {
				return err
			}
		}
		return nil
	}
}

func catchupPostgres(processors bool) func(ctx context.Context, b *postgresBench) (float64, error) {
	return func(ctx context.Context, b *postgresBench) (float64, error) {
		pool, err := b.bare(ctx, 2)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		if err := errors.Join(b.table(ctx, "ours"), b.table(ctx, "hand")); err != nil {
			return 0, err
		}
		spent := clock
		if processors {
			if spent, err = withServer(ctx, pool); err != nil {
				return 0, err
			}
		}
		return catchup(ctx, b.store, 20_000, 100, spent, insertPostgres("ours"), func(ctx context.Context, es []envelope) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return insertPostgres("hand")(ctx, tx, es) })
		})
	}
}

// sharedRows has a projection with four ranges and one with one range change the same rows.
func sharedRows(ctx context.Context, b *postgresBench) (float64, error) {
	const count = 100_000
	pool, err := b.bare(ctx, 2)
	if err != nil {
		return 0, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "CREATE TABLE annals_figures.totals AS SELECT customer, 0 AS events FROM generate_series(0, 49) customer; ALTER TABLE annals_figures.totals ADD PRIMARY KEY (customer)"); err != nil {
		return 0, err
	}
	if err := errors.Join(fill(ctx, b.store, count), settle(ctx, b.store)); err != nil {
		return 0, err
	}
	took := map[int]time.Duration{}
	for _, ranges := range []int{1, 4} {
		r, err := projection.ExactlyOnce(fmt.Sprint("ranges ", ranges), sourceOf(b.store), b.store, func(ctx context.Context, tx pgx.Tx, e envelope) error {
			_, err := tx.Exec(ctx, "UPDATE annals_figures.totals SET events = events + 1 WHERE customer = $1", (int(e.SeqNr)+len(e.ID)+int(e.ID[len(e.ID)-1]))%50)
			return err
		}, projection.Options{Ranges: ranges, Logger: quiet})
		if err != nil {
			return 0, err
		}
		begun := time.Now()
		if err := r.CatchUp(ctx); err != nil {
			return 0, err
		}
		took[ranges] = time.Since(begun)
	}
	var sum int
	if err := pool.QueryRow(ctx, "SELECT sum(events)::int FROM annals_figures.totals").Scan(&sum); err != nil || sum != 2*count {
		return 0, errors.Join(err, fmt.Errorf("the totals are %d for %d events", sum, 2*count))
	}
	return took[1].Seconds() / took[4].Seconds(), nil
}

func (b *postgresBench) table(ctx context.Context, name string) error {
	_, err := b.pool.Exec(ctx, "CREATE TABLE annals_figures."+name+" (id TEXT, seq_nr BIGINT, data BYTEA, PRIMARY KEY (id, seq_nr))")
	return err
}

// insertPostgres returns a handler that writes a row for each event, in one batch of statements.
func insertPostgres(table string) func(ctx context.Context, tx pgx.Tx, es []envelope) error {
	return func(ctx context.Context, tx pgx.Tx, es []envelope) error {
		rows := &pgx.Batch{}
		for _, e := range es {
			rows.Queue("INSERT INTO annals_figures."+table+" VALUES ($1, $2, $3) ON CONFLICT (id, seq_nr) DO UPDATE SET data = EXCLUDED.data", string(e.ID), int64(e.SeqNr), e.Data)
		}
		return tx.SendBatch(ctx, rows).Close()
	}
}

// settle waits until no event can appear any more before one that is stored.
func settle(ctx context.Context, store annals.Store) error {
	newest, err := store.Query().Newest(ctx, annals.Filter{})
	for err == nil {
		var watermark time.Time
		if watermark, err = store.Query().Watermark(ctx); err == nil && watermark.After(newest.Time) {
			return nil
		}
		err = errors.Join(err, backoff.Sleep(ctx, 100*time.Millisecond))
	}
	return err
}

func catchupDynamoDB(ctx context.Context, b *dynamoBench, store *dynamostore.Store) (float64, error) {
	if _, err := b.client.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: aws.String("rows"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}}); err != nil {
		return 0, err
	}
	put := func(side string, e annals.Event) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{TableName: aws.String("rows"), Item: map[string]types.AttributeValue{
			"id":   text(fmt.Sprint(side, " ", e.ID, " ", e.SeqNr)),
			"data": &types.AttributeValueMemberB{Value: e.Data},
		}}}
	}
	return catchup(ctx, store, 4_000, 50, clock, func(_ context.Context, tx *dynamostore.Tx, es []envelope) error {
		for _, e := range es {
			tx.Add(put("ours", e.Event))
		}
		return nil
	}, func(ctx context.Context, es []envelope) error {
		if len(es) == 0 {
			return nil
		}
		in := &dynamodb.TransactWriteItemsInput{}
		for _, e := range es {
			in.TransactItems = append(in.TransactItems, put("hand", e.Event))
		}
		_, err := b.client.TransactWriteItems(ctx, in)
		return err
	})
}

// scale alternates between projections with one range and with four.
func scale(ctx context.Context) (float64, error) {
	store := memstore.New()
	const events = 1_000
	if err := fill(ctx, store, events); err != nil {
		return 0, err
	}
	turn := 0
	with := func(ranges int) func() error {
		return func() error {
			turn++
			r, err := projection.AtLeastOnce(fmt.Sprint("turn ", turn), sourceOf(store), store, func(ctx context.Context, _ envelope) error {
				return backoff.Sleep(ctx, 2*time.Millisecond)
			}, projection.Options{Ranges: ranges, Logger: quiet})
			if err != nil {
				return err
			}
			return r.CatchUp(ctx)
		}
	}
	return ratio(2, clock, with(1), with(4))
}
