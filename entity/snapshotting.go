package entity

import (
	"context"

	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/host"
)

// save stores s and deletes what s makes superfluous, on a goroutine of its own and with the values of ctx. No command depends on s: when
// the save fails, the next snapshot is taken SnapshotEvery events later.
func (e *entity[C, S, R]) save(ctx context.Context, s host.NewSnapshot) {
	e.mu.Lock()
	e.saving = true
	e.mu.Unlock()
	go func() {
		e.runtime.model.SaveSnapshot(contexts.WithValues(e.runtime.base, ctx), s)
		e.mu.Lock()
		e.saving = false
		work := !e.working && !e.writing
		e.working = e.working || work
		e.mu.Unlock()
		if work {
			e.work()
		}
	}()
}
