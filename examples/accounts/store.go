package main

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/sqltx"
)

// open returns the store at a URL, with its database. It creates the tables only if create.
func open(ctx context.Context, address string, create bool) (sqltx.Store, error) {
	store, err := annals.Openers{
		"sqlite":   sqlitestore.Options{CreateTables: &create}.OpenURL,
		"postgres": pgstore.Options{CreateTables: create}.OpenURL,
	}.Open(ctx, address)
	if err != nil {
		return nil, err
	}
	switch s := store.(type) {
	case *sqlitestore.Store:
		return s.SQL(), nil
	case *pgstore.Store:
		return s.SQL(), nil
	}
	return nil, fmt.Errorf("%T has no database", store)
}

// migrate creates the tables.
func migrate(ctx context.Context, address string) error {
	store, err := open(ctx, address, true)
	if err != nil {
		return err
	}
	defer store.Close()
	return store.InTx(ctx, func(ctx context.Context, tx sqltx.Tx, _ annals.Store) error {
		_, err := tx.Exec(ctx, createBalances)
		return err
	})
}
