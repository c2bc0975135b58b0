package readmodel

import (
	"context"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/projection"
)

// Run follows the events of all threads in a journal until ctx ends, and returns nil then. Several processes may run it: they share the
// work. Where the journal pushes its events and cannot be queried, only the Logger of o is used.
func (m *Model) Run(ctx context.Context, journal annals.Store, o projection.Options) error {
	generation, err := m.generation(ctx)
	for err == nil && ctx.Err() == nil {
		generation, err = m.runGeneration(ctx, journal, generation, o)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// runGeneration runs until another generation is the current one, which it returns, or ctx ends.
func (m *Model) runGeneration(ctx context.Context, journal annals.Store, generation int64, o projection.Options) (next int64, err error) {
	run, err := m.follower(journal, generation, o)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	replaced := make(chan int64, 1)
	go func() {
		defer stop()
		replaced <- m.awaitNext(ctx, generation)
	}()
	err = run(ctx)
	stop()
	return <-replaced, err
}

// follower returns what keeps a generation up to date until its context ends.
func (m *Model) follower(journal annals.Store, generation int64, o projection.Options) (run func(ctx context.Context) error, err error) {
	if pushing, ok := subscriber(journal); ok {
		return m.updater(pushing, generation, o).run, nil
	}
	runner, err := m.runner(journal, generation, o)
	if err != nil {
		return nil, err
	}
	return runner.Run, nil
}

// awaitNext returns when another generation is the current one, or ctx ends.
func (m *Model) awaitNext(ctx context.Context, generation int64) int64 {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return generation
		case <-look.C:
		}
		if next, err := m.generation(ctx); err == nil && next != generation {
			return next
		}
	}
}

// CatchUp returns when the read model has all events that are in the journal now. The journal has to be one that
// can be queried.
func (m *Model) CatchUp(ctx context.Context, journal annals.Store, o projection.Options) error {
	generation, err := m.generation(ctx)
	if err != nil {
		return err
	}
	runner, err := m.runner(journal, generation, o)
	if err != nil {
		return err
	}
	return runner.CatchUp(ctx)
}

// source is what the read model follows.
func source(journal annals.Store) projection.Source[chat.Event] {
	return projection.Source[chat.Event]{Store: journal, Type: chat.Behavior.Type, Codec: chat.Events}
}

// projectionOf is the name of the projection that writes a generation.
func projectionOf(generation int64) string { return fmt.Sprintf("chat-readmodel-%d", generation) }
