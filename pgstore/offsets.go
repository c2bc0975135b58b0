package pgstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/position"
)

// offsets is the annals.OffsetStore of a view. The plugins insert a row for each offset and remove old ones later. This store writes one row for
// each entity that is beyond the Through of its slices, and with Options.PluginOffsets for each entity. A row that a Through covers says nothing new, so
// it may stay.
type offsets struct{ *view }

// Load is annals.OffsetStore. Where a plugin has handled events after the last save of this store, its rows give the position.
func (v offsets) Load(ctx context.Context, projection string, r annals.SliceRange) ([]annals.Position, error) {
	ranges, err := v.known(ctx, projection, r)
	if err != nil {
		return nil, err
	}
	var beyond []annals.Offset
	for _, x := range ranges.Within(r) {
		err := v.eachOffset(ctx, func(o annals.Offset) {
			if o.ID != forgotten {
				beyond = append(beyond, o)
			}
		}, v.s.fill(`
			SELECT DISTINCT ON (o.persistence_id) o.timestamp_offset, o.seq_nr, o.persistence_id
			FROM unnest($2::int[]) AS slices (slice), LATERAL (SELECT o.timestamp_offset, o.seq_nr, o.persistence_id FROM "akka_projection_timestamp_offset_store" o
				WHERE o.slice = slices.slice AND o.projection_name = $1 AND o.timestamp_offset >= $3) o
			ORDER BY o.persistence_id, o.timestamp_offset DESC, o.seq_nr DESC`), projection, position.Slices(annals.SliceRange{From: x.From, To: x.To}), x.Through.Time)
		if err != nil {
			return nil, err
		}
	}
	return ranges.Positions(r, beyond), nil
}

// known returns the ranges of r: those that this store has saved, and those that follow from the rows of the plugins.
func (v offsets) known(ctx context.Context, projection string, r annals.SliceRange) (ranges position.Ranges, err error) {
	from, to := position.Overlap(r)
	if ranges, err = v.ranges(ctx, nil, projection, from, to, ""); err != nil {
		return nil, err
	}
	return v.withForeign(ctx, nil, projection, r, ranges)
}

func (v offsets) Handled(ctx context.Context, projection string, ids ...annals.PersistenceID) ([]annals.Offset, error) {
	ranges, err := v.known(ctx, projection, annals.SliceRange{})
	if err != nil {
		return nil, err
	}
	own, err := v.own(ctx, v.reader(ctx), projection, ids)
	if err != nil {
		return nil, err
	}
	all := make([]annals.Offset, len(ids))
	for i, id := range ids {
		all[i] = ranges.Handled(id, own[id])
	}
	return all, nil
}

// own reads the newest row of each of ids.
func (v offsets) own(ctx context.Context, q querier, projection string, ids []annals.PersistenceID) (map[annals.PersistenceID]annals.Offset, error) {
	own := map[annals.PersistenceID]annals.Offset{}
	slices, texts := idColumns(ids)
	rows, err := q.Query(ctx, v.s.sql.ownOffsets, projection, slices, texts)
	return own, readOffsets(rows, err, func(o annals.Offset) { own[o.ID] = o })
}

// queueOwn is own as a part of b. The map is filled when b is sent.
func (v offsets) queueOwn(b *pgx.Batch, projection string, ids []annals.PersistenceID) map[annals.PersistenceID]annals.Offset {
	own := map[annals.PersistenceID]annals.Offset{}
	slices, texts := idColumns(ids)
	b.Queue(v.s.sql.ownOffsets, projection, slices, texts).Query(func(rows pgx.Rows) error {
		return readOffsets(rows, nil, func(o annals.Offset) { own[o.ID] = o })
	})
	return own
}

// eachOffset runs a query for times, numbers and ids where v reads.
func (v *view) eachOffset(ctx context.Context, do func(annals.Offset), sql string, args ...any) error {
	rows, err := v.reader(ctx).Query(ctx, sql, args...)
	return readOffsets(rows, err, do)
}

// readOffsets decodes rows of times, numbers and ids.
func readOffsets(rows pgx.Rows, err error, do func(annals.Offset)) error {
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

// idColumns returns the parameters of a statement for many entities.
func idColumns(ids []annals.PersistenceID) (slices []int32, texts []string) {
	for _, id := range ids {
		slices, texts = append(slices, int32(id.Slice())), append(texts, string(id))
	}
	return slices, texts
}

func (v offsets) Save(ctx context.Context, p annals.Progress) error {
	if (p.Epoch != 0 || p.Through.Compare(annals.Offset{}) != 0) && !v.s.epoch.exists() {
		return &annals.Error{Kind: annals.ErrUnsupported, Err: fmt.Errorf("there is no table %s for epochs and positions: Migrate creates it", v.s.epoch.name)}
	}
	return v.writeTx(ctx, func(ctx context.Context, tx pgx.Tx) error { return v.save(ctx, tx, p) })
}

func (v offsets) save(ctx context.Context, tx pgx.Tx, p annals.Progress) error {
	// The plugins' rows are no longer newer than these offsets. A save with a Through is of a worker that has loaded what these rows tell.
	loaded := p.Epoch
	switch {
	case p.Through != annals.Offset{}:
		loaded = 0
	case p.Epoch == 0:
		loaded = never
	}
	ranges, own, err := v.lockAndRead(ctx, tx, p.Projection, p.Slices, position.IDs(p.Offsets), loaded)
	if err != nil {
		return err
	}
	saved, err := ranges.Save(p)
	if err != nil {
		return err
	}
	news, err := ranges.News(p, own)
	if err != nil {
		return err
	}
	var newest time.Time
	for _, o := range slices.AppendSeq(slices.Clip(p.Offsets), maps.Values(news)) { // a new row may have a later time than was asked for
		if o.Time.After(newest) {
			newest = o.Time
		}
	}
	if !v.s.options.PluginOffsets {
		maps.DeleteFunc(news, func(id annals.PersistenceID, o annals.Offset) bool {
			return saved.At(id.Slice()).Through.Compare(o) >= 0
		})
	}
	var b pgx.Batch
	if len(news) > 0 || len(p.Offsets) == 0 { // with a save without offsets a projection finds out whether the server refuses all of its saves
		v.replaceOffsets(&b, p, news)
	}
	v.replaceRanges(&b, p.Projection, p.Slices, ranges, saved, newest)
	return sendLast(ctx, tx, &b)
}

// replaceOffsets replaces the rows of the entities of news.
func (v offsets) replaceOffsets(b *pgx.Batch, p annals.Progress, news map[annals.PersistenceID]annals.Offset) {
	ids := slices.Sorted(maps.Keys(news))
	sliceColumn, idColumn := idColumns(ids)
	seqNrs, times := make([]int64, len(ids)), make([]time.Time, len(ids))
	for i, id := range ids {
		seqNrs[i], times[i] = int64(news[id].SeqNr), news[id].Time
	}
	b.Queue(v.s.sql.replaceOffsets, p.Projection, p.Slices.String(), sliceColumn, idColumn, seqNrs, times)
}

// Reset is annals.OffsetStore. The worker of a plugin may have had other slices, too, and its rows in those tell of the slices of r as well. So this
// store saves what they tell of all slices, and they are no longer newer than its rows.
func (v offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	all := r
	if r != (annals.SliceRange{}) && !position.Spread(r) {
		all = annals.SliceRange{To: annals.SliceCount}
	}
	return v.writeTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		ranges, _, err := v.lockAndRead(ctx, tx, projection, all, nil, never)
		if err != nil {
			return err
		}
		newest := to.Time
		for _, x := range ranges.Ranges {
			if at := x.Through.Time.Add(pluginWindow); all != r && at.After(newest) {
				newest = at
			}
		}
		var b pgx.Batch
		b.Queue(v.s.fill(`DELETE FROM "akka_projection_timestamp_offset_store" WHERE projection_name = $1 AND slice = ANY($2::int[])
			AND (timestamp_offset, seq_nr, persistence_id COLLATE "C") > ($3::timestamptz, $4::bigint, $5::text)`),
			projection, position.Slices(r), to.Time, int64(to.SeqNr), string(to.ID))
		v.replaceRanges(&b, projection, all, ranges, ranges.Reset(r, to), newest)
		return sendLast(ctx, tx, &b)
	})
}

// forgotten stands in for an entity that was forgotten, in its newest row.
const forgotten = "annals.forgotten|"

// Forget is annals.OffsetStore. The plugins begin at the newest row of each slice when they start again. So where the newest is one of the
// entity, a row without its id stays in its place, until there is a newer one when Forget is called next.
func (v offsets) Forget(ctx context.Context, projection string, ids ...annals.PersistenceID) error {
	return v.writeTx(ctx, func(ctx context.Context, tx pgx.Tx) error {
		for _, id := range slices.Sorted(slices.Values(ids)) {
			slice := id.Slice()
			for _, spread := range []bool{false, true} {
				r := position.As(annals.SliceRange{From: slice, To: slice + 1}, spread)[0]
				if _, _, err := v.lockAndRead(ctx, tx, projection, r, nil, 0); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, v.s.fill(`
				WITH newest AS MATERIALIZED (SELECT o.* FROM "akka_projection_timestamp_offset_store" o WHERE o.slice = $2 AND o.projection_name = $1
					ORDER BY o.timestamp_offset DESC, o.seq_nr DESC LIMIT 1),
				kept AS (INSERT INTO "akka_projection_timestamp_offset_store" (projection_name, projection_key, slice, persistence_id, seq_nr, timestamp_offset, timestamp_consumed)
					SELECT n.projection_name, n.projection_key, n.slice, $4::text, n.seq_nr, n.timestamp_offset, n.timestamp_consumed
					FROM newest n WHERE n.persistence_id = $3 ON CONFLICT DO NOTHING)
				DELETE FROM "akka_projection_timestamp_offset_store" o USING newest n WHERE o.slice = $2 AND o.projection_name = $1
					AND (o.persistence_id = $3 OR o.persistence_id = $4 AND o.timestamp_offset < n.timestamp_offset)`),
				projection, slice, string(id), forgotten)
			if err != nil {
				return err
			}
		}
		return nil
	})
}
