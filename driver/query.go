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
func (s *store) Query() annals.Query {
	return query{s, s.driver.Query()}
}

type query struct {
	s *store
	d annals.Query // nil where nothing of it is claimed
}

// checked returns f as the driver gets it, and what is wrong with f for a query that the store may claim.
func (q query) checked(f annals.Filter, claims bool) (annals.Filter, error) {
	err := claimed(claims, valid.Filter("", f))
	if err == nil && f.Tag != "" && !q.s.caps.TagQueries {
		err = unclaimed("a query by tag")
	}
	f.After.Time = bounded(f.After.Time)
	return f, err
}

// Events is annals.Query.
func (q query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	f, fault := q.checked(f, q.s.caps.EventQueries)
	return each(ctx, q.s, annals.Call{Op: "query events"}, fault, eventSize, func(ctx context.Context) iter.Seq2[annals.Event, error] {
		return q.d.Events(ctx, f)
	})
}

// States is annals.Query.
func (q query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	f, fault := q.checked(f, q.s.caps.StateQueries)
	return each(ctx, q.s, annals.Call{Op: "query states"}, fault, stateSize, func(ctx context.Context) iter.Seq2[annals.State, error] {
		return q.d.States(ctx, f)
	})
}

// Snapshots is annals.Query.
func (q query) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	f, fault := q.checked(f, q.s.caps.SnapshotQueries)
	return each(ctx, q.s, annals.Call{Op: "query snapshots"}, fault, snapshotSize, func(ctx context.Context) iter.Seq2[annals.Snapshot, error] {
		return q.d.Snapshots(ctx, f)
	})
}

// IDs is annals.Query. It leaves out the library's own ids unless it is asked for their type.
func (q query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	fault := claimed(q.s.caps.IDQueries, valid.Filter("", annals.Filter{Type: entityType}))
	return each(ctx, q.s, annals.Call{Op: "query ids"}, fault, idSize, func(ctx context.Context) iter.Seq2[annals.PersistenceID, error] {
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
	f, fault := q.checked(f, q.s.caps.EventQueries)
	return ask(ctx, q.s, annals.Call{Op: "query newest"}, false, fault, func(ctx context.Context) (annals.Offset, error) { return q.d.Newest(ctx, f) })
}

// Watermark is annals.Query.
func (q query) Watermark(ctx context.Context) (time.Time, error) {
	fault := claimed(q.s.caps.EventQueries || q.s.caps.StateQueries, nil)
	return ask(ctx, q.s, annals.Call{Op: "query watermark"}, false, fault, func(ctx context.Context) (time.Time, error) {
		at, err := q.d.Watermark(ctx)
		return at.UTC().Truncate(time.Microsecond), err
	})
}
