package timeline

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// queries are annals.Query over the index.
type queries struct {
	annals.Query // nil: the index does not have snapshots, which are not claimed
	*Index
	x plan.Executor
}

func (q queries) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return q.events().read(ctx, q, f)
}

func (q queries) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	k := kind[annals.State]{partition: q.statesOf, decode: func(_ annals.PersistenceID, it plan.Item, add func(annals.State, []string)) error {
		st, err := q.StateIn(it)
		if err == nil {
			add(st, st.Tags)
		}
		return err
	}}
	if f.KeysOnly {
		k.fields = q.StateFields
	}
	return k.read(ctx, q, f)
}

func (q queries) Newest(ctx context.Context, f annals.Filter) (annals.Offset, error) {
	f.Limit = 1
	k := q.events()
	k.backward = true
	e, ok, err := plan.First(k.read(ctx, q, f))
	if !ok || err != nil {
		return annals.Offset{}, err
	}
	return e.Offset(), nil
}

// Watermark is annals.Query. It sends no request. When the clock of this machine jumps forward, the watermark does not for a while.
func (q queries) Watermark(ctx context.Context) (time.Time, error) {
	asked, now := time.Now(), q.x.Now()
	ahead, warning := q.Clock.Ahead("the clock of this machine", now, asked)
	driver.Count(ctx, annals.Result{Warning: warning})
	return now.Add(-ahead - q.Lateness), nil
}

// idsAhead is how many queries IDs reads ahead.
const idsAhead = 7

// IDs is annals.Query. The order is by type, then by slice group, then by the bytes of the id. The index is ordered by time, so the ids of a
// group are collected and sorted before the first is yielded.
func (q queries) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		names, err := q.names(ctx, entityType)
		if err != nil {
			yield("", err)
			return
		}
		both := func(yield func(plan.Query) bool) { // two queries for each group
			for _, name := range names {
				for g := range groups {
					if after != "" && (name < after.Type() || name == after.Type() && g < group(after)) {
						continue
					}
					events, states := q.eventsOf(name, g), q.statesOf(name, g)
					events.Fields, states.Fields = []string{q.ID}, []string{q.ID}
					if !yield(events) || !yield(states) {
						return
					}
				}
			}
		}
		found := map[annals.PersistenceID]bool{}
		for p, err := range q.x.Series(ctx, both, idsAhead) {
			if err != nil {
				yield("", err)
				return
			}
			for _, it := range p.Items {
				found[q.idOf(it)] = true
			}
			if !p.Last || p.Query%2 == 0 {
				continue
			}
			for _, id := range slices.Sorted(maps.Keys(found)) {
				if id.Type() == after.Type() && group(id) == group(after) && id <= after {
					continue
				}
				if !yield(id, nil) {
					return
				}
			}
			clear(found)
		}
	}
}

// names returns the entity types to query: entityType, or all types when that is "".
func (q queries) names(ctx context.Context, entityType string) ([]string, error) {
	if entityType != "" {
		if len(stateKey(entityType, 0)) > maxHash {
			return nil, nil // no id has this type
		}
		return []string{entityType}, nil
	}
	it, _, err := q.x.Get(ctx, plan.Get{Table: q.Types.Table, Key: q.Types.Key})
	if err == nil && it[q.Types.Always] == nil { // it is lost, and Announce may have made another one
		err = &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("table %q has lost the item %s with its settings, which lists the entity types", q.Types.Table, plan.QuoteKey(q.Types.Key))}
	}
	if err != nil {
		return nil, err
	}
	return q.Types.Learn(it), nil
}

func (q queries) idOf(it plan.Item) annals.PersistenceID {
	id, _ := plan.Text(it, q.ID)
	return annals.PersistenceID(id)
}

// eventsOf and statesOf return the query of one partition of the index.
func (q queries) eventsOf(entityType string, group int) plan.Query {
	return plan.Query{Table: q.Table, Index: q.Name, Hash: eventsKey(entityType, group)}
}

func (q queries) statesOf(entityType string, group int) plan.Query {
	return plan.Query{Table: q.StateTable(entityType), Index: q.Name, Hash: stateKey(entityType, group)}
}

// kind is what is read from the index: events or states.
type kind[T interface{ Offset() annals.Offset }] struct {
	partition func(entityType string, group int) plan.Query
	decode    func(id annals.PersistenceID, it plan.Item, add func(v T, tags []string)) error
	has       string   // an attribute that items must have; "" is any item
	fields    []string // nil is all
	backward  bool
}

func (q queries) events() kind[annals.Event] {
	return kind[annals.Event]{partition: q.eventsOf, has: q.HasEvents, decode: func(id annals.PersistenceID, it plan.Item, add func(annals.Event, []string)) error {
		return q.EventsIn(id, it, func(e annals.Event) { add(e, e.Tags) })
	}}
}

// read yields the values that fit f, in the order of Offset.
func (k kind[T]) read(ctx context.Context, q queries, f annals.Filter) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := f.Limit
		for moment, err := range k.moments(ctx, q, f) {
			var found []T
			if err == nil {
				found, err = k.fitting(moment, q, f)
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range found {
				if left--; !yield(v, nil) || left == 0 {
					return
				}
			}
		}
	}
}

// moments yields the items that have the same time together. A partition has no order for them, and they may be in several partitions.
//
// All partitions are read up to the time of the call. If each were read to its end, a partition read early would end at an earlier time
// than the others. An item written to it since would be before the last item yielded, at any distance, so that a look-back of fixed
// length could miss it.
func (k kind[T]) moments(ctx context.Context, q queries, f annals.Filter) iter.Seq2[[]plan.Item, error] {
	return func(yield func([]plan.Item, error) bool) {
		until := q.x.Now()
		if f.Behind > 0 {
			until = until.Add(-f.Behind - time.Microsecond)
		}
		if f.After.Time.After(until) {
			return
		}
		all, err := k.partitions(ctx, q, f, until)
		if err != nil {
			yield(nil, err)
			return
		}
		if len(all) == 0 {
			return
		}
		var moment []plan.Item
		var now int64
		for it, err := range q.x.Merge(ctx, all, q.Time) {
			if err != nil {
				yield(nil, err)
				return
			}
			at, _ := plan.Number(it, q.Time)
			if at != now && len(moment) > 0 {
				if !yield(moment, nil) {
					return
				}
				moment = nil
			}
			moment, now = append(moment, it), at
		}
		if len(moment) > 0 {
			yield(moment, nil)
		}
	}
}

// partitions returns the queries for f up to a time.
func (k kind[T]) partitions(ctx context.Context, q queries, f annals.Filter, until time.Time) ([]plan.Query, error) {
	names, err := q.names(ctx, f.Type)
	if err != nil {
		return nil, err
	}
	of := groupsOf(f.Slices)
	n := len(names) * len(of)
	all := make([]plan.Query, 0, n)
	for _, name := range names {
		for _, g := range of {
			one := k.partition(name, g)
			one.To, one.Backward, one.Fields = plan.Micros(until), k.backward, k.fields
			if !f.After.Time.IsZero() {
				one.From = plan.Micros(f.After.Time)
			}
			if k.has != "" {
				one.Filter, one.Names = "attribute_exists(#has)", map[string]string{"#has": k.has}
			}
			if f.Limit > 0 {
				one.Limit = f.Limit/n + 1 // ids are spread evenly over the groups
			}
			all = append(all, one)
		}
	}
	return all, nil
}

// fitting returns those of the values in items of one time that fit f, in the order of the reading.
func (k kind[T]) fitting(moment []plan.Item, q queries, f annals.Filter) (all []T, err error) {
	add := func(v T, tags []string) {
		if v.Offset().Compare(f.After) > 0 && (f.Tag == "" || slices.Contains(tags, f.Tag)) {
			all = append(all, v)
		}
	}
	for _, it := range moment {
		if id := q.idOf(it); f.Slices.Contains(id.Slice()) {
			if err := k.decode(id, it, add); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(all, func(a, b T) int { return a.Offset().Compare(b.Offset()) })
	if k.backward {
		slices.Reverse(all)
	}
	return all, nil
}
