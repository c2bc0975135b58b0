package pgstore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/position"
)

// The table of epochs has a row for each range of slices for which a projection's worker has saved: the epoch, how far everything has been
// handled, and the newest time of an offset. The rows of a projection do not overlap.

const rangeColumns = `slice_from, slice_to, epoch, through_time, through_seq_nr, through_id`

// never is an epoch that no row has.
const never = math.MaxInt64

// lockedRanges are rows that lockAndRead has locked.
type lockedRanges struct {
	position.Ranges
	own bool // one row, of just the slices
}

// lockAndRead locks the rows that overlap the slices of r until the transaction ends. Then it reads the newest row of each of ids. Where the slices
// have a row of their own this is one request.
//
// When a save with a new epoch has returned, no save with an older one can still succeed: each save locks the row of its slices until
// the save commits. A save whose slices have a row of their own locks only this row, so that workers of other slices do not wait. Otherwise
// rows are about to be divided, merged or created: these saves lock the slices of all the rows that they will change.
//
// Unless a row has the epoch loaded or a higher one, what the rows of the plugins tell counts, too, if this store's own rows differ from them.
func (v offsets) lockAndRead(ctx context.Context, tx pgx.Tx, projection string, r annals.SliceRange, ids []annals.PersistenceID, loaded int64) (ranges lockedRanges, own map[annals.PersistenceID]annals.Offset, err error) {
	first, end := position.Overlap(r)
	if v.s.epoch.exists() {
		from, to := r.Bounds()
		var b pgx.Batch
		b.Queue(v.s.sql.lockRange, projection, from, to, first, end, loaded).Query(func(rows pgx.Rows) (err error) {
			ranges.Ranges, err = readRanges(rows, nil)
			ranges.own = len(ranges.Ranges) == 1
			return err
		})
		if len(ids) > 0 {
			own = v.queueOwn(&b, projection, ids)
		}
		if err := tx.SendBatch(ctx, &b).Close(); err != nil || ranges.own {
			return ranges, own, err
		}
	}
	if ranges.Ranges, err = v.lockOverlapping(ctx, tx, projection, first, end); err != nil {
		return ranges, nil, err
	}
	var epoch int64
	for _, x := range ranges.Ranges {
		epoch = max(epoch, x.Epoch)
	}
	if epoch < loaded && v.s.epoch.exists() {
		if ranges.Ranges, err = v.withForeign(ctx, tx, projection, r, ranges.Ranges); err != nil {
			return ranges, nil, err
		}
	}
	own, err = v.own(ctx, tx, projection, ids)
	return ranges, own, err
}

// lockOverlapping locks the slices from ≤ s < to and the rows that overlap them, and returns the rows.
func (v offsets) lockOverlapping(ctx context.Context, tx pgx.Tx, projection string, from, to int) (position.Ranges, error) {
	for first, end := from, to; ; {
		overlapping, err := v.ranges(ctx, tx, projection, first, end, "")
		if err != nil {
			return nil, err
		}
		for _, x := range overlapping {
			first, end = min(first, x.From), max(end, x.To)
		}
		if err := v.lockSlices(ctx, tx, projection, first, end); err != nil {
			return nil, err
		}
		locked, err := v.ranges(ctx, tx, projection, from, to, "FOR UPDATE")
		if err != nil {
			return nil, err
		}
		if n := len(locked); n == 0 || locked[0].From >= first && locked[n-1].To <= end {
			return locked, nil
		}
	}
}

// ranges reads the rows that overlap the slices from ≤ s < to, by q, or with nil where v reads.
func (v offsets) ranges(ctx context.Context, q querier, projection string, from, to int, lock string) (position.Ranges, error) {
	if !v.s.epoch.exists() {
		return nil, nil
	}
	if q == nil {
		q = v.reader(ctx)
	}
	return readRanges(q.Query(ctx, v.s.fill(`SELECT `+rangeColumns+` FROM "annals_projection_epoch" WHERE projection_name = $1 AND slice_from < $3 AND slice_to > $2
		ORDER BY slice_from, slice_to `+lock), projection, from, to))
}

// readRanges decodes rows of rangeColumns.
func readRanges(rows pgx.Rows, err error) (all position.Ranges, _ error) {
	if err != nil {
		return nil, err
	}
	var x position.Range
	var at *time.Time
	var n *int64
	var id *string
	_, err = pgx.ForEachRow(rows, []any{&x.From, &x.To, &x.Epoch, &at, &n, &id}, func() error {
		if x.From < 0 || x.From >= x.To || x.To > position.End || x.Epoch < 0 {
			return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("the slices %d ≤ s < %d with epoch %d", x.From, x.To, x.Epoch)}
		}
		x.Through = annals.Offset{}
		if at != nil && n != nil && id != nil { // NULL in the rows of an older release, which may overlap
			x.Through = annals.Offset{Time: at.UTC(), SeqNr: annals.SeqNr(*n), ID: annals.PersistenceID(*id)}
		}
		all = all.Add(x)
		return nil
	})
	return all, err
}

// replaceRanges replaces the rows of locked, which overlap r, by saved. newest is the newest time of the offsets saved for r.
func (v offsets) replaceRanges(b *pgx.Batch, projection string, r annals.SliceRange, locked lockedRanges, saved position.Ranges, newest time.Time) {
	if !v.s.epoch.exists() {
		return
	}
	if locked.own {
		x := saved[0]
		b.Queue(v.s.sql.moveRange, projection, x.From, x.To, x.Epoch, x.Through.Time, int64(x.Through.SeqNr), string(x.Through.ID), newest)
		return
	}
	from, to := position.Overlap(r)
	var rows struct {
		from, to []int32
		epochs   []int64
		times    []time.Time
		seqNrs   []int64
		ids      []string
	}
	for _, x := range saved {
		rows.from, rows.to, rows.epochs = append(rows.from, int32(x.From)), append(rows.to, int32(x.To)), append(rows.epochs, x.Epoch)
		rows.times, rows.seqNrs, rows.ids = append(rows.times, x.Through.Time), append(rows.seqNrs, int64(x.Through.SeqNr)), append(rows.ids, string(x.Through.ID))
	}
	b.Queue(v.s.fill(`
		WITH replaced AS (DELETE FROM "annals_projection_epoch" WHERE projection_name = $1 AND slice_from < $3 AND slice_to > $2
				AND (slice_from, slice_to) NOT IN (SELECT * FROM unnest($5::int[], $6::int[]))
			RETURNING *)
		INSERT INTO "annals_projection_epoch" AS old (projection_name, `+rangeColumns+`, newest_time)
		SELECT $1, x.*, greatest(CASE WHEN x.first < $3 AND x.past > $2 THEN $4::timestamptz END,
			(SELECT max(newest_time) FROM replaced WHERE slice_from < x.past AND slice_to > x.first))
		FROM unnest($5::int[], $6::int[], $7::bigint[], $8::timestamptz[], $9::bigint[], $10::text[]) AS x (first, past)
		ON CONFLICT (projection_name, slice_from, slice_to) DO UPDATE SET epoch = excluded.epoch, through_time = excluded.through_time,
			through_seq_nr = excluded.through_seq_nr, through_id = excluded.through_id, newest_time = greatest(old.newest_time, excluded.newest_time)`),
		projection, from, to, newest, rows.from, rows.to, rows.epochs, rows.times, rows.seqNrs, rows.ids)
}

// lockSlices locks the slices from ≤ s < to against others that do the same, because a slice may have no row to lock yet. The slices are
// the leaves of a binary tree. The lock is exclusive on the nodes whose leaves are all within the range, and shared on the nodes above
// those, so that two ranges exclude each other if and only if they overlap. One lock per slice would fill the server's table of locks.
func (v offsets) lockSlices(ctx context.Context, tx pgx.Tx, projection string, from, to int) error {
	var nodes []int32
	var whole []bool
	var visit func(node, first, end int)
	visit = func(node, first, end int) {
		if end <= from || to <= first {
			return
		}
		covered := from <= first && end <= to
		nodes, whole = append(nodes, int32(node)), append(whole, covered)
		if !covered {
			middle := (first + end) / 2
			visit(2*node, first, middle)
			visit(2*node+1, middle, end)
		}
	}
	visit(1, 0, position.End)
	_, err := tx.Exec(ctx, `SELECT CASE WHEN whole THEN pg_advisory_xact_lock(key) ELSE pg_advisory_xact_lock_shared(key) END
		FROM (SELECT whole, `+lockKey("epoch", "$1 || ' ' || node", "$4")+` AS key
			FROM unnest($2::int[], $3::bool[]) AS n (node, whole) ORDER BY node) n`, projection, nodes, whole, v.s.epoch.name)
	return err
}
