package readmodel

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqltx"
)

// Rebuild builds a new generation from the first event on, while the current one is read and kept up to date, and then makes it the
// current one. Servers that run the model go on with it within a second. The rows of older generations are deleted. progress is told
// every few seconds how many events are left; it may be nil.
//
// When Rebuild fails, the current generation is used as before. When the program is killed, the current generation may have been paused:
// then rebuild again, which begins anew.
func (m *Model) Rebuild(ctx context.Context, journal annals.Store, o projection.Options, progress func(projection.Status)) error {
	current, err := m.generation(ctx)
	if err != nil {
		return err
	}
	if pushing, ok := subscriber(journal); ok {
		return m.rebuildPushed(ctx, pushing, current, o, progress)
	}
	old, err := m.runner(journal, current, o)
	if err != nil {
		return err
	}
	status, err := old.Control().Status(ctx, journal)
	if err == nil && len(status.Ranges) == 0 { // it has not been run yet
		err = old.CatchUp(ctx)
	}
	if err != nil {
		return err
	}
	generation, err := m.newGeneration(ctx)
	if err != nil {
		return err
	}
	next, err := m.runner(journal, generation, o)
	if err != nil {
		return err
	}
	switchOver := func(ctx context.Context) error { return m.switchOver(ctx, current, generation) }
	if err := (projection.Rebuild{Old: old.Control(), Next: next, SwitchOver: switchOver, Progress: progress}).Run(ctx); err != nil {
		return err
	}
	return m.deleteBefore(ctx, generation)
}

// rebuildPushed is Rebuild for a journal that pushes its events. A new subscription begins with all events. The new generation becomes
// the current one when it has handled as much of every thread as the current one, which is not paused. So what is read can go back by the
// events of a moment. The rows of the generation before are deleted by the next rebuild, because servers write them for a second more.
func (m *Model) rebuildPushed(ctx context.Context, journal ability.Subscriber, current int64, o projection.Options, progress func(projection.Status)) error {
	generation, err := m.newGeneration(ctx)
	if err != nil {
		return err
	}
	if err := m.build(ctx, m.updater(journal, generation, o), current, progress); err != nil {
		return err
	}
	return m.deleteBefore(ctx, current)
}

// build runs next until its generation can replace the current one, and switches over.
func (m *Model) build(ctx context.Context, next updater, current int64, progress func(projection.Status)) error {
	ctx, stop := context.WithCancelCause(ctx)
	var updating sync.WaitGroup
	defer updating.Wait()
	defer stop(nil)
	updating.Go(func() { stop(next.run(ctx)) })
	for range 2 { // the first time takes long, and the current generation goes on meanwhile
		if err := m.reach(ctx, current, next.generation, progress); err != nil {
			return err
		}
	}
	return m.switchOver(ctx, current, next.generation)
}

// reach waits until the generation next has handled at least what the current one has handled when reach is called.
func (m *Model) reach(ctx context.Context, current, next int64, progress func(projection.Status)) error {
	want, err := m.handled(ctx, current)
	if err != nil {
		return err
	}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for told := time.Now(); ; {
		have, err := m.handled(ctx, next)
		if err != nil {
			return err
		}
		left := 0
		for thread, n := range want {
			left += int(max(0, n-have[thread]))
		}
		if left == 0 {
			return nil
		}
		if progress != nil && time.Since(told) > 3*time.Second {
			told = time.Now()
			progress(projection.Status{Lag: left})
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (m *Model) newGeneration(ctx context.Context) (n int64, err error) {
	err = m.inTx(ctx, func(ctx context.Context, tx sqltx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE chat_generation SET newest = newest + 1`); err != nil {
			return err
		}
		return tx.Query(ctx, func(scan func(...any) error) error { return scan(&n) }, `SELECT newest FROM chat_generation`)
	})
	return n, err
}

func (m *Model) switchOver(ctx context.Context, from, to int64) error {
	return m.inTx(ctx, func(ctx context.Context, tx sqltx.Tx) error {
		n, err := tx.Exec(ctx, `UPDATE chat_generation SET current = $1 WHERE current IN ($1, $2)`, to, from)
		if err == nil && n == 0 {
			err = errors.New("another program has rebuilt the read model meanwhile")
		}
		return err
	})
}

// deleteBefore deletes the rows of generations before first, one thread in each transaction.
func (m *Model) deleteBefore(ctx context.Context, first int64) error {
	err := m.inTx(ctx, func(ctx context.Context, tx sqltx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM chat_handled WHERE generation < $1`, first)
		return err
	})
	if err != nil {
		return err
	}
	for {
		type old struct {
			generation int64
			thread     string
		}
		var some []old
		err := m.in.Read(ctx, func(scan func(...any) error) error {
			some = append(some, old{})
			last := &some[len(some)-1]
			return scan(&last.generation, &last.thread)
		}, `SELECT generation, thread FROM chat_thread WHERE generation < $1 LIMIT 1000`, first)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, t := range some {
			err := m.inTx(ctx, func(ctx context.Context, tx sqltx.Tx) error {
				for _, text := range []string{deleteThread, deleteMembers, deleteMessages} {
					if _, err := tx.Exec(ctx, text, t.generation, t.thread); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
}
