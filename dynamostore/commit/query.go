package commit

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// queries are plan.Queries over the index.
type queries struct{ *table }

// A query merges many partitions, with two pages of each in memory. Up to fullPages partitions have pages of full size. More partitions
// have smaller pages: together as many items as fullPages pages of pageItems items.
const (
	fullPages = 2 * groups
	pageItems = 1000
)

// Events is plan.Queries.
func (q queries) Events(ctx context.Context, x plan.Executor, f annals.Filter) iter.Seq2[annals.Event, error] {
	return results(f, q.moments(ctx, x, stretch{Filter: f, partition: q.commits, has: attrEvents}), eventsOf)
}

// States is plan.Queries.
func (q queries) States(ctx context.Context, x plan.Executor, f annals.Filter) iter.Seq2[annals.State, error] {
	s := stretch{Filter: f, partition: q.states}
	if f.KeysOnly {
		s.fields = []string{attrID, attrSeq, attrFormat, attrTime, attrRevision, attrTags, attrDeleted, attrSerializer, attrManifest}
	}
	return results(f, q.moments(ctx, x, s), statesOf)
}

// results yields what of returns for each moment, at most f.Limit values.
func results[T any](f annals.Filter, moments iter.Seq2[[]plan.Item, error], of func([]plan.Item, annals.Filter) ([]T, error)) iter.Seq2[T, error] {
	return limited(f.Limit, func(yield func(T, error) bool) {
		for moment, err := range moments {
			var found []T
			if err == nil {
				found, err = of(moment, f)
			}
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range found {
				if !yield(v, nil) {
					return
				}
			}
		}
	})
}

// Newest is plan.Queries.
func (q queries) Newest(ctx context.Context, x plan.Executor, f annals.Filter) (annals.Offset, error) {
	f.Limit = 1
	for moment, err := range q.moments(ctx, x, stretch{Filter: f, partition: q.commits, has: attrEvents, backward: true}) {
		if err != nil {
			return annals.Offset{}, err
		}
		es, err := eventsOf(moment, f)
		if err != nil {
			return annals.Offset{}, err
		}
		if len(es) > 0 {
			return es[len(es)-1].Offset(), nil
		}
	}
	return annals.Offset{}, nil
}

// IDs is plan.Queries. The order is by type, then by slice group, then by the bytes of the id. The index is ordered by time, so the ids of a
// group are collected and sorted before the first is yielded.
func (q queries) IDs(ctx context.Context, x plan.Executor, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		names, err := q.names(ctx, x, entityType)
		if err != nil {
			yield("", err)
			return
		}
		for _, name := range names {
			for g := range groups {
				if after != "" && (name < after.Type() || name == after.Type() && g < group(after)) {
					continue
				}
				ids, err := q.ids(ctx, x, name, g)
				if err != nil {
					yield("", err)
					return
				}
				for _, id := range ids {
					if name == after.Type() && g == group(after) && id <= after {
						continue
					}
					if !yield(id, nil) {
						return
					}
				}
			}
		}
	}
}

// ids returns the ids of one type and group, in order.
func (q queries) ids(ctx context.Context, x plan.Executor, name string, g int) ([]annals.PersistenceID, error) {
	found := map[annals.PersistenceID]bool{}
	both := []plan.Query{q.commits(name, g), q.states(name, g)}
	for i := range both {
		both[i].Fields = []string{attrID, attrTime}
	}
	for it, err := range x.Merge(ctx, both, attrTime) {
		if err != nil {
			return nil, err
		}
		id, _ := plan.Text(it, attrID)
		found[annals.PersistenceID(id)] = true
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// names returns the entity types to query: entityType, or all types when that is "".
func (q queries) names(ctx context.Context, x plan.Executor, entityType string) ([]string, error) {
	if entityType != "" {
		if len(stateFeed(entityType, 0)) > maxFeedBytes || !utf8.ValidString(entityType) {
			return nil, nil // no id has this type
		}
		return []string{entityType}, nil
	}
	settings, _, err := x.Get(ctx, plan.Get{Table: q.name, Key: settingsKey()})
	if err != nil {
		return nil, err
	}
	return q.types.learn(settings), nil
}

// commits and states return the query of one partition of the index.
func (q queries) commits(entityType string, group int) plan.Query {
	return plan.Query{Table: q.name, Index: q.index, Hash: commitFeed(entityType, group)}
}

func (q queries) states(entityType string, group int) plan.Query {
	return plan.Query{Table: q.statesOf(entityType), Index: q.index, Hash: stateFeed(entityType, group)}
}

// stretch is the part of the index that a query reads.
type stretch struct {
	annals.Filter
	partition func(entityType string, group int) plan.Query
	has       string   // an attribute that items must have; "" is any item
	fields    []string // nil is all
	backward  bool
}

// moments yields the items that have the same time together. A partition has no order for them, and they may be in several partitions.
//
// All partitions are read up to the time of the call. If each were read to its end, a partition read early would end at an earlier time
// than the others. An item written to it since would be before the last item yielded, at any distance, so that a look-back of fixed
// length could miss it.
func (q queries) moments(ctx context.Context, x plan.Executor, s stretch) iter.Seq2[[]plan.Item, error] {
	return func(yield func([]plan.Item, error) bool) {
		until := x.Now()
		if s.Behind > 0 {
			until = until.Add(-s.Behind - time.Microsecond)
		}
		if s.After.Time.After(until) {
			return
		}
		all, err := q.partitions(ctx, x, s, until)
		if err != nil {
			yield(nil, err)
			return
		}
		if len(all) == 0 {
			return
		}
		var moment []plan.Item
		var now int64
		for it, err := range x.Merge(ctx, all, attrTime) {
			if err != nil {
				yield(nil, err)
				return
			}
			at, _ := plan.Number(it, attrTime)
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

// partitions returns the queries for s up to a time.
func (q queries) partitions(ctx context.Context, x plan.Executor, s stretch, until time.Time) ([]plan.Query, error) {
	names, err := q.names(ctx, x, s.Type)
	if err != nil {
		return nil, err
	}
	first, end := groupsOf(s.Slices)
	one := plan.Query{To: plan.Micros(until), Backward: s.backward, Fields: s.fields}
	if !s.After.Time.IsZero() {
		one.From = plan.Micros(s.After.Time)
	}
	if s.has != "" {
		one.Filter, one.Names = "attribute_exists(#has)", map[string]string{"#has": s.has}
	}
	n := len(names) * (end - first)
	if s.Limit > 0 && n > 0 {
		one.Limit = s.Limit/n + 1 // ids are spread evenly over the groups
	}
	if n > fullPages {
		one.Most = max(fullPages*pageItems/n, 1)
	}
	all := make([]plan.Query, 0, n)
	for _, name := range names {
		for g := first; g < end; g++ {
			of := s.partition(name, g)
			one.Table, one.Index, one.Hash = of.Table, of.Index, of.Hash
			all = append(all, one)
		}
	}
	return all, nil
}

// eventsOf returns the events that fit f in commits of one time, in the order of Offset.
func eventsOf(moment []plan.Item, f annals.Filter) ([]annals.Event, error) {
	var all []annals.Event
	for _, it := range moment {
		id, fits := idOf(it, f)
		if !fits {
			continue
		}
		rec, err := read(id, it)
		if err != nil {
			return nil, err
		}
		if _, err := rec.events(1, annals.MaxSeqNr, func(e annals.Event) bool {
			e.Time = rec.at
			if e.Offset().Compare(f.After) > 0 && tagged(e.Tags, f) {
				all = append(all, e)
			}
			return true
		}); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) })
	return all, nil
}

// statesOf returns the states of one time that fit f, in the order of Offset.
func statesOf(moment []plan.Item, f annals.Filter) ([]annals.State, error) {
	var all []annals.State
	for _, it := range moment {
		if _, fits := idOf(it, f); !fits {
			continue
		}
		st, _, err := readState(it)
		if err != nil {
			return nil, err
		}
		if st.Offset().Compare(f.After) > 0 && tagged(st.Tags, f) {
			all = append(all, st)
		}
	}
	slices.SortFunc(all, func(a, b annals.State) int { return a.Offset().Compare(b.Offset()) })
	return all, nil
}

// idOf returns the id of an item, and whether f includes its slice.
func idOf(it plan.Item, f annals.Filter) (annals.PersistenceID, bool) {
	text, _ := plan.Text(it, attrID)
	id := annals.PersistenceID(text)
	return id, f.Slices.Contains(id.Slice())
}

func tagged(tags []string, f annals.Filter) bool { return f.Tag == "" || slices.Contains(tags, f.Tag) }

// limited ends seq after limit values. 0 is no limit.
func limited[T any](limit int, seq iter.Seq2[T, error]) iter.Seq2[T, error] {
	if limit == 0 {
		return seq
	}
	return func(yield func(T, error) bool) {
		left := limit
		for t, err := range seq {
			if left--; !yield(t, err) || left == 0 {
				return
			}
		}
	}
}
