package memstore

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

type query struct{ view }

func (v query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return all(ctx, "query events", f.Limit, func() ([]annals.Event, error) {
		d, unlock, err := v.begin(ctx, "query events", "")
		if err != nil {
			return nil, err
		}
		defer unlock()
		return d.events(f), nil
	})
}

func (v query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	return all(ctx, "query states", f.Limit, func() (found []annals.State, err error) {
		d, unlock, err := v.begin(ctx, "query states", "")
		if err != nil {
			return nil, err
		}
		defer unlock()
		for _, row := range d.states {
			if matches(f, row.Offset(), row.Tags) {
				found = append(found, row.State)
			}
		}
		slices.SortFunc(found, func(a, b annals.State) int { return a.Offset().Compare(b.Offset()) })
		return found, nil
	})
}

func (v query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return all(ctx, "query ids", 0, func() (found []annals.PersistenceID, err error) {
		d, unlock, err := v.begin(ctx, "query ids", "")
		if err != nil {
			return nil, err
		}
		defer unlock()
		add := func(id annals.PersistenceID) {
			if id > after && (entityType == "" || id.Type() == entityType) {
				found = append(found, id)
			}
		}
		for id := range d.streams {
			add(id)
		}
		for id := range d.states {
			add(id)
		}
		slices.Sort(found)
		return slices.Compact(found), nil
	})
}

func (v query) Newest(ctx context.Context, f annals.Filter) (annals.Offset, error) {
	d, unlock, err := v.begin(ctx, "query newest", "")
	if err != nil {
		return annals.Offset{}, err
	}
	defer unlock()
	found := d.events(f)
	if len(found) == 0 {
		return annals.Offset{}, nil
	}
	return found[len(found)-1].Offset(), nil
}

// events are those that fit f but for its Limit, in the order of Offset.
func (d *data) events(f annals.Filter) (found []annals.Event) {
	for _, st := range d.streams {
		for _, e := range st.events {
			if matches(f, e.Offset(), e.Tags) {
				found = append(found, e)
			}
		}
	}
	slices.SortFunc(found, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) })
	return found
}

func matches(f annals.Filter, o annals.Offset, tags []string) bool {
	return (f.Type == "" || o.ID.Type() == f.Type) && f.Slices.Contains(o.ID.Slice()) && o.Compare(f.After) > 0 &&
		(f.Tag == "" || slices.Contains(tags, f.Tag)) && (f.Behind <= 0 || o.Time.Before(time.Now().Add(-f.Behind)))
}

// all yields what read returns, at most limit, 0 for no bound.
func all[T any](ctx context.Context, op string, limit int, read func() ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		found, err := read()
		if err != nil {
			var zero T
			yield(zero, err)
			return
		}
		for i, v := range found {
			if limit > 0 && i == limit {
				return
			}
			if err := ctx.Err(); err != nil {
				var zero T
				yield(zero, &annals.Error{Op: op, Kind: annals.ErrUnavailable, Err: err})
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}
