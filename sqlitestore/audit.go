package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

// Audit is driver.Auditor: it looks whether queries find the rows of id.
func (v view) Audit(ctx context.Context, id annals.PersistenceID) (found []*ability.Damage, err error) {
	// A follower that begins with snapshots finds one at the time of its event.
	const moved = `SELECT s.seq_nr FROM snapshot s JOIN event_journal e USING (persistence_id, seq_nr)
		WHERE s.persistence_id = ?1 AND e.deleted = 0 AND s.db_timestamp <> e.db_timestamp`
	const misplaced = ` WHERE persistence_id = ?1 AND (?4 OR slice <> ?2 OR entity_type <> ?3) ORDER BY 1`
	number, others := "seq_nr", v.b.types.tables("")
	err = v.readTx(ctx, func(ctx context.Context, q *statements) error {
		for i, table := range slices.Concat([]string{"event_journal", "snapshot"}, others) {
			if i == 2 {
				number = "revision"
			}
			foreign := i >= 2 && table != v.b.types.of(id.Type()).table // it has the states of other types
			text := `SELECT ` + number + ` FROM ` + table + misplaced
			err := q.rows(ctx, text, []any{string(id), int64(id.Slice()), id.Type(), foreign}, func(r *values) (bool, error) {
				n := annals.SeqNr(r.any64(number))
				found = append(found, &ability.Damage{Code: ability.Key, ID: id, From: n, To: n, Err: fmt.Errorf("table %s has rows with the slice or type of another entity, or for another table", table)})
				return true, nil
			})
			if err != nil {
				return err
			}
		}
		return q.rows(ctx, moved, []any{string(id)}, func(r *values) (bool, error) {
			n := r.seqNr("seq_nr", 0)
			found = append(found, &ability.Damage{Code: ability.Index, ID: id, From: n, To: n, Err: errors.New("the snapshot does not have the time of its event")})
			return true, nil
		})
	})
	return joined(found), err
}

// joined makes one Damage of those of the same kind, in the same table, with numbers that follow each other.
func joined(found []*ability.Damage) (all []*ability.Damage) {
	for _, d := range found {
		if n := len(all); n > 0 && all[n-1].Code == d.Code && all[n-1].Error() == d.Error() && all[n-1].To+1 == d.From {
			all[n-1].To = d.To
			continue
		}
		all = append(all, d)
	}
	return all
}

// Scan is ability.Scanner, in the order of ids. A whole scan ends with SQLite's own check of the file and with the offsets of projections.
func (v view) Scan(ctx context.Context, entityType, after string) iter.Seq2[ability.Scanned, error] {
	tables := slices.Concat([]string{"event_journal", "snapshot"}, v.b.types.tables(""))
	return func(yield func(ability.Scanned, error) bool) {
		for step, err := range driver.ScanIDs(query{v}.ids(ctx, tables, entityType, annals.PersistenceID(after))) {
			if after = step.After; !yield(step, err) || err != nil {
				return
			}
		}
		if entityType != "" {
			return
		}
		var found []*ability.Damage
		err := driver.Fetch(ctx, func(ctx context.Context) (err error) {
			found, err = v.b.auditFile(ctx)
			return err
		})
		if err != nil || len(found) > 0 {
			yield(ability.Scanned{After: after, Damage: found}, err)
		}
	}
}

// auditFile looks for what is not found from an entity.
func (b *backend) auditFile(ctx context.Context) (found []*ability.Damage, err error) {
	const offsets = `SELECT DISTINCT slice, persistence_id FROM offsets`
	return found, b.fresh(ctx, func(ctx context.Context, q *statements) error {
		err := q.rows(ctx, `PRAGMA integrity_check`, nil, func(v *values) (bool, error) {
			if text := v.text("integrity_check"); text != "ok" {
				code := ability.File
				if strings.Contains(text, " index ") {
					code = ability.Index
				}
				found = append(found, &ability.Damage{Code: code, Err: errors.New(text)})
			}
			return true, v.corrupt()
		})
		if err != nil {
			return err
		}
		return q.rows(ctx, offsets, nil, func(v *values) (bool, error) {
			slice, id := v.any64("slice"), v.id("persistence_id")
			if v.err == nil && int(slice) != id.Slice() {
				found = append(found, &ability.Damage{Code: ability.Key, ID: id, Err: fmt.Errorf("an offset of a projection is in slice %d, and its entity in %d", slice, id.Slice())})
			}
			return true, v.corrupt()
		})
	})
}

// fresh runs fn in a transaction on a connection of its own, because others may have pages in memory that have been damaged in the file since.
func (b *backend) fresh(ctx context.Context, fn func(context.Context, *statements) error) error {
	once(ctx)
	db, err := sql.Open("sqlite", b.readOnly())
	if err != nil {
		return err
	}
	readers := newReaders(db, b.files, 1)
	err = readers.readTx(ctx, fn)
	if closing := errors.Join(readers.close(), db.Close()); err == nil {
		err = closing
	}
	return err
}
