package entity

import (
	"context"
	"log/slog"

	"github.com/annals-go/annals/internal/host"
)

// save stores s and deletes what s makes superfluous, on a goroutine of its own and with the values of ctx. No command depends on s: when
// the save fails, the next snapshot is taken SnapshotEvery events later.
func (e *entity[C, S, R]) save(ctx context.Context, s host.NewSnapshot) {
	e.mu.Lock()
	e.saving = true
	e.mu.Unlock()
	go func() {
		r := e.runtime
		ctx, cancel := context.WithTimeout(host.WithValues(r.base, ctx), r.o.WriteTimeout)
		defer cancel()
		if err := r.model.SaveSnapshot(ctx, s); err != nil {
			r.o.Logger.LogAttrs(ctx, slog.LevelWarn, "annals: snapshot not saved or not cleaned up after",
				slog.String("id", string(s.ID)), slog.Int64("seq_nr", int64(s.SeqNr)), slog.Any("error", err))
		}
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
