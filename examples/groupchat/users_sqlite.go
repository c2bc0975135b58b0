package main

import (
	"context"
	"database/sql"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/sqlitestore"
)

// inSQLite keeps profiles in a table of their own, whose names are unique.
var inSQLite = sqlitestore.Options{
	Init: createProfiles,
	StateTypes: map[string]annals.StateType[*sql.Tx]{
		profile.Behavior.Type: {
			Table:    profileTable,
			Columns:  []string{profile.NameColumn},
			Bind:     profile.Columns,
			OnChange: codec.OnChange(profile.States, countProfile),
		},
	},
}

// createProfiles creates the tables that do not exist. It runs whenever the store is opened.
func createProfiles(ctx context.Context, tx *sql.Tx) error {
	for _, text := range []string{
		sqlitestore.StateTable(profileTable, "name TEXT UNIQUE", "counted TEXT"),
		`CREATE TABLE IF NOT EXISTS profile_count (status TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT`,
	} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	for _, status := range profile.Statuses {
		if _, err := tx.ExecContext(ctx, beginCount, status); err != nil {
			return err
		}
	}
	return nil
}

// countProfile is the change handler.
func countProfile(ctx context.Context, tx *sql.Tx, c codec.Change[profile.Profile]) error {
	return countChange(ctx, sqlitestore.SQLTx(tx), c)
}
