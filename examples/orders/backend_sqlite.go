package main

import (
	"context"
	"database/sql"
	"net/url"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// sqliteOutbox is the table of the program's own, in the same file.
const sqliteOutbox = `CREATE TABLE IF NOT EXISTS outbox (order_id TEXT, seq_nr INTEGER, text TEXT NOT NULL, PRIMARY KEY (order_id, seq_nr))`

// inSQLite creates the outbox when the tables of the store are created.
var inSQLite = sqlitestore.Options{Init: func(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, sqliteOutbox)
	return err
}}

// schemaOfSQLite is for those who create the file by hand.
func schemaOfSQLite() (string, error) {
	setup, err := sqlitestore.NewSetup("", inSQLite)
	if err != nil {
		return "", err
	}
	store, err := setup.Schema("sql")
	return store + sqliteOutbox + ";\n", err
}

// migrateSQLite opens the file with CreateTables: Open creates or upgrades the tables then, and runs Init.
func migrateSQLite(ctx context.Context, u *url.URL) error {
	s, err := inSQLite.OpenURL(ctx, u)
	if err != nil {
		return err
	}
	return s.Close()
}

func openSQLite(ctx context.Context, u *url.URL, o annals.Observer) (*backend, error) {
	options := inSQLite
	options.Observer, options.CreateTables = o, new(false)
	opened, err := options.OpenURL(ctx, u)
	if err != nil {
		return nil, err
	}
	return inSQL(opened.(*sqlitestore.Store).SQL()), nil
}
