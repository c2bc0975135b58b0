package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

// snapshots is the annals.SnapshotStore of a view.
type snapshots struct{ view }

func (v snapshots) Latest(_ context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (best annals.Snapshot, ok bool, err error) {
	d, unlock := v.read()
	defer unlock()
	best, ok = newest(d.snapshots.get(id), c)
	best.EventTime = time.Time{}
	return best, ok, nil
}

// newest is the one with the highest number that fits c.
func newest(all []annals.Snapshot, c annals.SnapshotCriteria) (best annals.Snapshot, ok bool) {
	for _, s := range all {
		if fits(s, c) && s.SeqNr > best.SeqNr {
			best, ok = s, true
		}
	}
	return best, ok
}

func (v snapshots) Save(ctx context.Context, s annals.Snapshot) error {
	return v.write(ctx, func(d *data) error {
		d.save(s, d.now(s.ID))
		return nil
	})
}

func (v snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	return v.write(ctx, func(d *data) error {
		if all := d.snapshots.get(id); all != nil {
			d.snapshots.set(id, slices.DeleteFunc(slices.Clone(all), func(s annals.Snapshot) bool { return fits(s, c) }))
		}
		return nil
	})
}

func (d *data) save(s annals.Snapshot, now time.Time) {
	s.Time = s.Time.UTC().Truncate(time.Microsecond)
	if s.Time.IsZero() {
		s.Time = now
	}
	s.Tags, s.EventTime = slices.Clone(s.Tags), now
	events := d.streams.get(s.ID).events
	if i := index(events, s.SeqNr); i < len(events) && events[i].SeqNr == s.SeqNr {
		s.EventTime = events[i].Time
	}
	others := slices.DeleteFunc(slices.Clone(d.snapshots.get(s.ID)), func(o annals.Snapshot) bool { return o.SeqNr == s.SeqNr })
	d.snapshots.set(s.ID, append(others, s))
}

func fits(s annals.Snapshot, c annals.SnapshotCriteria) bool {
	return s.SeqNr >= c.MinSeqNr && (c.MaxSeqNr == 0 || s.SeqNr <= c.MaxSeqNr) &&
		!s.Time.Before(c.MinTime) && (c.MaxTime.IsZero() || !s.Time.After(c.MaxTime))
}
