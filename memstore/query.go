package memstore

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

// query is the annals.Query of a view.
type query struct{ view }

func (v query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return fetched(ctx, v.view, func(d *data) []annals.Event {
		return limited(d.events(f), f.Limit)
	})
}

func (v query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	return fetched(ctx, v.view, func(d *data) (found []annals.State) {
		for _, row := range d.states.all() {
			if matches(f, row.Offset(), row.Tags) {
				found = append(found, row.State)
			}
		}
		return limited(ordered(found), f.Limit)
	})
}

func (v query) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	return fetched(ctx, v.view, func(d *data) (found []annals.Snapshot) {
		for _, all := range d.snapshots.all() {
			if s, ok := newest(all, annals.SnapshotCriteria{}); ok && matches(f, s.Offset(), s.Tags) {
				found = append(found, s)
			}
		}
		return limited(ordered(found), f.Limit)
	})
}

func (v query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return v.ids(ctx, entityType, after, false)
}

// ids yields ids in their order; with snapshots also those that have snapshots only.
func (v view) ids(ctx context.Context, entityType string, after annals.PersistenceID, snapshots bool) iter.Seq2[annals.PersistenceID, error] {
	return fetched(ctx, v, func(d *data) (found []annals.PersistenceID) {
		add := func(id annals.PersistenceID) {
			if id > after && (entityType == "" || id.Type() == entityType) {
				found = append(found, id)
			}
		}
		for id := range d.streams.all() {
			add(id)
		}
		for id := range d.states.all() {
			add(id)
		}
		if snapshots {
			for id := range d.snapshots.all() {
				add(id)
			}
		}
		slices.Sort(found)
		return slices.Compact(found)
	})
}

func (v query) Newest(_ context.Context, f annals.Filter) (annals.Offset, error) {
	d, unlock := v.read()
	defer unlock()
	found := d.events(f)
	if len(found) == 0 {
		return annals.Offset{}, nil
	}
	return found[len(found)-1].Offset(), nil
}

// Watermark is just after the newest time that the store has given.
func (v query) Watermark(_ context.Context) (time.Time, error) {
	d, unlock := v.read()
	defer unlock()
	return d.clock.Add(time.Microsecond), nil
}

// events are those that fit f but for its Limit, in the order of Offset.
func (d *data) events(f annals.Filter) (found []annals.Event) {
	for _, st := range d.streams.all() {
		for _, e := range st.events {
			if matches(f, e.Offset(), e.Tags) {
				found = append(found, e)
			}
		}
	}
	return ordered(found)
}

// ordered is all in the order of Offset.
func ordered[T interface{ Offset() annals.Offset }](all []T) []T {
	slices.SortFunc(all, func(a, b T) int { return a.Offset().Compare(b.Offset()) })
	return all
}

func matches(f annals.Filter, o annals.Offset, tags []string) bool {
	return (f.Type == "" || o.ID.Type() == f.Type) && f.Slices.Contains(o.ID.Slice()) && o.Compare(f.After) > 0 &&
		(f.Tag == "" || slices.Contains(tags, f.Tag)) && (f.Behind <= 0 || o.Time.Before(time.Now().Add(-f.Behind)))
}

func limited[T any](all []T, limit int) []T {
	if limit > 0 && len(all) > limit {
		return all[:limit]
	}
	return all
}
