package sqlitestore

import (
	"cmp"
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
	"github.com/annals-go/annals/internal/writes"
)

// Audit is driver.Auditor: it looks whether queries find the rows of id.
func (v view) Audit(ctx context.Context, id annals.PersistenceID) (found []*ability.Damage, err error) {
	const numbers = `SELECT count(*) AS n, min(%s) AS low, max(%[1]s) AS high FROM `
	const misplaced = numbers + `%s WHERE persistence_id = ?1 AND (?4 OR slice <> ?2 OR entity_type <> ?3 OR %[3]s)`
	// A follower that begins with snapshots finds one at the time of its event.
	moved := fmt.Sprintf(numbers, "seq_nr") + `snapshot s JOIN event_journal e USING (persistence_id, seq_nr)
		WHERE s.persistence_id = ?1 AND e.deleted = 0 AND s.db_timestamp <> e.db_timestamp`
	err = v.readTx(ctx, func(ctx context.Context, q *statements) error {
		look := func(code ability.Code, what, text string, args ...any) error {
			_, err := q.row(ctx, text, args, func(r *values) {
				if n := r.any64("n"); n > 0 {
					found = append(found, &ability.Damage{Code: code, ID: id, From: annals.SeqNr(r.any64("low")), To: annals.SeqNr(r.any64("high")), Err: fmt.Errorf("%d %s", n, what)})
				}
			})
			return err
		}
		own := v.b.types.of(id.Type())
		number, wrong, others := "seq_nr", "seq_nr < 1 AND NOT deleted", v.b.types.tables("")
		for i, table := range slices.Concat([]string{"event_journal", "snapshot"}, others) {
			if i == 1 {
				wrong = "FALSE" // readers find a number that is wrong
			}
			if i == 2 {
				number = "revision"
			}
			foreign := i >= 2 && table != own.table // it has the states of other types
			what := "rows in table " + table + " have the slice, type or number of no such entity, or are for another table"
			if err := look(ability.Key, what, fmt.Sprintf(misplaced, number, table, wrong), string(id), int64(id.Slice()), id.Type(), foreign); err != nil {
				return err
			}
		}
		_, err := q.row(ctx, own.last, []any{string(id)}, func(r *values) { // what only writes read
			n, _ := r.take().(int64) // what else it may be is found where the state is read
			_, err := writes.Parse(r.optionalText("writes"))
			if err = cmp.Or(r.err, err); err != nil {
				revision := annals.SeqNr(n)
				found = append(found, &ability.Damage{Code: ability.State, ID: id, From: revision, To: revision, Err: fmt.Errorf("column writes: %w", err)})
			}
			r.err = nil
		})
		if err != nil {
			return err
		}
		return look(ability.Index, "snapshots do not have the time of their event", moved, string(id))
	})
	return found, err
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
