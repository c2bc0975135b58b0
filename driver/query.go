package driver

import (
	"context"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/valid"
)

// Query is annals.Store.
func (s *Store) Query() annals.Query {
	return query{s, s.driver.Query()}
}

type query struct {
	s *Store
	d annals.Query // nil where nothing of it is claimed
}

// filterFault is what is wrong with f for op.
func (q query) filterFault(op string, f annals.Filter, claims bool) error {
	err := claimed(claims, valid.Filter(op, f))
	if err == nil && f.Tag != "" && !q.s.caps.TagQueries {
		return unclaimed("a query by tag")
	}
	return err
}

// Events is annals.Query.
func (q query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	const op = "query events"
	return each(ctx, q.s, annals.Call{Op: op}, q.filterFault(op, f, q.s.caps.EventQueries), eventSize, func(ctx context.Context) iter.Seq2[annals.Event, error] {
		return q.d.Events(ctx, f)
	})
}

// States is annals.Query.
func (q query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	const op = "query states"
	return each(ctx, q.s, annals.Call{Op: op}, q.filterFault(op, f, q.s.caps.StateQueries), stateSize, func(ctx context.Context) iter.Seq2[annals.State, error] {
		return q.d.States(ctx, f)
	})
}

// Snapshots is annals.Query.
func (q query) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	const op = "query snapshots"
	size := func(s annals.Snapshot) (events, bytes int) { return 0, snapshotSize(s) }
	return each(ctx, q.s, annals.Call{Op: op}, q.filterFault(op, f, q.s.caps.SnapshotQueries), size, func(ctx context.Context) iter.Seq2[annals.Snapshot, error] {
		return q.d.Snapshots(ctx, f)
	})
}

// IDs is annals.Query. It leaves out the library's own ids unless it is asked for their type.
func (q query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	const op = "query ids"
	return each(ctx, q.s, annals.Call{Op: op}, q.filterFault(op, annals.Filter{}, q.s.caps.IDQueries), idSize, func(ctx context.Context) iter.Seq2[annals.PersistenceID, error] {
		return func(yield func(annals.PersistenceID, error) bool) {
			for id, err := range q.d.IDs(ctx, entityType, after) {
				if err == nil && entityType == "" && progress.Internal(id) {
					continue
				}
				if !yield(id, err) {
					return
				}
			}
		}
	})
}

// Newest is annals.Query.
func (q query) Newest(ctx context.Context, f annals.Filter) (annals.Offset, error) {
	const op = "query newest"
	return ask(ctx, q.s, annals.Call{Op: op}, false, q.filterFault(op, f, q.s.caps.EventQueries), func(ctx context.Context) (annals.Offset, error) { return q.d.Newest(ctx, f) })
}

// Watermark is annals.Query.
func (q query) Watermark(ctx context.Context) (time.Time, error) {
	fault := claimed(q.s.caps.EventQueries || q.s.caps.StateQueries, nil)
	return ask(ctx, q.s, annals.Call{Op: "query watermark"}, false, fault, func(ctx context.Context) (time.Time, error) {
		at, err := q.d.Watermark(ctx)
		return at.UTC().Truncate(time.Microsecond), err
	})
}
