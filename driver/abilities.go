package driver

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/valid"
)

// Abilities is a Store with all abilities that its Driver has; ability.Of asks for them. What the Driver lacks is ErrUnsupported. A Store within a
// transaction is no Watcher and no Subscriber. A type that embeds Abilities and adds an ability that the Driver lacks needs a Lacks of its own.
type Abilities struct{ *Store }

var (
	_ annals.Store          = Abilities{}
	_ ability.Recoverer     = Abilities{}
	_ ability.Watcher       = Abilities{}
	_ ability.Subscriber    = Abilities{}
	_ ability.Skipper       = Abilities{}
	_ ability.StateSkipper  = Abilities{}
	_ ability.StateFinder   = Abilities{}
	_ ability.Forgetter     = Abilities{}
	_ ability.HealthChecker = Abilities{}
	_ ability.Checker       = Abilities{}
)

// unclaimed is the error of what a store does not claim, or of an ability that its Driver lacks.
func unclaimed(what string) error {
	if what == "" {
		return &annals.Error{Kind: annals.ErrUnsupported}
	}
	return &annals.Error{Kind: annals.ErrUnsupported, Err: errors.New(what)}
}

// Lacks is for ability.Of: it says why the Driver lacks an ability, nil when it has it.
func (s *Store) Lacks(want any) error {
	has, within := true, error(nil) // what keeps a store within a transaction from it
	switch want.(type) {
	case *ability.Recoverer:
		has = s.caps.Events && is[ability.Recoverer](s.driver)
	case *ability.Subscriber:
		has = s.caps.Events && is[ability.Subscriber](s.driver)
		within = errors.New("a transaction pushes no events")
	case *ability.Watcher:
		has = is[ability.Watcher](s.driver)
		within = errors.New("a transaction signals nothing")
	case *ability.Skipper:
		has = s.caps.Events && is[ability.Skipper](s.driver)
	case *ability.StateSkipper:
		has = s.caps.States && is[ability.StateSkipper](s.driver)
	case *ability.StateFinder:
		has = s.caps.States && is[ability.StateFinder](s.driver)
	case *ability.Forgetter:
		has = is[ability.Forgetter](s.driver)
	case *ability.HealthChecker:
		has = is[ability.HealthChecker](s.driver)
	case *ability.Checker:
		has = s.caps.Events
	}
	switch {
	case !has:
		return errors.New("its tables or its driver have nothing for it")
	case s.tx != nil && within != nil:
		return within
	}
	if d, ok := s.driver.(interface{ Lacks(want any) error }); ok {
		return d.Lacks(want)
	}
	return nil
}

// is reports whether d is a T.
func is[T any](d Driver) bool {
	_, ok := d.(T)
	return ok
}

// offered is the Driver as a T. The error is ErrUnsupported when it lacks that ability, else fault.
func offered[T any](s *Store, fault error) (T, error) {
	d, _ := s.driver.(T)
	if err := s.Lacks((*T)(nil)); err != nil {
		return d, unclaimed(err.Error())
	}
	return d, fault
}

// Recover is ability.Recoverer.
func (a Abilities) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (last annals.SeqNr, err error) {
	k := a.start(ctx, annals.Call{Op: "recover", ID: id})
	defer k.end(&err)
	d, err := offered[ability.Recoverer](a.Store, valid.ID("", id, a.caps.Limits))
	if err = k.streams(err); err != nil {
		return 0, err
	}
	last, err = d.Recover(k.in, id, func(s annals.Snapshot) error {
		k.transferred(snapshotSize(s))
		k.caller(func() { k.own = snapshot(s) })
		return k.own
	}, func(e annals.Event) error {
		k.transferred(eventSize(e))
		k.caller(func() { k.own = event(e) })
		return k.own
	})
	if err == nil {
		a.tx.saw(Seen{ID: id, Number: last})
	}
	return last, err
}

// SkipTo is ability.Skipper.
func (a Abilities) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	d, err := offered[ability.Skipper](a.Store, valid.Skip("", id, after, n, a.caps.Limits))
	return do(ctx, a.Store, annals.Call{Op: "skip", ID: id}, true, err, func(ctx context.Context) error {
		done := a.tx.noted(Seen{ID: id, Number: n})
		err := d.SkipTo(ctx, id, after, n)
		a.tx.wrote(Seen{ID: id, Number: after}, done, err)
		return err
	})
}

// SkipStateTo is ability.StateSkipper.
func (a Abilities) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	d, err := offered[ability.StateSkipper](a.Store, valid.Skip("", id, 0, n, a.caps.Limits))
	return do(ctx, a.Store, annals.Call{Op: "skip state", ID: id}, true, err, func(ctx context.Context) error {
		err := d.SkipStateTo(ctx, id, n)
		a.tx.wrote(Seen{ID: id, State: true}, false, err)
		return err
	})
}

// FindStates is ability.StateFinder. The Driver checks whether the type has the column.
func (a Abilities) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	d, err := offered[ability.StateFinder](a.Store, nil)
	return each(ctx, a.Store, annals.Call{Op: "find states"}, err, stateSize, func(ctx context.Context) iter.Seq2[annals.State, error] {
		return d.FindStates(ctx, entityType, column, value)
	})
}

// Forget is ability.Forgetter.
func (a Abilities) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	d, err := offered[ability.Forgetter](a.Store, valid.Forgetting(f, a.caps.Limits))
	return ask(ctx, a.Store, annals.Call{Op: "forget", ID: f.ID}, true, err, func(ctx context.Context) (bool, error) {
		forgotten, err := d.Forget(ctx, f)
		if forgotten && !f.DryRun {
			a.tx.forgot(f.ID)
		}
		return forgotten, err
	})
}

// Undeleted is the error of Forget for an entity that has events, a snapshot or a state; nil when it has none of them. last is its last
// number.
func Undeleted(last annals.SeqNr, events, snapshot, state bool) error {
	var left string
	switch {
	case events:
		left = "there are events"
	case snapshot:
		left = "there is a snapshot"
	case state:
		left = "there is a state"
	default:
		return nil
	}
	return &annals.Error{Last: last, Kind: annals.ErrConflict, Err: errors.New(left)}
}

// Watch is ability.Watcher. The Driver ends the watches that are open when the store is closed.
func (a Abilities) Watch(ctx context.Context, f annals.Filter) (<-chan struct{}, error) {
	d, err := offered[ability.Watcher](a.Store, valid.Filter("", f))
	return ask(ctx, a.Store, annals.Call{Op: "watch"}, false, err, func(context.Context) (<-chan struct{}, error) { return d.Watch(ctx, f) })
}

// Subscribe is ability.Subscriber. The Driver waits for events outside of Fetch, and ends its loops when the store is closed.
func (a Abilities) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	d, err := offered[ability.Subscriber](a.Store, valid.Subscription(name, f))
	if err == nil && f.Tag != "" && !a.caps.TagQueries {
		err = unclaimed("a subscription by tag")
	}
	return each(ctx, a.Store, annals.Call{Op: "subscribe"}, err, deliverySize, func(ctx context.Context) iter.Seq2[ability.Delivery, error] {
		return func(yield func(ability.Delivery, error) bool) {
			for delivery, err := range d.Subscribe(ctx, name, f) {
				if ack := delivery.Ack; ack != nil {
					delivery.Ack = func(ctx context.Context) error { return Write(ctx, a.Store, annals.Call{Op: "acknowledge"}, ack) }
				}
				if !yield(delivery, err) {
					return
				}
			}
		}
	})
}

// CheckHealth is ability.HealthChecker.
func (a Abilities) CheckHealth(ctx context.Context) error {
	d, err := offered[ability.HealthChecker](a.Store, nil)
	return do(ctx, a.Store, annals.Call{Op: "check health"}, false, err, func(ctx context.Context) error { return d.CheckHealth(ctx) })
}

// Check is ability.Checker.
func (a Abilities) Check(ctx context.Context, id annals.PersistenceID) (holes []ability.Hole, err error) {
	k := a.start(ctx, annals.Call{Op: "check", ID: id})
	defer k.end(&err)
	if err := k.streams(claimed(a.caps.Events, valid.ID("", id, a.caps.Limits))); err != nil {
		return nil, err
	}
	k.holes = &holes
	for e, err := range a.driver.Journal().Replay(k.in, id, 1, annals.MaxSeqNr) {
		if err != nil {
			return nil, err
		}
		k.transferred(eventSize(e))
	}
	if r, ok := a.driver.(ability.Recoverer); ok {
		k.holes = new([]ability.Hole) // Replay has found them
		if _, err := r.Recover(k.in, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil }); err != nil {
			return nil, err
		}
	}
	return holes, nil
}
