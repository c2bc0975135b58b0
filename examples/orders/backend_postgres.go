package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
)

// postgresOutbox is the table of the program's own. It is in the schema of the store.
const postgresOutbox = `CREATE TABLE IF NOT EXISTS outbox (order_id TEXT, seq_nr BIGINT, text TEXT NOT NULL, PRIMARY KEY (order_id, seq_nr))`

// schemaOfPostgres is for administrators who create tables by hand.
func schemaOfPostgres() (string, error) {
	setup, err := pgstore.NewSetup(nil, pgstore.Options{})
	if err != nil {
		return "", err
	}
	store, err := setup.Schema("sql")
	return store + postgresOutbox + ";\n", err
}

// migratePostgres creates what is missing. It needs the right to create tables, which the service itself does not.
func migratePostgres(ctx context.Context, u *url.URL) error {
	pool, err := pgxpool.New(ctx, u.String())
	if err != nil {
		return errors.New("the URL of the store cannot be used") // the error of pgxpool may repeat the password
	}
	defer pool.Close()
	setup, err := pgstore.NewSetup(pool, pgstore.Options{})
	if err != nil {
		return err
	}
	if _, err := setup.Migrate(ctx); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, postgresOutbox)
	return err
}

func openPostgres(ctx context.Context, u *url.URL, o annals.Observer) (*backend, error) {
	opened, err := pgstore.Options{Observer: o}.OpenURL(ctx, u)
	if err != nil {
		return nil, err
	}
	return inSQL(opened.(*pgstore.Store).SQL()), nil
}
