package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// processFigures are what a process manager costs beside one that is written by hand.
func processFigures() []Figure {
	return []Figure{{Name: "process-timers-sqlite", Goal: AtLeast(2.5), Run: onSQLite(processTimers),
		About: "timers a second that are set because of an event, take effect, and send a command that takes effect once to an entity, divided by those of a projection that writes rows of a table exactly once, and a loop that sends the command of one row after the other and deletes the row"}}
}

// pings is the entity that gets the commands. Its state is how many.
var pings = behavior.EventSourced[int, int, int, struct{}]{
	Type:   "Ping",
	Decide: func(_, n int) ([]int, error) { return []int{n}, nil },
	Evolve: func(n, _ int) int { return n + 1 },
}

func processTimers(ctx context.Context, b *sqliteBench) (float64, error) {
	recipients, err := aggregate.New(b.store, pings, aggregate.Options{})
	if err != nil {
		return 0, err
	}
	ours, err := processByLibrary(b.store, recipients)
	if err != nil {
		return 0, err
	}
	theirs, err := processByHand(ctx, b.store, recipients)
	if err != nil {
		return 0, err
	}
	const count, turns = 1000, 3
	begun := 0
	begin := func() error {
		begun++
		return appendOne(ctx, b.store, annals.NewPersistenceID("Figure", fmt.Sprint(begun)), 0)
	}
	took, err := medians(turns, clock, times(count, begin), func() error { return ours(ctx) }, func() error { return theirs(ctx) })
	if err != nil {
		return 0, err
	}
	for n := range begun {
		if got, _, err := recipients.Load(ctx, fmt.Sprint(n+1)); err != nil || got != 2 {
			return 0, fmt.Errorf("entity %d has got %d commands, %w", n, got, err)
		}
	}
	return took[2] / took[1], nil
}

func processByLibrary(store *sqlitestore.Store, recipients *aggregate.Repository[int, int, struct{}]) (func(context.Context) error, error) {
	target := process.NewTarget("pings", codec.JSON[int]("ping"))
	p := process.Process[struct{}, struct{}]{
		Type: "Timers",
		React: func(_ struct{}, in process.Input) (process.Step[struct{}], error) {
			if _, ok := in.Value.(process.Fired); ok {
				return process.Step[struct{}]{Commands: []process.Command{target.Tell(in.ID, 1)}, End: true}, nil
			}
			return process.Step[struct{}]{Timers: []process.Timer{{Name: "now", Due: in.Time}}}, nil
		},
	}
	from := process.From(sourceOf(store), func(e envelope) string { return e.ID.EntityID() })
	to := process.To(target, recipients.AskOnce)
	r, err := process.New(store, p, []process.Source{from}, []process.Recipients{to}, process.Options{Precision: time.Millisecond, Logger: quiet})
	if err != nil {
		return nil, err
	}
	return r.Settle, nil
}

func processByHand(ctx context.Context, store *sqlitestore.Store, recipients *aggregate.Repository[int, int, struct{}]) (func(context.Context) error, error) {
	tx := func(ctx context.Context, query string, args ...any) error {
		return store.InTx(ctx, func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
			_, err := tx.ExecContext(ctx, query, args...)
			return err
		})
	}
	if err := tx(ctx, `CREATE TABLE todo (n INTEGER PRIMARY KEY, at INTEGER NOT NULL, recipient TEXT NOT NULL) STRICT`); err != nil {
		return nil, err
	}
	if err := tx(ctx, `CREATE INDEX todo_at ON todo (at, n)`); err != nil {
		return nil, err
	}
	r, err := projection.ExactlyOnce("by hand", sourceOf(store), store, func(ctx context.Context, tx *sql.Tx, e envelope) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO todo (at, recipient) VALUES (?, ?)`, e.Time.UnixMicro(), e.ID.EntityID())
		return err
	}, projection.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if err := r.CatchUp(ctx); err != nil {
			return err
		}
		for {
			var n int64
			var id string
			switch err := store.DB().QueryRowContext(ctx, `SELECT n, recipient FROM todo WHERE at <= ? ORDER BY at, n LIMIT 1`, time.Now().UnixMicro()).Scan(&n, &id); {
			case errors.Is(err, sql.ErrNoRows):
				return nil
			case err != nil:
				return err
			}
			if _, err := recipients.AskOnce(ctx, fmt.Sprint(n), id, 1); err != nil {
				return err
			}
			if err := tx(ctx, `DELETE FROM todo WHERE n = ?`, n); err != nil {
				return err
			}
		}
	}, nil
}
