package driver

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
)

// unclaimed is the error of what a store does not claim, or of an ability that its Driver lacks.
func unclaimed(what string) error {
	if what == "" {
		return &annals.Error{Kind: annals.ErrUnsupported}
	}
	return &annals.Error{Kind: annals.ErrUnsupported, Err: errors.New(what)}
}

// ability is the Driver as a T. The error is ErrUnsupported when it is none, else fault.
func ability[T any](s *Store, fault error) (T, error) {
	d, ok := s.driver.(T)
	if !ok {
		return d, unclaimed("")
	}
	return d, fault
}

// Recover is annals.Recoverer.
func Recover(ctx context.Context, s *Store, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (last annals.SeqNr, err error) {
	k := s.start(ctx, annals.Call{Op: "recover", ID: id})
	defer k.end(&err)
	d, err := ability[annals.Recoverer](s, id.ValidateRead(k.Op, s.caps.Limits))
	if err == nil {
		err = k.goesOn()
	}
	if err != nil {
		return 0, err
	}
	k.streams()
	return d.Recover(k.in, id, func(s annals.Snapshot) error {
		k.moved(0, snapshotSize(s))
		k.own = snapshot(s)
		return k.own
	}, func(e annals.Event) error {
		k.moved(eventSize(e))
		k.own = event(e)
		return k.own
	})
}

// SkipTo is annals.Skipper.
func SkipTo(ctx context.Context, s *Store, id annals.PersistenceID, n annals.SeqNr) (err error) {
	k := s.start(ctx, annals.Call{Op: "skip", ID: id})
	defer k.end(&err)
	d, err := ability[annals.Skipper](s, id.ValidateSkip(k.Op, n, s.caps.Limits))
	if err := k.writes(err); err != nil {
		return err
	}
	return d.SkipTo(k.in, id, n)
}

// SkipStateTo is annals.StateSkipper.
func SkipStateTo(ctx context.Context, s *Store, id annals.PersistenceID, n annals.SeqNr) (err error) {
	k := s.start(ctx, annals.Call{Op: "skip state", ID: id})
	defer k.end(&err)
	d, err := ability[annals.StateSkipper](s, id.ValidateSkip(k.Op, n, s.caps.Limits))
	if err := k.writes(err); err != nil {
		return err
	}
	return d.SkipStateTo(k.in, id, n)
}

// FindStates is annals.StateFinder. Whether the type has the column is the Driver's to say.
func FindStates(ctx context.Context, s *Store, entityType, column string, value any) iter.Seq2[annals.State, error] {
	d, err := ability[annals.StateFinder](s, nil)
	return each(ctx, s, annals.Call{Op: "find states"}, err, stateSize, func(ctx context.Context) iter.Seq2[annals.State, error] {
		return d.FindStates(ctx, entityType, column, value)
	})
}

// Forget is annals.Forgetter.
func Forget(ctx context.Context, s *Store, f annals.Forgetting) (ok bool, err error) {
	k := s.start(ctx, annals.Call{Op: "forget", ID: f.ID})
	defer k.end(&err)
	d, err := ability[annals.Forgetter](s, f.Validate(s.caps.Limits))
	if err == nil && !s.caps.Forgets {
		err = unclaimed("")
	}
	if err := k.writes(err); err != nil {
		return false, err
	}
	return d.Forget(k.in, f)
}

// Watch is annals.Watcher. Watches that are open when the store is closed are the Driver's to end.
func Watch(ctx context.Context, s *Store, f annals.Filter) (signals <-chan struct{}, err error) {
	k := s.start(ctx, annals.Call{Op: "watch"})
	defer k.end(&err)
	d, err := ability[annals.Watcher](s, f.Validate(k.Op))
	if err := k.read(err); err != nil {
		return nil, err
	}
	return d.Watch(ctx, f)
}

// CheckHealth is annals.HealthChecker.
func CheckHealth(ctx context.Context, s *Store) (err error) {
	k := s.start(ctx, annals.Call{Op: "check health"})
	defer k.end(&err)
	d, err := ability[annals.HealthChecker](s, nil)
	if err := k.read(err); err != nil {
		return err
	}
	return d.CheckHealth(k.in)
}
