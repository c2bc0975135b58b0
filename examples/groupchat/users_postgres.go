package main

import (
	"context"
	"net/url"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/pgstore"
)

// inPostgres are the options of the store. Its tables must exist.
var inPostgres = pgstore.Options{
	StateTypes: map[string]annals.StateType[pgx.Tx]{
		profile.Behavior.Type: {
			Table:    profileTable,
			Columns:  []string{profile.NameColumn},
			Bind:     profile.Columns,
			OnChange: codec.OnChange(profile.States, countPostgresProfile),
		},
	},
}

// openPostgres creates the tables that do not exist, then opens the store.
func openPostgres(ctx context.Context, u *url.URL) (annals.Store, error) {
	bare := pgstore.Options{CreateTables: true, StateTypes: map[string]annals.StateType[pgx.Tx]{profile.Behavior.Type: {Table: profileTable}}}
	s, err := bare.OpenURL(ctx, u)
	if err != nil {
		return nil, err
	}
	err = s.(*pgstore.Store).InTx(ctx, createPostgresProfiles)
	if closed := s.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	return inPostgres.OpenURL(ctx, u)
}

func createPostgresProfiles(ctx context.Context, tx pgx.Tx, _ annals.Store) error {
	for _, text := range []string{
		`SELECT pg_advisory_xact_lock(hashtextextended('groupchat create tables', 0))`, // two servers may start at once
		`ALTER TABLE user_profile ADD COLUMN IF NOT EXISTS name TEXT UNIQUE`,
		`ALTER TABLE user_profile ADD COLUMN IF NOT EXISTS counted TEXT`,
		`CREATE TABLE IF NOT EXISTS profile_count (status TEXT PRIMARY KEY, n BIGINT NOT NULL)`,
	} {
		if _, err := tx.Exec(ctx, text); err != nil {
			return err
		}
	}
	for _, status := range profile.Statuses {
		if _, err := tx.Exec(ctx, beginCount, string(status)); err != nil {
			return err
		}
	}
	return nil
}

// countPostgresProfile is the change handler.
func countPostgresProfile(ctx context.Context, tx pgx.Tx, c codec.Change[profile.Profile]) error {
	// Two changes that lock the counts in different orders would wait for each other.
	if _, err := tx.Exec(ctx, `SELECT FROM profile_count ORDER BY status FOR UPDATE`); err != nil {
		return err
	}
	return countChange(ctx, pgstore.SQLTx(tx), c)
}
