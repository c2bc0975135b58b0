package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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
		return Figure{Name: "hot-owners-" + name, Goal: AtLeast(0.33), Run: func(ctx context.Context) (value float64, err error) {
			err = on(ctx, func(here, there annals.Store) error { value, err = ownersShare(ctx, here, there); return err })
			return value, err
		}, About: "commands of the slower of two runtimes with 16 callers each for one entity, divided by those of the faster"}
	}
	return []Figure{
		share("sqlite", onTwoSQLite), share("postgres", onTwoPostgres), share("dynamodb", onTwoDynamo),
		{Name: "hot-owners-total", Goal: AtLeast(0.7), Run: ownersTotal,
			About: "commands a second of two runtimes with 16 callers each for one entity, divided by those of one alone with 16 callers; the smallest of SQLite, PostgreSQL and DynamoDB"},
	}
}

// onTwo calls run with two stores on the same data.
type onTwo func(ctx context.Context, run func(here, there annals.Store) error) error

// openTwo calls run with two stores that open opens.
func openTwo(open func() (annals.Store, error), run func(here, there annals.Store) error) error {
	here, err := open()
	if err != nil {
		return err
	}
	defer here.Close()
	there, err := open()
	if err != nil {
		return err
	}
	defer there.Close()
	return run(here, there)
}

func onTwoSQLite(ctx context.Context, run func(here, there annals.Store) error) (err error) {
	dir, err := os.MkdirTemp("", "figures")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return openTwo(func() (annals.Store, error) {
		return sqlitestore.Open(ctx, filepath.Join(dir, "owners.db"), sqlitestore.Options{})
	}, run)
}

func onTwoPostgres(ctx context.Context, run func(here, there annals.Store) error) error {
	_, err := onPostgres(func(ctx context.Context, b *postgresBench) (float64, error) {
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
		return 0, run(b.store, there)
	})(ctx)
	return err
}

func onTwoDynamo(ctx context.Context, run func(here, there annals.Store) error) error {
	b, err := openDynamo(ctx, false)
	if err != nil {
		return err
	}
	defer b.close()
	return openTwo(func() (annals.Store, error) {
		return dynamostore.Open(ctx, b.client, commit.Layout{Table: "owners"}, dynamostore.Options{CreateTables: true})
	}, run)
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
	smallest := 0.0
	for i, on := range []onTwo{onTwoSQLite, onTwoPostgres, onTwoDynamo} {
		var total float64
		if err := on(ctx, func(here, there annals.Store) (err error) { total, err = ownersTogether(ctx, here, there); return err }); err != nil {
			return 0, err
		}
		if i == 0 || total < smallest {
			smallest = total
		}
	}
	return smallest, nil
}

// ownersTogether divides what two owners do by what one does alone, in turns.
func ownersTogether(ctx context.Context, here, there annals.Store) (float64, error) {
	const turns, long = 3, 3 * time.Second
	var commands [2]int64
	for range turns {
		for i, hosts := range []string{"EE", "E"} {
			owners, err := hosttest.NewOwners(hosts, here, there)
			if err != nil {
				return 0, err
			}
			err = owners.Run(ctx, "hot", ownersCallers, long)
			owners.Close()
			if err != nil {
				return 0, err
			}
			commands[i] += owners.Commands()
		}
	}
	return float64(commands[0]) / float64(commands[1]), nil
}
