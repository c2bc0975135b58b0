package pgstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

// Audit is driver.Auditor: it looks whether queries find the rows of id, and whether there is one state. It is one statement.
func (v *view) Audit(ctx context.Context, id annals.PersistenceID) (found []*ability.Damage, err error) {
	const misplaced = `SELECT '%s', '%s', min(%s), max(%[3]s), count(*) FROM "%s" WHERE persistence_id = $1 AND (slice <> $2::int OR entity_type <> $3::text OR %[5]s)`
	const hidden = `NOT deleted AND seq_nr < greatest(1, (SELECT max(seq_nr) FROM "event_journal" WHERE persistence_id = $1 AND deleted))` // from readers, and not from queries
	parts := []string{
		v.s.fill(fmt.Sprintf(misplaced, ability.Key, "journal", "seq_nr", "event_journal", hidden)),
		v.s.fill(fmt.Sprintf(misplaced, ability.Key, "snapshot", "seq_nr", "snapshot", "FALSE")),
	}
	if v.s.snapshotsAreFollowed() { // a follower that begins with snapshots finds one at the time of its event
		parts = append(parts, v.s.fill(`SELECT 'index', 'snapshot', min(seq_nr), max(seq_nr), count(*) FROM `+snapshotsOfEvents+` JOIN "event_journal" e USING (persistence_id, seq_nr)
			WHERE persistence_id = $1 AND NOT e.deleted AND s.db_timestamp <> e.db_timestamp`))
	}
	own := v.s.stateTable(id)
	for _, t := range v.s.stateTables("") {
		text := fmt.Sprintf(misplaced, ability.Key, "state", "revision", "durable_state", "FALSE")
		if t.name != own.name { // it has the states of other types
			text = `SELECT 'key', 'state', min(revision), max(revision), count(*) FROM "durable_state" WHERE persistence_id = $1`
		}
		parts = append(parts, t.fill(text))
	}
	parts = append(parts, own.fill(`SELECT 'state', 'state', min(revision), max(revision), count(*) FROM "durable_state" WHERE persistence_id = $1
		AND "write_ids" !~ '^([1-9][0-9]*/-?[0-9]+/[-0-9a-f]{36}( |$))*$'`)) // what only writes read
	parts = append(parts, own.fill(`SELECT 'doubled', 'state', min(revision), max(revision), count(*) FROM "durable_state" WHERE persistence_id = $1 HAVING count(*) > 1`))
	rows, err := v.reader(ctx).Query(ctx, strings.Join(parts, " UNION ALL "), string(id), id.Slice(), id.Type())
	if err != nil {
		return nil, err
	}
	var code, table string
	var from, to *int64
	var count int64
	texts := map[ability.Code]string{
		ability.Key:     "%d rows in the table of the %s have the slice, type or number of no such entity, are below a deleted one, or are for another table",
		ability.Index:   "%d row in the table of the %s does not have the time of its event",
		ability.State:   "%d row of the %s names its last writes by no write ids",
		ability.Doubled: "%d rows of the %s",
	}
	_, err = pgx.ForEachRow(rows, []any{&code, &table, &from, &to, &count}, func() error {
		if count > 0 {
			code := ability.Code(code)
			found = append(found, &ability.Damage{Code: code, ID: id, From: annals.SeqNr(*from), To: annals.SeqNr(*to), Err: fmt.Errorf(texts[code], count, table)})
		}
		return nil
	})
	return found, err
}

// Scan is ability.Scanner, in the order of ids. A whole scan ends with the offsets of projections.
func (v *view) Scan(ctx context.Context, entityType, after string) iter.Seq2[ability.Scanned, error] {
	return func(yield func(ability.Scanned, error) bool) {
		for step, err := range driver.ScanIDs(query{v}.pagesOfIDs(ctx, entityType, annals.PersistenceID(after), true)) {
			if after = step.After; !yield(step, err) || err != nil {
				return
			}
		}
		if entityType != "" || !v.s.offset.exists() {
			return
		}
		var found []*ability.Damage
		err := driver.Fetch(ctx, func(ctx context.Context) (err error) {
			found, err = v.auditOffsets(ctx)
			return err
		})
		if err != nil || len(found) > 0 {
			yield(ability.Scanned{After: after, Damage: found}, err)
		}
	}
}

// auditOffsets looks for offsets under wrong slices, which a projection does not find.
func (v *view) auditOffsets(ctx context.Context) (found []*ability.Damage, err error) {
	rows, err := v.reader(ctx).Query(ctx, v.s.fill(`SELECT DISTINCT slice, persistence_id FROM "akka_projection_timestamp_offset_store"`))
	if err != nil {
		return nil, err
	}
	var slice int
	var id annals.PersistenceID
	_, err = pgx.ForEachRow(rows, []any{&slice, &id}, func() error {
		if slice != id.Slice() && !strings.HasPrefix(string(id), "mgmt|") && id != forgotten {
			found = append(found, &ability.Damage{Code: ability.Key, ID: id, Err: errors.New("an offset of a projection is in the slice of another entity")})
		}
		return nil
	})
	return found, err
}
