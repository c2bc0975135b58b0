package hosttest

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/lease"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/query"
)

// claiming is a store that claims something else than it can.
type claiming struct {
	*memstore.Store
	caps annals.Capabilities
}

func (s claiming) Capabilities() annals.Capabilities { return s.caps }

// options are those of both hosts that count here.
type options struct {
	metadata, deletes, single, drop bool
	projections                     []string
}

func (o options) entity() entity.Options {
	e := entity.Options{DeleteEvents: o.deletes, SingleOwner: o.single, MayDrop: o.drop, Projections: o.projections}
	if o.metadata {
		e.Metadata = metadata
	}
	return e
}

func (o options) aggregate() aggregate.Options {
	e := o.entity()
	return aggregate.Options{DeleteEvents: e.DeleteEvents, SingleOwner: e.SingleOwner, MayDrop: e.MayDrop, Projections: e.Projections, Metadata: e.Metadata}
}

// accepting are the features with the ways to ask a store for them. accepted says that the program sets the option Feature.Unless.
func accepting(ctx context.Context) map[string][]func(s annals.Store, accepted bool) error {
	type ask = func(s annals.Store, accepted bool) error
	sourced := func(change func(b *behavior.EventSourced[int, int, int, int], o *options)) []ask {
		run := func(accepted bool) (b behavior.EventSourced[int, int, int, int], o options) {
			b, o.single, o.drop = account, accepted, accepted
			change(&b, &o)
			return b, o
		}
		return []ask{
			func(s annals.Store, accepted bool) error {
				b, o := run(accepted)
				rt, err := entity.New(s, b, o.entity())
				if err == nil {
					err = rt.Shutdown(ctx)
				}
				return err
			},
			func(s annals.Store, accepted bool) error {
				b, o := run(accepted)
				_, err := aggregate.New(s, b, o.aggregate())
				return err
			},
		}
	}
	durable := func(change func(b *behavior.DurableState[int, int, int], o *options)) []ask {
		run := func(accepted bool) (b behavior.DurableState[int, int, int], o options) {
			b, o.drop = accountState, accepted
			change(&b, &o)
			return b, o
		}
		return []ask{
			func(s annals.Store, accepted bool) error {
				b, o := run(accepted)
				rt, err := entity.NewState(s, b, o.entity())
				if err == nil {
					err = rt.Shutdown(ctx)
				}
				return err
			},
			func(s annals.Store, accepted bool) error {
				b, o := run(accepted)
				_, err := aggregate.NewState(s, b, o.aggregate())
				return err
			},
		}
	}
	stored := sourced(func(b *behavior.EventSourced[int, int, int, int], _ *options) {
		b.Evolve, b.EvolveStored = nil, func(s, e int, _ behavior.Info) int { return s + e }
	})
	feed := func(f annals.Filter) ask {
		return func(s annals.Store, _ bool) error {
			_, err := query.NewFeed(s, f, annals.Position{}, query.Options{})
			return err
		}
	}
	stateFeed := func(f annals.Filter) ask {
		return func(s annals.Store, _ bool) error {
			_, err := query.NewStateFeed(s, f, annals.Position{}, query.Options{})
			return err
		}
	}
	project := func(s, offsets annals.Store) error {
		handle := func(context.Context, projection.Envelope[int]) error { return nil }
		_, err := projection.AtLeastOnce("claims", projection.Source[int]{Store: s, Codec: account.Events}, offsets, handle, projection.Options{})
		return err
	}
	cleaner := func(run func(*cleanup.Cleaner) error) ask {
		return func(s annals.Store, accepted bool) error {
			c, err := cleanup.New(s, cleanup.Options{NoWriters: accepted})
			if err != nil {
				return err
			}
			return run(c)
		}
	}
	events := cleaner(func(c *cleanup.Cleaner) error { _, err := c.DeleteEvents(ctx, cleanup.IDs(), 1); return err })
	covered := cleaner(func(c *cleanup.Cleaner) error { _, err := c.DeleteBeforeSnapshot(ctx, cleanup.IDs()); return err })
	entities := cleaner(func(c *cleanup.Cleaner) error { _, err := c.DeleteEntities(ctx, cleanup.IDs()); return err })
	forget := cleaner(func(c *cleanup.Cleaner) error { _, err := c.ForgetEntities(ctx, cleanup.IDs()); return err })
	forgetDeleted := cleaner(func(c *cleanup.Cleaner) error { _, err := c.ForgetDeleted(ctx, cleanup.IDs()); return err })
	return map[string][]ask{
		claims.Events.Name:    sourced(func(*behavior.EventSourced[int, int, int, int], *options) {}),
		claims.States.Name:    durable(func(*behavior.DurableState[int, int, int], *options) {}),
		claims.Snapshots.Name: sourced(func(b *behavior.EventSourced[int, int, int, int], _ *options) { b.SnapshotEvery = 1 }),
		claims.DeleteEvents.Name: sourced(func(b *behavior.EventSourced[int, int, int, int], o *options) {
			b.SnapshotEvery, o.deletes = 1, true
		}),
		claims.Retention.Name: sourced(func(b *behavior.EventSourced[int, int, int, int], o *options) {
			b.SnapshotEvery, o.deletes, o.projections = 1, true, []string{"list"}
		}),
		claims.Stored.Name: stored,
		claims.Times.Name:  stored,
		claims.Tags.Name: append(
			sourced(func(b *behavior.EventSourced[int, int, int, int], _ *options) {
				b.Tags = func(int) []string { return nil }
			}),
			durable(func(b *behavior.DurableState[int, int, int], _ *options) { b.Tags = func(int) []string { return nil } })...),
		claims.Metadata.Name: append(
			sourced(func(_ *behavior.EventSourced[int, int, int, int], o *options) { o.metadata = true }),
			sourced(func(b *behavior.EventSourced[int, int, int, int], _ *options) {
				b.Evolve, b.EvolveStored, b.Metadata = nil, func(s, e int, _ behavior.Info) int { return s + e }, ledger.Metadata
			})...),
		claims.StateInfo.Name: append(
			durable(func(_ *behavior.DurableState[int, int, int], o *options) { o.metadata = true }),
			durable(func(b *behavior.DurableState[int, int, int], _ *options) {
				b.Stored, b.Metadata = func(s int, _ behavior.Info) int { return s }, ledger.Metadata
			})...),
		claims.CommandKeys.Name: {func(s annals.Store, _ bool) error {
			r, err := aggregate.New(s, account, aggregate.Options{})
			if err == nil {
				_, err = r.AskOnce(ctx, "k", "keyed", 1)
			}
			return err
		}},
		claims.DeletedState.Name: {func(s annals.Store, _ bool) error {
			b := accountState
			b.Decide = func(int, int) (behavior.Effect[int], error) { return behavior.Delete[int](), nil }
			r, err := aggregate.NewState(s, b, aggregate.Options{})
			if err == nil {
				_, err = r.Ask(ctx, "deleted", 1)
			}
			return err
		}},
		claims.EventFeed.Name: {feed(annals.Filter{}), func(s annals.Store, _ bool) error { return project(s, memstore.New()) }},
		claims.StateFeed.Name: {stateFeed(annals.Filter{}), func(s annals.Store, _ bool) error {
			handle := func(context.Context, projection.Envelope[int]) error { return nil }
			source := projection.Source[int]{Store: s, Codec: account.Events}
			source.States = true
			_, err := projection.AtLeastOnce("claims", source, memstore.New(), handle, projection.Options{})
			return err
		}},
		claims.TagFeed.Name: {feed(annals.Filter{Tag: "a"}), stateFeed(annals.Filter{Tag: "a"})},
		claims.SnapshotFeed.Name: {func(s annals.Store, _ bool) (failed error) {
			for _, err := range query.EventsFromSnapshots(ctx, s, annals.Filter{}, query.Options{Current: true}) {
				failed = err
			}
			return failed
		}},
		claims.IDFeed.Name: {func(s annals.Store, _ bool) (failed error) {
			for _, err := range query.IDs(ctx, s, "", query.Options{Current: true}) {
				failed = err
			}
			return failed
		}},
		claims.Projection.Name:      {func(s annals.Store, _ bool) error { return project(memstore.New(), s) }},
		claims.CleanedEvents.Name:   {events, covered},
		claims.CleanedSnapshot.Name: {covered, cleaner(func(c *cleanup.Cleaner) error { _, err := c.DeleteSnapshots(ctx, cleanup.IDs()); return err })},
		claims.CleanedBeside.Name:   {events, covered, entities, forget},
		"ability.Skipper":           {entities, forget},
		claims.Cleaned.Name: {func(s annals.Store, _ bool) error {
			_, err := cleanup.New(s, cleanup.Options{Projections: []string{"list"}})
			return err
		}},
		"ability.Forgetter": {forget, forgetDeleted},
		claims.SubjectKeys.Name: {func(s annals.Store, _ bool) error {
			master, err := sealed.AES(make([]byte, 32))
			if err == nil {
				_, err = sealed.NewKeys(s, master, sealed.Options{})
			}
			return err
		}},
		claims.Lease.Name: {func(s annals.Store, _ bool) error {
			return lease.Run(ctx, s, "claims", lease.Options{}, func(context.Context, annals.SeqNr) error { return nil })
		}},
		claims.Calendar.Name: {func(s annals.Store, _ bool) error {
			_, err := calendar.New(s, "claims", calendar.Options{})
			return err
		}},
	}
}

// A store without a claim that a feature needs is refused, and accepted with the option that the feature names.
func TestClaims(t *testing.T) {
	t.Parallel()
	ways := accepting(t.Context())
	for _, f := range claims.All {
		if len(ways[f.Name]) == 0 {
			t.Errorf("%s: no host is asked for it", f.Name)
		}
		for i, ask := range ways[f.Name] {
			if err := ask(memstore.New(), false); err != nil {
				t.Errorf("%s, way %d: a store with all claims: %v", f.Name, i, err)
			}
			for _, claim := range f.Needs {
				s := memstore.New()
				caps := s.Capabilities()
				if claim == "!Limits.FirstSnapshot" {
					caps.Limits.FirstSnapshot = true
				} else {
					reflect.ValueOf(&caps).Elem().FieldByName(claim).SetBool(false)
				}
				less := claiming{s, caps}
				if err := ask(less, false); !errors.Is(err, annals.ErrUnsupported) || !strings.Contains(err.Error(), strings.TrimPrefix(claim, "!")) {
					t.Errorf("%s, way %d, without %s: %v", f.Name, i, claim, err)
				}
				accepts := f.Unless != ""
				if err := ask(less, true); (err == nil) != accepts {
					t.Errorf("%s, way %d, without %s, accepted by %q: %v", f.Name, i, claim, f.Unless, err)
				}
			}
		}
	}
}

// A store without an ability that a run needs is refused, and accepted with NoWriters where it lacks a Skipper only.
func TestAbilities(t *testing.T) {
	t.Parallel()
	ways := accepting(t.Context())
	for _, name := range []string{"ability.Forgetter", "ability.Skipper"} {
		for i, ask := range ways[name] {
			plain := struct{ annals.Store }{memstore.New()}
			if err := ask(plain, false); !errors.Is(err, annals.ErrUnsupported) || !strings.Contains(err.Error(), "ability.") {
				t.Errorf("%s, way %d: %v", name, i, err)
			}
			forgets := struct {
				annals.Store
				ability.Forgetter
			}{plain, memstore.New().Unwrap().(ability.Forgetter)}
			if err := ask(forgets, true); err != nil {
				t.Errorf("%s, way %d, without a Skipper, accepted by NoWriters: %v", name, i, err)
			}
		}
	}
}
