package storetest

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
)

func tiesLost(q annals.Query) annals.Query {
	return mutantQuery{Query: q, events: func(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
		return without(q.Events(ctx, f), func(e annals.Event) bool { return !e.Time.After(f.After.Time) })
	}}
}

func allFromTheBeginning(q annals.Query) annals.Query {
	return mutantQuery{Query: q, ids: func(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
		if entityType == "" {
			after = ""
		}
		return q.IDs(ctx, entityType, after)
	}}
}

// alikeIDs lists the ids of all types that begin with entityType.
func alikeIDs(q annals.Query) annals.Query {
	return mutantQuery{Query: q, ids: func(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
		return without(q.IDs(ctx, "", after), func(id annals.PersistenceID) bool { return !strings.HasPrefix(id.Type(), entityType) })
	}}
}

// scannedIDs lists what a scan finds.
func scannedIDs(s *memstore.Store) func(q annals.Query) annals.Query {
	return func(q annals.Query) annals.Query {
		return mutantQuery{Query: q, ids: func(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
			return func(yield func(annals.PersistenceID, error) bool) {
				for step, err := range s.Unwrap().(ability.Scanner).Scan(ctx, entityType, string(after)) {
					if !yield(step.ID, err) {
						return
					}
				}
			}
		}}
	}
}

// endsWhenWritten ends a query without an error when its entity was written to in the body of the loop.
func endsWhenWritten(s *memstore.Store) func(q annals.Query) annals.Query {
	return func(q annals.Query) annals.Query {
		return mutantQuery{Query: q, events: func(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
			before := map[annals.PersistenceID]annals.SeqNr{}
			return without(q.Events(ctx, f), func(e annals.Event) bool {
				last, _ := s.Journal().LastSeqNr(ctx, e.ID)
				if before[e.ID] == 0 {
					before[e.ID] = last
				}
				return last != before[e.ID]
			})
		}}
	}
}

// skippedUnseen yields no states of revision 7.
func skippedUnseen(q annals.Query) annals.Query {
	return mutantQuery{Query: q, states: func(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
		return without(q.States(ctx, f), func(s annals.State) bool { return s.Revision == 7 })
	}}
}

// journaled is a store with another journal, and without abilities.
type journaled struct {
	annals.Store
	change func(j annals.Journal) annals.Journal
}

func (s journaled) Journal() annals.Journal { return s.change(s.Store.Journal()) }

// queried is a memstore with other queries.
type queried struct {
	*memstore.Store
	change func(q annals.Query) annals.Query
}

func (s queried) Query() annals.Query { return s.change(s.Store.Query()) }

// mutantQuery is a query with some operations replaced.
type mutantQuery struct {
	annals.Query
	events func(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error]
	states func(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error]
	ids    func(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error]
}

func (q mutantQuery) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	if q.events != nil {
		return q.events(ctx, f)
	}
	return q.Query.Events(ctx, f)
}

func (q mutantQuery) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	if q.states != nil {
		return q.states(ctx, f)
	}
	return q.Query.States(ctx, f)
}

func (q mutantQuery) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	if q.ids != nil {
		return q.ids(ctx, entityType, after)
	}
	return q.Query.IDs(ctx, entityType, after)
}

// without is seq without the values that out names.
func without[T any](seq iter.Seq2[T, error], out func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range seq {
			if (err != nil || !out(v)) && !yield(v, err) {
				return
			}
		}
	}
}

// byNumber yields the events that a query finds in the order of their numbers.
func byNumber(q annals.Query) annals.Query {
	return mutantQuery{Query: q, events: func(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
		found, err := collect(q.Events(ctx, f))
		slices.SortStableFunc(found, func(a, b annals.Event) int { return int(a.SeqNr - b.SeqNr) })
		return listed(found, err)
	}}
}

// listed yields all, and then err if it is not nil.
func listed[T any](all []T, err error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range all {
			if !yield(v, nil) {
				return
			}
		}
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}
