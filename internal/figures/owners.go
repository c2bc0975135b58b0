package main

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/hosttest"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// ownersFigures are two runtimes, with stores of their own on the same data, that write to one entity without a pause. A command that is
// refused makes a figure an error.
func ownersFigures() []Figure {
	share := func(name string, on onTwo) Figure {
		return Figure{Name: "hot-owners-" + name, Goal: AtLeast(0.33), Run: on(ownersShare),
			About: "commands of the slower of two runtimes with 16 callers each for one entity, divided by those of the faster"}
	}
	return []Figure{
		share("sqlite", onTwoSQLite), share("postgres", onTwoPostgres), share("dynamodb", onTwoDynamo),
		{Name: "hot-owners-total", Goal: AtLeast(0.7), Run: ownersTotal,
			About: "commands a second of two runtimes with 16 callers each for one entity, divided by those of one alone with 16 callers; the smallest of SQLite, PostgreSQL and DynamoDB"},
	}
}

// onTwo measures on two stores on the same data.
type onTwo func(measure func(ctx context.Context, here, there annals.Store) (float64, error)) func(ctx context.Context) (float64, error)

func onTwoSQLite(measure func(ctx context.Context, here, there annals.Store) (float64, error)) func(ctx context.Context) (float64, error) {
	return onSQLite(func(ctx context.Context, b *sqliteBench) (float64, error) {
		there, err := sqlitestore.Open(ctx, filepath.Join(b.dir, "annals.db"), sqlitestore.Options{})
		if err != nil {
			return 0, err
		}
		defer there.Close()
		return measure(ctx, b.store, there)
	})
}

func onTwoPostgres(measure func(ctx context.Context, here, there annals.Store) (float64, error)) func(ctx context.Context) (float64, error) {
	return onPostgres(func(ctx context.Context, b *postgresBench) (float64, error) {
		pool, err := b.bare(ctx, 4)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		there, err := pgstore.Open(ctx, pool, pgstore.Options{Tables: pgstore.Tables{Schema: "annals_figures"}})
		if err != nil {
			return 0, err
		}
		defer there.Close()
		return measure(ctx, b.store, there)
	})
}

func onTwoDynamo(measure func(ctx context.Context, here, there annals.Store) (float64, error)) func(ctx context.Context) (float64, error) {
	layout := commit.Layout{Table: "owners"}
	return onDynamo(false, layout, dynamostore.Options{}, func(ctx context.Context, b *dynamoBench, here *dynamostore.Store) (float64, error) {
		there, err := dynamostore.Open(ctx, b.client, layout, dynamostore.Options{})
		if err != nil {
			return 0, err
		}
		defer there.Close()
		return measure(ctx, here, there)
	})
}

const ownersCallers = 16

// ownersShare runs for ten seconds, because a turn takes 150 ms.
func ownersShare(ctx context.Context, here, there annals.Store) (float64, error) {
	owners, err := hosttest.NewOwners("EE", here, there)
	if err != nil {
		return 0, err
	}
	defer owners.Close()
	if err := owners.Run(ctx, "hot", ownersCallers, 10*time.Second); err != nil {
		return 0, err
	}
	return 1 / owners.Ratio(), nil
}

// ownersTotal is the smallest total of the stores.
func ownersTotal(ctx context.Context) (float64, error) {
	var totals []float64
	for _, on := range []onTwo{onTwoSQLite, onTwoPostgres, onTwoDynamo} {
		total, err := on(ownersTogether)(ctx)
		if err != nil {
			return 0, err
		}
		totals = append(totals, total)
	}
	return slices.Min(totals), nil
}

// ownersTogether divides what two owners do by what one does alone, in turns.
func ownersTogether(ctx context.Context, here, there annals.Store) (float64, error) {
	run := func(hosts string) func() (float64, error) {
		return func() (float64, error) {
			owners, err := hosttest.NewOwners(hosts, here, there)
			if err != nil {
				return 0, err
			}
			defer owners.Close()
			err = owners.Run(ctx, "hot", ownersCallers, 3*time.Second)
			return float64(owners.Commands()), err
		}
	}
	return costRatio(2, run("EE"), run("E"))
}
