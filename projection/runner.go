package projection

import (
	"context"
	"errors"
	"sync"

	"github.com/annals-go/annals"
)

// Runner runs one projection. ExactlyOnce, AtLeastOnce and their grouped variants make one.
type Runner struct {
	name    string
	events  annals.Store
	filter  annals.Filter
	offsets annals.Store
	o       Options
	deliver deliver
}

// deliver handles the events of s and saves its progress. It returns how many of the events were handled and saved. The error is a
// *failure when an event could not be handled, otherwise the store's.
type deliver func(ctx context.Context, s step) (int, error)

func (s Source[E]) filter() annals.Filter { return annals.Filter{Type: s.Type, Tag: s.Tag} }

func newRunner(name string, events annals.Store, f annals.Filter, decodes bool, offsets annals.Store, o Options, d deliver) (*Runner, error) {
	faults := []error{o.faults()}
	switch {
	case name == "":
		faults = append(faults, errors.New("the projection has no name"))
	case events == nil:
		faults = append(faults, errors.New("Source.Store is nil"))
	case !decodes:
		faults = append(faults, errors.New("Source.Codec is nil"))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, invalid(name, err)
	}
	o.setDefaults()
	if most := offsets.Capabilities().Limits.MaxOffsets; most > 0 {
		o.BatchSize = min(o.BatchSize, most)
	}
	return &Runner{name, events, f, offsets, o, d}, nil
}

// Run handles events until ctx ends, and returns nil then. Errors of the stores are logged, and Run goes on after a while: it ends with
// an error only when OnError says Stop, when a store has been closed, or when a store does not support what the projection needs.
func (r *Runner) Run(ctx context.Context) error {
	return ended(ctx, r.run(ctx, func(ctx context.Context, slices annals.SliceRange, epoch int64) error {
		return newWorker(r, slices, epoch, nil).run(ctx)
	}))
}

// CatchUp handles events until everything that was visible when it was called has been handled. When ctx ends before, its error is returned.
func (r *Runner) CatchUp(ctx context.Context) error {
	catching, done := context.WithCancel(ctx)
	defer done()
	var mu sync.Mutex
	left := map[annals.SliceRange]bool{}
	for _, slices := range annals.SliceRanges(r.o.Ranges) {
		left[slices] = true
	}
	err := r.run(catching, func(ctx context.Context, slices annals.SliceRange, epoch int64) error {
		return newWorker(r, slices, epoch, func() {
			mu.Lock()
			defer mu.Unlock()
			if delete(left, slices); len(left) == 0 {
				done()
			}
		}).run(ctx)
	})
	mu.Lock()
	defer mu.Unlock()
	if len(left) == 0 {
		return nil
	}
	return errors.Join(ended(ctx, err), ctx.Err())
}

// ended is err, but nil when it says no more than that ctx ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// run calls work for each range in a goroutine of its own, until all have returned. The first error ends the others.
func (r *Runner) run(ctx context.Context, work func(ctx context.Context, slices annals.SliceRange, epoch int64) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for _, slices := range annals.SliceRanges(r.o.Ranges) {
		workers.Go(func() {
			if err := work(ctx, slices, 0); err != nil {
				cancel(err)
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}
