package aggregate

import (
	"context"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/host"
)

// maxSaves is how many snapshots are saved at the same time. Further ones are left out: later commands take them.
const maxSaves = 16

// saves are the snapshots being saved, one at a time for each entity.
type saves struct {
	mu   sync.Mutex
	done map[annals.PersistenceID]chan struct{}
}

// begin reports whether a snapshot of id may be saved now. The caller calls end when it is.
func (s *saves) begin(id annals.PersistenceID) (end func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done[id] != nil || len(s.done) == maxSaves {
		return nil, false
	}
	done := make(chan struct{})
	s.done[id] = done
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.done, id)
		close(done)
	}, true
}

func (s *saves) underWay() (all []chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, done := range s.done {
		all = append(all, done)
	}
	return all
}

// save saves s concurrently with what the caller does next, because the command is stored and does not depend on the snapshot. Within
// the function of a transaction, which ends with that function and is for one goroutine at a time, save returns when s is saved. When the
// save fails, or is left out because maxSaves others are in progress, a later command takes the next snapshot.
func (r *Repository[C, S, R]) save(ctx context.Context, s host.NewSnapshot) {
	end, ok := r.saves.begin(s.ID)
	if !ok {
		return
	}
	save := func() {
		defer end()
		r.model.SaveSnapshot(context.WithoutCancel(ctx), s)
	}
	if contexts.InTx(ctx, nil) {
		save()
		return
	}
	go save()
}

// Wait returns when the snapshots of the commands answered so far are saved, or with ctx's error when that has ended. Call
// Wait before the process ends or is suspended. A snapshot that is lost is no harm: a later command takes the next one.
func (r *Repository[C, S, R]) Wait(ctx context.Context) error {
	for _, done := range r.saves.underWay() {
		select {
		case <-done:
		case <-ctx.Done():
			return &annals.Error{Op: "wait", Kind: annals.ErrUnavailable, Err: ctx.Err()}
		}
	}
	return nil
}
