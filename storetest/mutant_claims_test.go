package storetest

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
)

// The suite finds stores whose claims are not true.
func TestClaimMutants(t *testing.T) {
	t.Parallel()
	for _, m := range []struct {
		name   string
		open   func() annals.Store
		caught []string
	}{
		{"claims Metadata and drops them", func() annals.Store { return around(memstore.New(), dropping) },
			[]string{"J-O4"}},
		{"keeps Tags without the claim", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.Tags, c.TagQueries = false, false }}
		},
			[]string{"CLAIM-3", "CLAIM-6"}},
		{"keeps StateMetadata without the claim", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.StateMetadata = false }}
		},
			[]string{"CLAIM-11"}},
		{"keeps EventTimes without the claim", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.EventTimes = false }}
		},
			[]string{"CLAIM-5"}},
		{"keeps Times without the claim", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.Times = false }}
		},
			[]string{"CLAIM-10", "CLAIM-12"}},
		{"claims Times and has none", func() annals.Store {
			return journaled{memstore.New(), func(j annals.Journal) annals.Journal { return timelessJournal{j} }}
		},
			[]string{"REPLAY-4"}},
		{"has in a transaction what only the outer store has", func() annals.Store { return skipsOutside{memstore.New()} },
			[]string{"TX-18"}},
		{"skips and is no Skipper", func() annals.Store {
			return denying[ability.Skipper]{memstore.New()}
		},
			[]string{"CLAIM-1"}},
		{"skips states and is no StateSkipper", func() annals.Store {
			return denying[ability.StateSkipper]{memstore.New()}
		},
			[]string{"CLAIM-1"}},
		{"finds states and is no StateFinder", func() annals.Store {
			return denying[ability.StateFinder]{memstore.New()}
		},
			[]string{"CLAIM-1"}},
		{"deletes states without the claim", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.DeletesStates = false }}
		},
			[]string{"CLAIM-1"}},
		{"subscribes and is no Subscriber", func() annals.Store {
			return denying[ability.Subscriber]{memstore.New()}
		},
			[]string{"CLAIM-1"}},
		{"lists ids without the claim", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.IDQueries = false }}
		},
			[]string{"CLAIM-1"}},
		{"lists no ids of entities whose events are deleted", func() annals.Store { s := memstore.New(); return queried{s, livingIDs(s)} },
			[]string{"QUERY-11"}},
		{"lists the ids of the library", func() annals.Store { return queried{memstore.New(), allIDs} },
			[]string{"QUERY-12"}},
		{"has states without the claim", func() annals.Store {
			return claiming{memstore.New(), func(c *annals.Capabilities) { c.States = false }}
		},
			[]string{"CLAIM-1", "CLAIM-10"}},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			wantCaught(t, m.caught, Config{Open: func(testing.TB) annals.Store { return m.open() }, Short: true})
		})
	}
}

var dropping = writing(func(e *annals.NewEvent) { e.Metadata = annals.Payload{} })

// allIDs lists one of the library's ids with the others.
func allIDs(q annals.Query) annals.Query {
	return mutantQuery{Query: q, ids: func(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
		all, err := collect(q.IDs(ctx, entityType, after))
		if entityType == "" {
			own, failed := collect(q.IDs(ctx, "annals.storetest", after))
			all, err = append(all, own...), errors.Join(err, failed)
		}
		return listed(all, err)
	}}
}

// livingIDs finds ids by events.
func livingIDs(s *memstore.Store) func(q annals.Query) annals.Query {
	return func(q annals.Query) annals.Query {
		return mutantQuery{Query: q, ids: func(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
			return without(q.IDs(ctx, entityType, after), func(id annals.PersistenceID) bool {
				es, _ := collect(s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr))
				return len(es) == 0
			})
		}}
	}
}

// claiming is a memstore with other claims.
type claiming struct {
	*memstore.Store
	change func(c *annals.Capabilities)
}

func (s claiming) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	s.change(&c)
	return c
}

// denying says that it lacks the ability A, which it has.
type denying[A any] struct{ *memstore.Store }

func (s denying[A]) Lacks(want any) error {
	if _, ok := want.(*A); ok {
		return errors.New("denied")
	}
	return s.Store.Lacks(want)
}

// skipsOutside has a store in a transaction that refuses to skip states.
type skipsOutside struct{ *memstore.Store }

func (s skipsOutside) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return ability.Atomically(ctx, s.Store, func(ctx context.Context, in annals.Store) error {
		return fn(ctx, skipsNothing{in})
	})
}

type skipsNothing struct{ annals.Store }

func (skipsNothing) SkipStateTo(context.Context, annals.PersistenceID, annals.SeqNr) error {
	return &annals.Error{Op: "skip state", Kind: annals.ErrUnsupported}
}
