package main

import (
	"context"
	"database/sql"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/sqlitestore"
)

// inSQLite keeps profiles in a table of their own, in which a name is there once.
var inSQLite = sqlitestore.Options{
	Init: createProfiles,
	StateTypes: map[string]annals.StateType[*sql.Tx]{
		profile.Behavior.Type: {
			Table:    "user_profile",
			Columns:  []string{profile.NameColumn},
			Bind:     profile.Columns,
			OnChange: codec.OnChange(profile.States, countProfile),
		},
	},
}

// createProfiles runs at every start. The column counted is the handler's: the status under which a profile was counted.
func createProfiles(ctx context.Context, tx *sql.Tx) error {
	for _, text := range []string{
		sqlitestore.StateTable("user_profile", "name TEXT UNIQUE", "counted TEXT"),
		`CREATE TABLE IF NOT EXISTS profile_count (status TEXT PRIMARY KEY, n INTEGER NOT NULL) STRICT`,
	} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	for _, status := range profile.Statuses {
		if _, err := tx.ExecContext(ctx, `INSERT INTO profile_count VALUES (?, 0) ON CONFLICT DO NOTHING`, status); err != nil {
			return err
		}
	}
	return nil
}

// countProfile runs in the transaction of each change, so every change is counted once: the profile no longer counts for
// what it was, but for what it is. A removed one gives its name back.
func countProfile(ctx context.Context, tx *sql.Tx, c codec.Change[profile.Profile]) error {
	const (
		uncount = `UPDATE profile_count SET n = n - 1 WHERE status = (SELECT counted FROM user_profile WHERE persistence_id = ?)`
		count   = `UPDATE profile_count SET n = n + 1 WHERE status = ?`
		mark    = `UPDATE user_profile SET counted = ? WHERE persistence_id = ?`
		release = `UPDATE user_profile SET counted = NULL, name = NULL WHERE persistence_id = ?`
	)
	id := string(c.ID)
	if _, err := tx.ExecContext(ctx, uncount, id); err != nil {
		return err
	}
	if c.Deleted {
		_, err := tx.ExecContext(ctx, release, id)
		return err
	}
	if _, err := tx.ExecContext(ctx, count, c.Value.Status); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, mark, c.Value.Status, id)
	return err
}

func countInSQLite(store *sqlitestore.Store) counter {
	return func(ctx context.Context) (map[profile.Status]int, error) {
		rows, err := store.DB().QueryContext(ctx, `SELECT status, n FROM profile_count`)
		if err != nil {
			return nil, err
		}
		defer func() { _ = rows.Close() }()
		counts := map[profile.Status]int{}
		for rows.Next() {
			var status profile.Status
			n := 0
			if err := rows.Scan(&status, &n); err != nil {
				return nil, err
			}
			counts[status] = n
		}
		return counts, rows.Err()
	}
}
