package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// offsets is the annals.OffsetStore of a view. The plugins insert a row for each offset and remove old ones later; this store replaces an
// entity's row. Both can read what the other has written.
type offsets struct{ *view }

func (v offsets) Load(ctx context.Context, projection string, r annals.SliceRange) (found []annals.Offset, err error) {
	from, to := r.Bounds()
	err = v.eachOffset(ctx, func(o annals.Offset) { found = append(found, o) }, v.s.fill(`
		SELECT DISTINCT ON (o.persistence_id) o.timestamp_offset, o.seq_nr, o.persistence_id
		FROM {offset} o
			JOIN (SELECT slice, max(timestamp_offset) AS at FROM {offset} WHERE slice >= $2 AND slice < $3 AND projection_name = $1 GROUP BY slice) newest
				ON o.slice = newest.slice AND o.timestamp_offset = newest.at
		WHERE o.projection_name = $1
		ORDER BY o.persistence_id, o.seq_nr DESC`), projection, from, to)
	return found, err
}

func (v offsets) Handled(ctx context.Context, projection string, id annals.PersistenceID) (found annals.Offset, ok bool, err error) {
	err = v.eachOffset(ctx, func(o annals.Offset) { found, ok = o, true }, v.s.fill(`SELECT timestamp_offset, seq_nr, persistence_id FROM {offset}
		WHERE slice = $1 AND projection_name = $2 AND persistence_id = $3 ORDER BY timestamp_offset DESC, seq_nr DESC LIMIT 1`),
		id.Slice(), projection, string(id))
	return found, ok, err
}

// eachOffset runs a query for times, numbers and ids.
func (v *view) eachOffset(ctx context.Context, do func(annals.Offset), sql string, args ...any) error {
	driver.Count(ctx, annals.Result{Requests: 1})
	rows, err := v.reader().Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	var o annals.Offset
	_, err = pgx.ForEachRow(rows, []any{&o.Time, (*int64)(&o.SeqNr), (*string)(&o.ID)}, func() error {
		do(annals.Offset{Time: o.Time.UTC(), SeqNr: o.SeqNr, ID: o.ID})
		return nil
	})
	return err
}

func (v offsets) Save(ctx context.Context, p annals.Progress) error {
	for _, o := range p.Offsets {
		if err := o.ID.ValidateRead("save offsets", v.s.limits); err != nil {
			return err
		}
	}
	if p.Epoch != 0 && !v.s.epoch.exists() {
		return &annals.Error{Kind: annals.ErrUnsupported, Err: fmt.Errorf("there is no table %s for epochs", v.s.epoch.name)}
	}
	return v.write(ctx, func(ctx context.Context, q querier) error {
		return atomically(ctx, q, func(tx pgx.Tx) error { return v.save(ctx, tx, p) })
	})
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
	var (
		slices []int32
		ids    []string
		seqNrs []int64
		times  []time.Time
	)
	for id, o := range newest {
		slices, ids, seqNrs, times = append(slices, int32(id.Slice())), append(ids, string(id)), append(seqNrs, int64(o.SeqNr)), append(times, o.Time)
	}
	// In order, so that two savers of the same entities do not deadlock. With the lock the second sees what the first wrote.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('annals offset ' || $1 || ' ' || slice, 0))
		FROM (SELECT DISTINCT slice FROM unnest($2::int[]) AS s (slice) ORDER BY slice) s`, p.Projection, slices); err != nil {
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
		p.Projection, p.Slices.String(), slices, ids, seqNrs, times)
	return err
}

func (v offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	from, until := r.Bounds()
	return v.write(ctx, func(ctx context.Context, q querier) error {
		_, err := q.Exec(ctx, v.s.fill(`DELETE FROM {offset} WHERE projection_name = $1 AND slice >= $2 AND slice < $3
			AND (timestamp_offset, seq_nr, persistence_id COLLATE "C") >= ($4::timestamptz, $5::bigint, $6::text)`),
			projection, from, until, to.Time, int64(to.SeqNr), string(to.ID))
		return err
	})
}
