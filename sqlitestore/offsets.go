package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

// offsets is the annals.OffsetStore of a view: one row per projection and entity.
type offsets struct{ view }

func (s offsets) Load(ctx context.Context, projection string, r annals.SliceRange) (newest []annals.Offset, err error) {
	const text = `SELECT o.persistence_id, o.seq_nr, o.timestamp_offset
		FROM (SELECT slice, max(timestamp_offset) AS newest FROM offsets
			WHERE projection_name = ?1 AND slice >= ?2 AND slice < ?3 GROUP BY slice) AS n
		JOIN offsets AS o ON o.projection_name = ?1 AND o.slice = n.slice AND o.timestamp_offset = n.newest
		ORDER BY o.timestamp_offset, o.seq_nr, o.persistence_id`
	from, to := r.Bounds()
	err = s.read(ctx, func(ctx context.Context, q *statements) error {
		newest = nil
		return q.rows(ctx, text, []any{projection, int64(from), int64(to)}, func(v *values) (bool, error) {
			newest = append(newest, readOffset(v))
			return true, v.corrupt()
		})
	})
	if err != nil {
		return nil, err
	}
	return newest, nil
}

func (s offsets) Handled(ctx context.Context, projection string, id annals.PersistenceID) (offset annals.Offset, found bool, err error) {
	const text = `SELECT persistence_id, seq_nr, timestamp_offset FROM offsets WHERE projection_name = ? AND slice = ? AND persistence_id = ?`
	err = s.read(ctx, func(ctx context.Context, q *statements) (err error) {
		found, err = q.row(ctx, text, []any{projection, int64(id.Slice()), string(id)}, func(v *values) { offset = readOffset(v) })
		return err
	})
	if err != nil || !found {
		return annals.Offset{}, false, err
	}
	return offset, true, nil
}

// readOffset decodes persistence_id, seq_nr and timestamp_offset.
func readOffset(v *values) annals.Offset {
	return annals.Offset{ID: v.id("persistence_id"), SeqNr: annals.SeqNr(v.any64("seq_nr")), Time: fromMicros(v.any64("timestamp_offset"))}
}

func (s offsets) Save(ctx context.Context, p annals.Progress) error {
	p.Offsets = slices.Clone(p.Offsets)
	return s.write(ctx, &write{bytes: 64 * len(p.Offsets), apply: func(ctx context.Context, t *transaction) error {
		return t.saveProgress(ctx, p)
	}})
}

func (t *transaction) saveProgress(ctx context.Context, p annals.Progress) error {
	const (
		newestEpoch = `SELECT ifnull(max(epoch), 0) FROM offset_epochs WHERE projection_name = ? AND slice_from < ? AND slice_to > ?`
		saveEpoch   = `INSERT INTO offset_epochs (projection_name, slice_from, slice_to, epoch) VALUES (?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET epoch = excluded.epoch WHERE excluded.epoch > offset_epochs.epoch`
		saveOffset = `INSERT INTO offsets (projection_name, slice, persistence_id, seq_nr, timestamp_offset, timestamp_consumed)
			VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET seq_nr = excluded.seq_nr, timestamp_offset = excluded.timestamp_offset,
				timestamp_consumed = excluded.timestamp_consumed
			WHERE (excluded.timestamp_offset, excluded.seq_nr) > (offsets.timestamp_offset, offsets.seq_nr)`
	)
	from, to := p.Slices.Bounds()
	if p.Epoch > 0 {
		var newest int64
		_, err := t.row(ctx, newestEpoch, []any{p.Projection, int64(to), int64(from)}, func(v *values) { newest = v.any64("epoch") })
		if err != nil {
			return err
		}
		if newest > p.Epoch {
			return &annals.Error{Kind: annals.ErrFenced, Err: fmt.Errorf("projection %q, slices %s: epoch %d, but %d was seen",
				p.Projection, p.Slices, p.Epoch, newest)}
		}
		if _, err := t.exec(ctx, saveEpoch, p.Projection, int64(from), int64(to), p.Epoch); err != nil {
			return err
		}
	}
	now := time.Now().UnixMicro()
	for _, o := range p.Offsets {
		_, err := t.exec(ctx, saveOffset, p.Projection, int64(o.ID.Slice()), string(o.ID), int64(o.SeqNr), o.Time.UnixMicro(), now)
		if err != nil {
			return err
		}
	}
	return nil
}

// Reset is annals.OffsetStore: it deletes the offsets that are not before to.
func (s offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	const text = `DELETE FROM offsets WHERE projection_name = ? AND slice >= ? AND slice < ?
		AND (timestamp_offset, seq_nr, persistence_id) >= (?, ?, ?)`
	first, end := r.Bounds()
	return s.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		_, err := t.exec(ctx, text, projection, int64(first), int64(end), ceilMicros(to.Time), int64(to.SeqNr), string(to.ID))
		return err
	}})
}
