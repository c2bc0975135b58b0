package sqlitestore

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/position"
)

// offsets is the annals.OffsetStore of a view: a row of offset_epochs for each range of slices, and one of offsets for each entity that
// is beyond the Through of its range.
type offsets struct{ view }

func (s offsets) Load(ctx context.Context, projection string, r annals.SliceRange) (all []annals.Position, err error) {
	const text = `SELECT persistence_id, seq_nr, timestamp_offset FROM offsets WHERE projection_name = ? AND `
	within, bounds := withinSlices(r)
	err = s.readTx(ctx, func(ctx context.Context, q *statements) error {
		ranges, err := readRanges(ctx, q, projection, r)
		if err != nil {
			return err
		}
		var beyond []annals.Offset
		err = q.rows(ctx, text+within, append([]any{projection}, bounds...), func(v *values) (bool, error) {
			beyond = append(beyond, readOffset(v))
			return true, v.corrupt()
		})
		all = ranges.Positions(r, beyond)
		return err
	})
	return all, err
}

func (s offsets) Handled(ctx context.Context, projection string, ids ...annals.PersistenceID) (all []annals.Offset, err error) {
	err = s.readTx(ctx, func(ctx context.Context, q *statements) error {
		ranges, err := readRanges(ctx, q, projection, annals.SliceRange{})
		if err != nil {
			return err
		}
		all = make([]annals.Offset, len(ids))
		for i, id := range ids {
			own, err := storedOffset(ctx, q, projection, id)
			if err != nil {
				return err
			}
			all[i] = ranges.Handled(id, own)
		}
		return nil
	})
	return all, err
}

// withinSlices is the condition that slice is in r, with its arguments.
func withinSlices(r annals.SliceRange) (string, []any) {
	if r.From >= annals.SliceCount {
		return `slice IN (SELECT value FROM json_each(?))`, []any{sliceList(r)}
	}
	from, to := r.Bounds()
	return `slice >= ? AND slice < ?`, []any{int64(from), int64(to)}
}

// sliceList is the slices of r as JSON.
func sliceList(r annals.SliceRange) string {
	list, _ := json.Marshal(position.Slices(r)) // numbers
	return string(list)
}

// storedOffset returns the row of an entity, or the zero Offset.
func storedOffset(ctx context.Context, q *statements, projection string, id annals.PersistenceID) (own annals.Offset, err error) {
	const text = `SELECT persistence_id, seq_nr, timestamp_offset FROM offsets WHERE projection_name = ? AND slice = ? AND persistence_id = ?`
	_, err = q.row(ctx, text, []any{projection, int64(id.Slice()), string(id)}, func(v *values) { own = readOffset(v) })
	return own, err
}

// readOffset decodes persistence_id, seq_nr and timestamp_offset.
func readOffset(v *values) annals.Offset {
	return annals.Offset{ID: v.id("persistence_id"), SeqNr: annals.SeqNr(v.any64("seq_nr")), Time: fromMicros(v.any64("timestamp_offset"))}
}

// readRanges reads the rows of offset_epochs that overlap r.
func readRanges(ctx context.Context, q *statements, projection string, r annals.SliceRange) (ranges position.Ranges, err error) {
	const text = `SELECT slice_from, slice_to, epoch, through_time, through_seq_nr, through_id FROM offset_epochs
		WHERE projection_name = ? AND slice_from < ? AND slice_to > ?`
	from, to := position.Overlap(r)
	err = q.rows(ctx, text, []any{projection, int64(to), int64(from)}, func(v *values) (bool, error) {
		x := position.Range{
			From:  int(v.integer("slice_from", 0, position.End-1)),
			To:    int(v.integer("slice_to", 1, position.End)),
			Epoch: v.integer("epoch", 0, math.MaxInt64),
		}
		if x.From >= x.To {
			v.fault("slice_to", "a slice that is not after slice_from")
		}
		if v.row[v.next] != nil { // NULL in the rows of an older release
			x.Through.Time, x.Through.SeqNr = fromMicros(v.any64("through_time")), annals.SeqNr(v.any64("through_seq_nr"))
			x.Through.ID = annals.PersistenceID(v.text("through_id"))
		}
		if err := v.corrupt(); err != nil {
			return false, err
		}
		ranges = ranges.Add(x) // an older release has written rows that overlap
		return true, nil
	})
	return ranges, err
}

func (s offsets) Save(ctx context.Context, p annals.Progress) error {
	return s.write(ctx, &write{bytes: 64 * len(p.Offsets), apply: func(ctx context.Context, t *transaction) error {
		return t.saveProgress(ctx, p)
	}})
}

func (t *transaction) saveProgress(ctx context.Context, p annals.Progress) error {
	const (
		anyOffset  = `SELECT 1 FROM offsets WHERE projection_name = ? AND `
		saveOffset = `INSERT OR REPLACE INTO offsets (projection_name, slice, persistence_id, seq_nr, timestamp_offset, timestamp_consumed)
			VALUES (?, ?, ?, ?, ?, ?)`
		deleteCovered = `DELETE FROM offsets WHERE projection_name = ? AND (timestamp_offset, seq_nr, persistence_id) <= (?, ?, ?) AND `
	)
	ranges, err := readRanges(ctx, t.statements, p.Projection, p.Slices)
	if err != nil {
		return err
	}
	saved, err := ranges.Save(p)
	if err != nil {
		return err
	}
	within, bounds := withinSlices(p.Slices)
	// Mostly no entity is beyond the Through: then the rows of those of p need not be looked for one by one.
	beyond, err := t.row(ctx, anyOffset+within+" LIMIT 1", append([]any{p.Projection}, bounds...), func(*values) {})
	if err != nil {
		return err
	}
	var ids []annals.PersistenceID
	if beyond {
		ids = position.IDs(p.Offsets)
	}
	own := map[annals.PersistenceID]annals.Offset{}
	for _, id := range ids {
		if own[id], err = storedOffset(ctx, t.statements, p.Projection, id); err != nil {
			return err
		}
	}
	news, err := ranges.News(p, own)
	if err != nil {
		return err
	}
	now := time.Now().UnixMicro()
	for id, o := range news {
		if saved.At(id.Slice()).Through.Compare(o) >= 0 {
			continue
		}
		if err := t.exec(ctx, saveOffset, p.Projection, int64(id.Slice()), string(id), int64(o.SeqNr), o.Time.UnixMicro(), now); err != nil {
			return err
		}
	}
	if through := p.Through; beyond && through.Compare(annals.Offset{}) > 0 {
		if err := t.exec(ctx, deleteCovered+within, append([]any{p.Projection, through.Time.UnixMicro(), int64(through.SeqNr), string(through.ID)}, bounds...)...); err != nil {
			return err
		}
	}
	return t.replaceRanges(ctx, p.Projection, p.Slices, ranges, saved)
}

// replaceRanges writes the rows of offset_epochs that overlap r: stored becomes saved.
func (t *transaction) replaceRanges(ctx context.Context, projection string, r annals.SliceRange, stored, saved position.Ranges) error {
	const (
		deleteRanges = `DELETE FROM offset_epochs WHERE projection_name = ? AND slice_from < ? AND slice_to > ?`
		saveRange    = `INSERT INTO offset_epochs (projection_name, slice_from, slice_to, epoch, through_time, through_seq_nr, through_id)
			VALUES (?, ?, ?, ?, ?, ?, ?)`
	)
	if slices.Equal(stored, saved) {
		return nil
	}
	from, to := position.Overlap(r)
	if err := t.exec(ctx, deleteRanges, projection, int64(to), int64(from)); err != nil {
		return err
	}
	for _, x := range saved {
		if err := t.exec(ctx, saveRange, projection, int64(x.From), int64(x.To), x.Epoch, x.Through.Time.UnixMicro(), int64(x.Through.SeqNr), string(x.Through.ID)); err != nil {
			return err
		}
	}
	return nil
}

func (s offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	const text = `DELETE FROM offsets WHERE projection_name = ? AND (timestamp_offset, seq_nr, persistence_id) > (?, ?, ?) AND `
	within, bounds := withinSlices(r)
	return s.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		ranges, err := readRanges(ctx, t.statements, projection, r)
		if err != nil {
			return err
		}
		if err := t.exec(ctx, text+within, append([]any{projection, to.Time.UnixMicro(), int64(to.SeqNr), string(to.ID)}, bounds...)...); err != nil {
			return err
		}
		return t.replaceRanges(ctx, projection, r, ranges, ranges.Reset(r, to))
	}})
}

func (s offsets) Forget(ctx context.Context, projection string, ids ...annals.PersistenceID) error {
	const text = `DELETE FROM offsets WHERE projection_name = ? AND slice = ? AND persistence_id = ?`
	return s.write(ctx, &write{apply: func(ctx context.Context, t *transaction) error {
		for _, id := range ids {
			if err := t.exec(ctx, text, projection, int64(id.Slice()), string(id)); err != nil {
				return err
			}
		}
		return nil
	}})
}
