package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

type offsets struct{ view }

// The plugins insert a row per offset and prune later; this store replaces an entity's row. Both read either.

func (v offsets) Load(ctx context.Context, projection string, r annals.SliceRange) (found []annals.Offset, err error) {
	c, err := v.open(ctx, "load offsets", "", v.begin)
	if err != nil {
		return nil, err
	}
	defer c.end(&err)
	from, to := r.Bounds()
	rows, err := v.reader().Query(c.ctx, v.s.fill(`
		SELECT DISTINCT ON (o.persistence_id) o.timestamp_offset, o.seq_nr, o.persistence_id
		FROM {offset} o
			JOIN (SELECT slice, max(timestamp_offset) AS at FROM {offset} WHERE slice >= $2 AND slice < $3 AND projection_name = $1 GROUP BY slice) newest
				ON o.slice = newest.slice AND o.timestamp_offset = newest.at
		WHERE o.projection_name = $1
		ORDER BY o.persistence_id, o.seq_nr DESC`), projection, from, to)
	if err != nil {
		return nil, err
	}
	return found, eachOffset(rows, func(o annals.Offset) { found = append(found, o) })
}

func (v offsets) Handled(ctx context.Context, projection string, id annals.PersistenceID) (found annals.Offset, ok bool, err error) {
	c, err := v.open(ctx, "load offset", id, v.begin)
	if err != nil {
		return annals.Offset{}, false, err
	}
	defer c.end(&err)
	rows, err := v.reader().Query(c.ctx, v.s.fill(`SELECT timestamp_offset, seq_nr, persistence_id FROM {offset}
		WHERE slice = $1 AND projection_name = $2 AND persistence_id = $3 ORDER BY timestamp_offset DESC, seq_nr DESC LIMIT 1`),
		id.Slice(), projection, string(id))
	if err != nil {
		return annals.Offset{}, false, err
	}
	return found, ok, eachOffset(rows, func(o annals.Offset) { found, ok = o, true })
}

func eachOffset(rows pgx.Rows, do func(annals.Offset)) error {
	var o annals.Offset
	_, err := pgx.ForEachRow(rows, []any{&o.Time, (*int64)(&o.SeqNr), (*string)(&o.ID)}, func() error {
		do(annals.Offset{Time: o.Time.UTC(), SeqNr: o.SeqNr, ID: o.ID})
		return nil
	})
	return err
}

func (v offsets) Save(ctx context.Context, p annals.Progress) (err error) {
	if err := p.Validate("save offsets"); err != nil {
		return err
	}
	for _, o := range p.Offsets {
		if err := validRead("save offsets", o.ID); err != nil {
			return err
		}
	}
	if p.Epoch != 0 && v.s.offset.exists() && !v.s.epoch.exists() {
		return &annals.Error{Op: "save offsets", Kind: annals.ErrUnsupported, Err: fmt.Errorf("there is no table %s for epochs", v.s.epoch.name)}
	}
	c, err := v.open(ctx, "save offsets", "", v.beginWrite)
	if err != nil {
		return err
	}
	defer c.end(&err)
	for deadlocks := 0; ; deadlocks++ {
		err = atomically(c.ctx, v.writer(), func(tx pgx.Tx) error { return v.save(c.ctx, tx, p) })
		if err == nil || v.tx != nil || !retryable(err) || deadlocks == maxDeadlocks {
			break
		}
	}
	if err != nil && v.tx == nil {
		return writeFault("save offsets", "", err)
	}
	return err
}

func (v offsets) save(ctx context.Context, tx pgx.Tx, p annals.Progress) error {
	if p.Epoch != 0 {
		if err := v.fence(ctx, tx, p); err != nil {
			return err
		}
	}
	if len(p.Offsets) == 0 {
		return nil
	}
	newest := map[annals.PersistenceID]annals.Offset{}
	for _, o := range p.Offsets {
		if o.Compare(newest[o.ID]) > 0 {
			newest[o.ID] = o
		}
	}
	var rows offsetRows
	for id, o := range newest {
		rows.add(id, o)
	}
	// Ordered, so that two savers of the same entities do not deadlock; the lock makes the second see what the first wrote.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('annals offset ' || $1 || ' ' || slice, 0))
		FROM (SELECT DISTINCT slice FROM unnest($2::int[]) AS s (slice) ORDER BY slice) s`, p.Projection, rows.slices); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, v.s.fill(`
		WITH o AS MATERIALIZED (
			SELECT o.* FROM unnest($3::int[], $4::text[], $5::bigint[], $6::timestamptz[]) AS o (slice, id, seq_nr, at)
			WHERE NOT EXISTS (SELECT FROM {offset} old WHERE old.slice = o.slice AND old.projection_name = $1 AND old.persistence_id = o.id
				AND (old.timestamp_offset, old.seq_nr) >= (o.at, o.seq_nr))),
		replaced AS (DELETE FROM {offset} old USING o WHERE old.slice = o.slice AND old.projection_name = $1 AND old.persistence_id = o.id)
		INSERT INTO {offset} (projection_name, projection_key, slice, persistence_id, seq_nr, timestamp_offset, timestamp_consumed)
		SELECT $1, $2, o.slice, o.id, o.seq_nr, o.at, transaction_timestamp() FROM o`),
		p.Projection, p.Slices.String(), rows.slices, rows.ids, rows.seqNrs, rows.times)
	return err
}

func (v offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) (err error) {
	c, err := v.open(ctx, "reset offsets", "", v.beginWrite)
	if err != nil {
		return err
	}
	defer c.end(&err)
	from, until := r.Bounds()
	_, err = v.writer().Exec(c.ctx, v.s.fill(`DELETE FROM {offset} WHERE projection_name = $1 AND slice >= $2 AND slice < $3
		AND (timestamp_offset, seq_nr, persistence_id COLLATE "C") >= ($4::timestamptz, $5::bigint, $6::text)`),
		projection, from, until, to.Time, int64(to.SeqNr), string(to.ID))
	if err != nil && v.tx == nil {
		return writeFault("reset offsets", "", err)
	}
	return err
}

// open begins an operation on offsets, where there is a table for them.
func (v offsets) open(ctx context.Context, op string, id annals.PersistenceID, begin func(context.Context, string, annals.PersistenceID, int) (*call, error)) (*call, error) {
	if !v.s.offset.exists() {
		return nil, &annals.Error{Op: op, ID: id, Kind: annals.ErrUnsupported, Err: errors.New("there is no table " + v.s.offset.name)}
	}
	c, err := begin(ctx, op, id, 0)
	if err == nil {
		c.result.Requests = 1
	}
	return c, err
}
