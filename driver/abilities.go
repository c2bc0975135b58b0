package driver

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/valid"
)

// A store has the methods of all abilities; ability.Of asks for them. What the Driver lacks is ErrUnsupported. A store within a transaction is no
// Watcher and no Subscriber.
var (
	_ ability.Recoverer     = (*store)(nil)
	_ ability.Watcher       = (*store)(nil)
	_ ability.Subscriber    = (*store)(nil)
	_ ability.Skipper       = (*store)(nil)
	_ ability.StateSkipper  = (*store)(nil)
	_ ability.StateFinder   = (*store)(nil)
	_ ability.Forgetter     = (*store)(nil)
	_ ability.HealthChecker = (*store)(nil)
	_ ability.Checker       = (*store)(nil)
	_ ability.Scanner       = (*store)(nil)
	_ ability.Atomic        = (*store)(nil)
)

// unclaimed is the error of what a store does not claim, or of an ability that its Driver lacks.
func unclaimed(what string) error {
	if what == "" {
		return &annals.Error{Kind: annals.ErrUnsupported}
	}
	return &annals.Error{Kind: annals.ErrUnsupported, Err: errors.New(what)}
}

// Lacks is Store.Lacks.
func (s *store) Lacks(want any) error {
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
		has = s.caps.Events || s.caps.Snapshots || s.caps.States
	case *ability.Scanner:
		has = s.caps.IDQueries || is[ability.Scanner](s.driver)
		within = errors.New("a transaction is not scanned")
	case *ability.Atomic:
		has = s.atomically != nil || s.tx != nil
		within = contexts.ErrWithin
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
func offered[T any](s *store, fault error) (T, error) {
	d, _ := s.driver.(T)
	if err := s.Lacks((*T)(nil)); err != nil {
		return d, unclaimed(err.Error())
	}
	return d, fault
}

// Recover is ability.Recoverer.
func (s *store) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (last annals.SeqNr, err error) {
	k := s.start(ctx, annals.Call{Op: "recover", ID: id}, &err)
	defer k.end(&err)
	d, fault := offered[ability.Recoverer](s, valid.ID("", id, s.caps.Limits))
	if err := k.streams(fault); err != nil {
		return 0, err
	}
	last, err = d.Recover(k.in, id, func(newest annals.Snapshot) error {
		k.transferred(snapshotSize(newest))
		k.caller(func() { k.own = snapshot(newest) })
		return k.own
	}, func(e annals.Event) error {
		k.transferred(eventSize(e))
		k.caller(func() { k.own = event(e) })
		return k.own
	})
	if err == nil {
		s.tx.saw(Seen{ID: id, Number: last})
	}
	return last, err
}

// SkipTo is ability.Skipper.
func (s *store) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	d, err := offered[ability.Skipper](s, valid.Skip("", id, after, n, s.caps.Limits))
	return do(ctx, s, annals.Call{Op: "skip", ID: id}, true, err, func(ctx context.Context) error {
		done := s.tx.noted(Seen{ID: id, Number: n})
		err := d.SkipTo(ctx, id, after, n)
		s.tx.wrote(Seen{ID: id, Number: after}, done, err)
		return err
	})
}

// SkipStateTo is ability.StateSkipper.
func (s *store) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	d, err := offered[ability.StateSkipper](s, valid.Skip("", id, 0, n, s.caps.Limits))
	return do(ctx, s, annals.Call{Op: "skip state", ID: id}, true, err, func(ctx context.Context) error {
		err := d.SkipStateTo(ctx, id, n)
		s.tx.wrote(Seen{ID: id, State: true}, false, err)
		return err
	})
}

// Atomically is ability.Atomic.
func (s *store) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	if s.atomically == nil {
		return s.named(annals.Call{Op: "transaction"}, unclaimed(""))
	}
	return s.atomically(ctx, fn)
}

// FindStates is ability.StateFinder. The Driver checks whether the type has the column.
func (s *store) FindStates(ctx context.Context, entityType, column string, value any) iter.Seq2[annals.State, error] {
	d, err := offered[ability.StateFinder](s, nil)
	return each(ctx, s, annals.Call{Op: "find states"}, err, stateSize, func(ctx context.Context) iter.Seq2[annals.State, error] {
		return d.FindStates(ctx, entityType, column, value)
	})
}

// Forget is ability.Forgetter.
func (s *store) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	d, err := offered[ability.Forgetter](s, valid.Forgetting(f, s.caps.Limits))
	writes := !f.DryRun || !s.readOnly // the Driver of a store that is not for reading may take a lock for both
	return ask(ctx, s, annals.Call{Op: "forget", ID: f.ID}, writes, err, func(ctx context.Context) (bool, error) {
		forgotten, err := d.Forget(ctx, f)
		if forgotten && !f.DryRun {
			s.tx.forgot(f.ID)
		}
		return forgotten, err
	})
}

// Watch is ability.Watcher. The Driver ends the watches that are open when the store is closed.
func (s *store) Watch(ctx context.Context, f annals.Filter) (<-chan annals.SliceRange, error) {
	d, err := offered[ability.Watcher](s, valid.Filter("", f))
	return ask(ctx, s, annals.Call{Op: "watch"}, false, err, func(context.Context) (<-chan annals.SliceRange, error) { return d.Watch(ctx, f) })
}

// Subscribe is ability.Subscriber. The Driver waits for events outside of Fetch, and ends its loops when the store is closed.
func (s *store) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	d, err := offered[ability.Subscriber](s, valid.Subscription(name, f))
	if err == nil && f.Tag != "" && !s.caps.TagQueries {
		err = unclaimed("a subscription by tag")
	}
	if err == nil && s.readOnly {
		err = valid.ErrReadOnly
	}
	return each(ctx, s, annals.Call{Op: "subscribe"}, err, deliverySize, func(ctx context.Context) iter.Seq2[ability.Delivery, error] {
		return func(yield func(ability.Delivery, error) bool) {
			for delivery, err := range d.Subscribe(ctx, name, f) {
				if ack := delivery.Ack; ack != nil {
					delivery.Ack = func(ctx context.Context) error { return do(ctx, s, annals.Call{Op: "acknowledge"}, true, nil, ack) }
				}
				if !yield(delivery, err) {
					return
				}
			}
		}
	})
}

// CheckHealth is ability.HealthChecker.
func (s *store) CheckHealth(ctx context.Context) error {
	d, err := offered[ability.HealthChecker](s, nil)
	return do(ctx, s, annals.Call{Op: "check health"}, false, err, func(ctx context.Context) error { return d.CheckHealth(ctx) })
}
