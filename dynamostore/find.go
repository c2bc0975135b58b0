package dynamostore

import (
	"context"
	"fmt"
	"iter"
	"math/big"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// FindStates is ability.StateFinder.
func (v view) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	f, err := v.s.find(entityType, column, value)
	if err != nil {
		return func(yield func(annals.State, error) bool) { yield(annals.State{}, err) }
	}
	return f.states(ctx, v.x)
}

// finding is one search.
type finding struct {
	*engine
	t                  *stateType
	entityType, column string
	value              types.AttributeValue
}

// find prepares a search. Its error says what is wrong with the arguments.
func (s *Store) find(entityType, column string, value any) (f finding, err error) {
	t, ok := s.types[entityType]
	if !ok || !slices.Contains(t.Columns, column) {
		return f, refusal(annals.ErrInvalid, "type %q has no additional column %q", entityType, column)
	}
	f = finding{s.engine, t, entityType, column, nil}
	if f.value, err = plan.Column(value); err != nil {
		return f, refusal(annals.ErrInvalid, "column %q: %w", column, err)
	}
	for _, table := range t.stored.States.Tables() {
		if _, ok := s.engine.indexOf(table, column); !ok {
			return f, refusal(annals.ErrUnsupported, "table %q has no index with the hash key %q", table, column)
		}
	}
	if f.value == nil {
		return f, refusal(annals.ErrUnsupported, "no index has what lacks the column %q", column)
	}
	if t.keys[column] == types.ScalarAttributeTypeB {
		return f, refusal(annals.ErrUnsupported, "the hash key %q of the index is binary", column)
	}
	if err := keyFits(f.value, t.keys[column]); err != nil {
		return f, refusal(annals.ErrInvalid, "column %q: %w", column, err)
	}
	return f, nil
}

// states yields the states found. The items of an index may be older than the states, so each state is read.
func (f finding) states(ctx context.Context, x plan.Executor) iter.Seq2[annals.State, error] {
	return func(yield func(annals.State, error) bool) {
		for _, table := range f.t.stored.States.Tables() {
			var failed error // of the query
			keys := func(yield func(plan.Item) bool) {
				index, _ := f.indexOf(table, f.column)
				for it, err := range x.Query(ctx, plan.Query{Table: table, Index: index, Hash: plan.KeyText(f.value)}) {
					if failed = err; err != nil || !yield(f.tables[table].KeyOf(it)) {
						return
					}
				}
			}
			for st, err := range plan.Picked(x.GetEach(ctx, table, keys, 0), f.state) {
				if !yield(st, err) || err != nil {
					return
				}
			}
			if failed != nil {
				yield(annals.State{}, failed)
				return
			}
		}
	}
}

// state returns the state in an item that was read; false when there is none, or when it does not have the value.
func (f finding) state(it plan.Item) (annals.State, bool, error) {
	if it == nil || !same(it[f.column], f.value) {
		return annals.State{}, false, nil
	}
	st, ok, err := f.t.stored.States.Read(it)
	return st, ok && !st.Deleted && st.ID.Type() == f.entityType, err
}

// same reports whether two strings or numbers are equal. The service does not return a number as it was written.
func same(a, b types.AttributeValue) bool {
	if _, ok := b.(*types.AttributeValueMemberN); !ok {
		s, ok := a.(*types.AttributeValueMemberS)
		return ok && s.Value == plan.KeyText(b)
	}
	_, ok := a.(*types.AttributeValueMemberN)
	x, okX := new(big.Rat).SetString(plan.KeyText(a))
	y, okY := new(big.Rat).SetString(plan.KeyText(b))
	return ok && okX && okY && x.Cmp(y) == 0
}

func refusal(kind error, format string, args ...any) error {
	return &annals.Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}
