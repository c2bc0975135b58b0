package main

import (
	"context"

	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/sqltx"
)

// This file is shared by the SQL stores. Profiles are in a table of their own, whose names are unique. Its column counted belongs to the
// change handler: it is the status under which a profile was counted.
const (
	profileTable = "user_profile"

	beginCount = `INSERT INTO profile_count (status, n) VALUES ($1, 0) ON CONFLICT DO NOTHING`
	readCounts = `SELECT status, n FROM profile_count`
)

// countChange counts every change once: it decreases the count of the former status and increases that of the new one. The name of a
// removed profile becomes free. It runs in the transaction of the change.
func countChange(ctx context.Context, tx sqltx.Tx, c codec.Change[profile.Profile]) error {
	const (
		uncount = `UPDATE profile_count SET n = n - 1 WHERE status = (SELECT counted FROM user_profile WHERE persistence_id = $1)`
		count   = `UPDATE profile_count SET n = n + 1 WHERE status = $1`
		mark    = `UPDATE user_profile SET counted = $1 WHERE persistence_id = $2`
		release = `UPDATE user_profile SET counted = NULL, name = NULL WHERE persistence_id = $1`
	)
	exec := func(text string, args ...any) error {
		_, err := tx.Exec(ctx, text, args...)
		return err
	}
	id := string(c.ID)
	if err := exec(uncount, id); err != nil {
		return err
	}
	if c.Deleted {
		return exec(release, id)
	}
	if err := exec(count, string(c.Value.Status)); err != nil {
		return err
	}
	return exec(mark, string(c.Value.Status), id)
}

func countIn(store sqltx.Store) counter {
	return func(ctx context.Context) (map[profile.Status]int, error) {
		counts := map[profile.Status]int{}
		err := store.Read(ctx, func(scan func(...any) error) error {
			var status string
			var n int
			err := scan(&status, &n)
			counts[profile.Status(status)] = n
			return err
		}, readCounts)
		return counts, err
	}
}
