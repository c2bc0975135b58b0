package projection

import (
	"context"
	"errors"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// Rebuild replaces a projection and its read model by new ones, which are built while the old ones are in use.
type Rebuild struct {
	Old *Control // the projection in use
	// Next is a Runner of the new projection, which has another name and writes to another read model. It may be running, in other
	// processes too.
	Next *Runner
	// SwitchOver makes the readers use the new read model, all at once. It may be called again after it has failed. While it runs, the new
	// read model holds all events that the old one does, and perhaps newer ones.
	SwitchOver func(ctx context.Context) error
	// Progress is called every 5 seconds with the Status of Next while Next catches up, one call at a time. A panic in it is a failure. It may be
	// nil.
	Progress func(Status)
}

const (
	progressEvery = 5 * time.Second
	short         = 5 * time.Second // a round of catching up after which the old projection is paused
	maxRounds     = 10
)

// Run has Next catch up while the old projection goes on, in several rounds. Then it pauses the old projection, has Next catch up with the
// rest, and calls SwitchOver. Afterwards the old projection stays paused; run Next from then on. When something fails before SwitchOver has
// returned nil, the old projection is resumed, and the error is returned: Run may be called again and continues. When the process ends in
// between, call Run again, or resume the old projection.
//
// Next hands over with Envelope.Rebuilding what the old projection had handled when Run looked last: at its beginning, every 5 seconds while
// Next catches up, and when the old projection is paused. An event that both projections handle between two looks is in both without
// Rebuilding, so that others are told of it twice rather than never. Runners of Next in other processes know it some seconds later; those that
// run before Run is called do not know it at all.
func (r Rebuild) Run(ctx context.Context) error {
	if err := r.fault(); err != nil {
		return err
	}
	if err := r.look(ctx); err != nil {
		return err
	}
	for range maxRounds {
		began := time.Now()
		if err := r.catchUp(ctx); err != nil {
			return err
		}
		if time.Since(began) < short {
			break
		}
	}
	before, err := r.Old.ran(ctx, "rebuild")
	if err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{r.Old.Pause, r.look, r.catchUp, r.switchOver} {
		if err = step(ctx); err != nil {
			break
		}
	}
	if err == nil || before.Paused {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTimeout)
	defer cancel()
	return errors.Join(err, r.Old.Resume(ctx))
}

func (r Rebuild) switchOver(ctx context.Context) error {
	return panics.Contain("switch over", "", func() error { return r.SwitchOver(ctx) })
}

func (r Rebuild) fault() error {
	var err error
	switch {
	case r.Old == nil || r.Next == nil || r.SwitchOver == nil:
		err = errors.New("Old, Next or SwitchOver is missing")
	case r.Old.name == r.Next.name:
		err = errors.New("the new projection has the name of the old one")
	default:
		return nil
	}
	return &annals.Error{Op: "rebuild a projection", Kind: annals.ErrInvalid, Err: err}
}

// look makes what the old projection has handled the past of the new one.
func (r Rebuild) look(ctx context.Context) error {
	next, err := r.Next.begin(ctx)
	if err != nil {
		return err
	}
	if err := r.Old.keepPast(ctx, r.Next.offsets, r.Next.name, next); err != nil {
		return err
	}
	return r.Next.Control().ordered(ctx, "rebuild")
}

// catchUp has Next catch up, looks at the old projection, and reports how far Next is.
func (r Rebuild) catchUp(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	result := make(chan error, 1)
	go func() { result <- r.Next.CatchUp(ctx) }()
	every := time.NewTicker(progressEvery)
	defer every.Stop()
	for {
		select {
		case err := <-result:
			return err
		case <-every.C:
			_ = r.look(ctx) // or at the next time
			if r.Progress == nil {
				continue
			}
			if s, err := r.Next.Control().Status(ctx, r.Next.stream.store); err == nil {
				if err := panics.Contain("report progress", "", func() error { r.Progress(s); return nil }); err != nil {
					end()
					<-result
					return err
				}
			}
		}
	}
}
