package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/internal/calendar"
	"github.com/annals-go/annals/projection"
)

// Runner runs a Process. Its methods may be called from many goroutines at once.
type Runner[E, S any] struct {
	p          Process[E, S]
	o          Options
	store      annals.Store
	instances  *aggregate.Repository[turn, instance[S], bool]
	calendar   *calendar.Calendar
	sources    map[string]Source // by their type of entities
	recipients map[string]Recipients
	inputs     []*projection.Runner
	outputs    *projection.Runner

	results results
	stored  atomic.Int64 // counts steps
	parked  atomic.Bool  // something was parked since the last look
}

// New returns a Runner of p, whose instances, positions and timers are in store. Events come from sources, and commands go to the targets of
// to. A source has a type of entities of its own. ErrInvalid reports all faults at once; ErrUnsupported means that a store lacks what is needed:
// see docs/claims.md.
func New[E, S any](store annals.Store, p Process[E, S], sources []Source, to []Recipients, o Options) (*Runner[E, S], error) {
	faults := []error{p.Validate(), o.setDefaults()}
	r := &Runner[E, S]{p: p, o: o, store: store, sources: map[string]Source{}, recipients: map[string]Recipients{}}
	for _, s := range sources {
		if _, twice := r.sources[s.entities]; twice || s.entities == p.Type {
			s.faults = errors.Join(s.faults, fmt.Errorf("there are two sources %q, or it is the process itself", s.entities))
		}
		r.sources[s.entities] = s
		faults = append(faults, s.faults)
	}
	for _, t := range to {
		if _, twice := r.recipients[t.name]; twice && t.faults == nil {
			t.faults = fmt.Errorf("there are two targets %q", t.name)
		}
		r.recipients[t.name] = t
		faults = append(faults, t.faults)
	}
	if len(sources) == 0 {
		faults = append(faults, errors.New("there are no sources"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, &annals.Error{Op: "process.New", Kind: annals.ErrInvalid, Err: err}
	}
	var err error
	if r.instances, err = aggregate.New(store, p.behavior(), o.aggregate()); err != nil {
		return nil, err
	}
	if r.calendar, err = calendar.New(store, p.Type, calendar.Options{Precision: o.Precision, Lease: o.Lease, Logger: o.Logger}); err != nil {
		return nil, err
	}
	own := projection.Source[*step]{Store: store, Type: p.Type, Codec: stepsOnly{}}
	if r.outputs, err = projection.AtLeastOnceGrouped(p.Type+"/steps", own, store, r.carryOut, o.projection(store, annals.Offset{}, r.park)); err != nil {
		return nil, err
	}
	for _, s := range sources {
		in, err := s.follow(p.Type+"/from/"+s.entities, store, r.handAll, o.projection(s.store, o.From, r.parkInput))
		if err != nil {
			return nil, err
		}
		r.inputs = append(r.inputs, in)
	}
	return r, nil
}

// Run works until ctx ends, and returns nil then. Other errors are those of projection.Runner.Run.
func (r *Runner[E, S]) Run(ctx context.Context) error {
	working, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var parts sync.WaitGroup
	run := func(part func(context.Context) error) {
		parts.Go(func() {
			if err := part(working); err != nil {
				stop(err)
			}
		})
	}
	for _, in := range r.inputs {
		run(in.Run)
	}
	run(r.outputs.Run)
	run(func(ctx context.Context) error { return r.calendar.Run(ctx, r.fire) })
	run(r.retries)
	parts.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(working)
}

// Settle works until there is nothing left to do now: all events that were visible are handled, the commands sent, and the timers fired that
// are due. What is parked, or becomes parked, is left. Settle is for programs that run once and then end, and for tests.
func (r *Runner[E, S]) Settle(ctx context.Context) error {
	for before, stored := (annals.Offset{}), int64(-1); ; {
		for _, in := range r.inputs {
			if err := in.CatchUp(ctx); err != nil {
				return err
			}
		}
		if err := r.calendar.CatchUp(ctx, r.fire); err != nil {
			return err
		}
		// Other Runners store steps, too. All were carried out when there is no new one, and what they have caused was handled since.
		newest, err := r.store.Query().Newest(ctx, annals.Filter{Type: r.p.Type})
		if err != nil || newest.Compare(before) == 0 && r.stored.Load() == stored {
			return err
		}
		before, stored = newest, r.stored.Load()
		if err := r.outputs.CatchUp(ctx); err != nil {
			return err
		}
	}
}

// Load returns what the instance id has stored. The state is the caller's.
func (r *Runner[E, S]) Load(ctx context.Context, id string) (Instance[S], error) {
	n, at, err := r.instances.Load(ctx, id)
	return n.public(at), err
}

// Control returns the Control of what instances send: it shows which of them are parked, because an input or a command of theirs fails, and
// retries them. Its entities are the instances. Discard leaves out commands and timers of steps. Reset sends all commands after the offset again, with
// the same ids: use it only while the recipients recognise them. What is noted as executed does not count then, so while a command of an instance fails, those beside
// it are sent again with each retry, also when the recipients do not recognise them any more: they execute them again. Discard in time what goes on to fail.
// Of an instance that is parked when Reset is called, it counts for the steps that wait: what is noted of them is not sent again. Reset again when they have been
// carried out.
func (r *Runner[E, S]) Control() *projection.Control { return r.outputs.Control() }

// Inputs returns the Controls of what reads the sources, in their order. Their entities are those of the sources. One is parked only when an
// event of it cannot be decoded, or when its instance can neither be read nor written. Reset hands over events again. Those that an instance has
// handled have no effect; but an instance that was forgotten begins again.
func (r *Runner[E, S]) Inputs() []*projection.Control {
	all := make([]*projection.Control, len(r.inputs))
	for i, in := range r.inputs {
		all[i] = in.Control()
	}
	return all
}
