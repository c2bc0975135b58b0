package commit

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// queries are annals.Query over the index.
type queries struct{ *table }

// Events is annals.Query.
func (q queries) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return results(f, q.moments(ctx, stretch{Filter: f, partition: q.commits, has: attrEvents}), eventsOf)
}

// States is annals.Query.
func (q queries) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	s := stretch{Filter: f, partition: q.states}
	if f.KeysOnly {
		s.fields = []string{attrID, attrSeq, attrFormat, attrTime, attrRevision, attrTags, attrDeleted, attrSerializer, attrManifest}
	}
	return results(f, q.moments(ctx, s), statesOf)
}

// results yields what of returns for each moment, at most f.Limit values.
func results[T any](f annals.Filter, moments iter.Seq2[[]plan.Item, error], of func([]plan.Item, annals.Filter) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		left := f.Limit
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
				if left--; !yield(v, nil) || left == 0 {
					return
				}
			}
		}
	}
}

// Snapshots is annals.Query. The index does not have snapshots.
func (q queries) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	return annals.Unsupported{}.Query().Snapshots(ctx, f)
}

// Newest is annals.Query.
func (q queries) Newest(ctx context.Context, f annals.Filter) (annals.Offset, error) {
	f.Limit = 1
	newestFirst := func(moment []plan.Item, f annals.Filter) ([]annals.Event, error) {
		all, err := eventsOf(moment, f)
		slices.Reverse(all)
		return all, err
	}
	for e, err := range results(f, q.moments(ctx, stretch{Filter: f, partition: q.commits, has: attrEvents, backward: true}), newestFirst) {
		return e.Offset(), err
	}
	return annals.Offset{}, nil
}

// Horizon is annals.Query. It sends no request. When the clock of this machine jumps forward, the horizon does not for a while.
func (q queries) Horizon(ctx context.Context) (time.Time, error) {
	asked, now := time.Now(), q.x.Now()
	ahead, warning := q.clock.Ahead("the clock of this machine", now, asked)
	driver.Count(ctx, annals.Result{Warning: warning})
	return now.Add(-ahead - q.lateness), nil
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
					commits, states := q.commits(name, g), q.states(name, g)
					commits.Fields, states.Fields = []string{attrID}, []string{attrID}
					if !yield(commits) || !yield(states) {
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
				id, _ := plan.Text(it, attrID)
				found[annals.PersistenceID(id)] = true
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
		if len(stateFeed(entityType, 0)) > maxFeedBytes || !utf8.ValidString(entityType) {
			return nil, nil // no id has this type
		}
		return []string{entityType}, nil
	}
	settings, _, err := q.x.Get(ctx, plan.Get{Table: q.name, Key: settingsKey()})
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
func (q queries) moments(ctx context.Context, s stretch) iter.Seq2[[]plan.Item, error] {
	return func(yield func([]plan.Item, error) bool) {
		until := q.x.Now()
		if s.Behind > 0 {
			until = until.Add(-s.Behind - time.Microsecond)
		}
		if s.After.Time.After(until) {
			return
		}
		all, err := q.partitions(ctx, s, until)
		if err != nil {
			yield(nil, err)
			return
		}
		if len(all) == 0 {
			return
		}
		var moment []plan.Item
		var now int64
		for it, err := range q.x.Merge(ctx, all, attrTime) {
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
func (q queries) partitions(ctx context.Context, s stretch, until time.Time) ([]plan.Query, error) {
	names, err := q.names(ctx, s.Type)
	if err != nil {
		return nil, err
	}
	from, to := s.Slices.Bounds()
	first, end := from/groupSlices, (to-1)/groupSlices+1
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
	return fitting(moment, f, func(id annals.PersistenceID, it plan.Item, add func(annals.Event, []string)) error {
		rec, err := read(id, it)
		if err != nil {
			return err
		}
		_, err = rec.events(1, annals.MaxSeqNr, func(e annals.Event) bool {
			e.Time = rec.at
			add(e, e.Tags)
			return true
		})
		return err
	})
}

// statesOf returns the states of one time that fit f, in the order of Offset.
func statesOf(moment []plan.Item, f annals.Filter) ([]annals.State, error) {
	return fitting(moment, f, func(_ annals.PersistenceID, it plan.Item, add func(annals.State, []string)) error {
		st, _, err := readState(it)
		if err == nil {
			add(st, st.Tags)
		}
		return err
	})
}

// fitting returns those of the values that decode adds for items of one time that fit f, in the order of Offset.
func fitting[T interface{ Offset() annals.Offset }](moment []plan.Item, f annals.Filter, decode func(id annals.PersistenceID, it plan.Item, add func(v T, tags []string)) error) (all []T, err error) {
	add := func(v T, tags []string) {
		if v.Offset().Compare(f.After) > 0 && (f.Tag == "" || slices.Contains(tags, f.Tag)) {
			all = append(all, v)
		}
	}
	for _, it := range moment {
		text, _ := plan.Text(it, attrID)
		if id := annals.PersistenceID(text); f.Slices.Contains(id.Slice()) {
			if err := decode(id, it, add); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(all, func(a, b T) int { return a.Offset().Compare(b.Offset()) })
	return all, nil
}
