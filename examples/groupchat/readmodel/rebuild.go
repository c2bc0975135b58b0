package readmodel

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
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
	old, err := m.runner(journal, current, o)
	if err != nil {
		return err
	}
	if _, err := old.Control().Status(ctx, journal); errors.Is(err, annals.ErrInvalid) { // it has not been run yet
		if err := old.CatchUp(ctx); err != nil {
			return err
		}
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
	return m.deleteOld(ctx)
}

func (m *Model) newGeneration(ctx context.Context) (n int64, err error) {
	err = m.inTx(ctx, func(ctx context.Context, exec exec) error {
		_, err := exec(ctx, `UPDATE chat_generation SET newest = newest + 1`)
		return err
	})
	if err != nil {
		return 0, err
	}
	err = m.read(ctx, func(scan scan) error { return scan(&n) }, `SELECT newest FROM chat_generation`)
	return n, err
}

func (m *Model) switchOver(ctx context.Context, from, to int64) error {
	return m.inTx(ctx, func(ctx context.Context, exec exec) error {
		n, err := exec(ctx, `UPDATE chat_generation SET current = $1 WHERE current IN ($1, $2)`, to, from)
		if err == nil && n == 0 {
			err = errors.New("another program has rebuilt the read model meanwhile")
		}
		return err
	})
}

// deleteOld deletes the rows of generations before the current one, one thread in each transaction.
func (m *Model) deleteOld(ctx context.Context) error {
	for {
		type old struct {
			generation int64
			thread     string
		}
		var some []old
		err := m.read(ctx, func(scan scan) error {
			some = append(some, old{})
			last := &some[len(some)-1]
			return scan(&last.generation, &last.thread)
		}, `SELECT generation, thread FROM chat_thread WHERE generation < `+currentGeneration+` LIMIT 1000`)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, t := range some {
			err := m.inTx(ctx, func(ctx context.Context, exec exec) error {
				for _, text := range []string{deleteThread, deleteMembers, deleteMessages} {
					if _, err := exec(ctx, text, t.generation, t.thread); err != nil {
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
