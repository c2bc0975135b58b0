package hosttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
)

// Retention checks on s that both hosts delete no event that one of Options.Projections has not handled, and that they delete it with
// a later snapshot, when all of them have. A store without offsets must be refused.
func Retention(t *testing.T, s annals.Store) {
	t.Helper()
	for host := range deleters {
		t.Run(host, func(t *testing.T) {
			if err := retention(t.Context(), s, host); err != nil {
				t.Error(err)
			}
		})
	}
}

// deleters start a host of depositor that deletes events which all projections have handled, make one deposit to the entity, and return
// when its snapshot is saved.
var deleters = map[string]func(ctx context.Context, s annals.Store, id string, projections []string) error{
	"entity": func(ctx context.Context, s annals.Store, id string, projections []string) error {
		rt, err := entity.New(s, depositor, entity.Options{DeleteEvents: true, SingleOwner: true, Projections: projections, Logger: discard})
		if err != nil {
			return err
		}
		_, err = rt.Ask(ctx, id, 1)
		return errors.Join(err, rt.Shutdown(ctx))
	},
	"aggregate": func(ctx context.Context, s annals.Store, id string, projections []string) error {
		r, err := aggregate.New(s, depositor, aggregate.Options{DeleteEvents: true, SingleOwner: true, Projections: projections, Logger: discard})
		if err != nil {
			return err
		}
		_, err = r.Ask(ctx, id, 1)
		return errors.Join(err, r.Wait(ctx))
	},
}

var discard = slog.New(slog.DiscardHandler)

// depositor is account with a snapshot after every event.
var depositor = func() behavior.EventSourced[int, int, int, int] {
	b := account
	b.Type, b.SnapshotEvery = "Retention", 1
	return b
}()

func retention(ctx context.Context, s annals.Store, host string) error {
	id := host
	if !s.Capabilities().Offsets {
		if err := deleters[host](ctx, s, id, []string{"list"}); !errors.Is(err, annals.ErrUnsupported) {
			return fmt.Errorf("a store without offsets: %v, want ErrUnsupported", err)
		}
		return nil
	}
	pid := annals.NewPersistenceID("Retention", id)
	failing := failingOffsets{s}
	both := []string{host + " list", host + " count"}
	list, count := both[0], both[1]
	for i, step := range []struct {
		store       annals.Store
		handled     map[string]annals.SeqNr // before the deposit
		projections []string
		first       annals.SeqNr // that is left after it
	}{
		{store: s, projections: both, first: 1},
		{store: s, handled: map[string]annals.SeqNr{list: 1}, projections: both, first: 1}, // count is not known
		{store: s, handled: map[string]annals.SeqNr{list: 2, count: 1}, projections: both, first: 2},
		{store: failing, handled: map[string]annals.SeqNr{list: 3, count: 3}, projections: both, first: 2},
		{store: s, projections: append(slices.Clone(both), "unknown"), first: 2},
		{store: s, projections: both, first: 4},
		{store: s, handled: map[string]annals.SeqNr{list: 6, count: 5}, projections: both, first: 6},
		{store: s, projections: []string{list}, first: 7},
		{store: s, first: 0}, // without projections nothing is waited for
	} {
		for projection, n := range step.handled {
			if err := handle(ctx, s, projection, pid, n); err != nil {
				return fmt.Errorf("projection %q, event %d: %w", projection, n, err)
			}
		}
		if err := deleters[host](ctx, step.store, id, step.projections); err != nil {
			return err
		}
		n := annals.SeqNr(i + 1)
		snapshot, ok, err := s.Snapshots().Latest(ctx, pid, annals.SnapshotCriteria{})
		if err != nil || !ok || snapshot.SeqNr != n {
			return fmt.Errorf("the newest snapshot is %d, %v, error %v, want %d", snapshot.SeqNr, ok, err, n)
		}
		first, err := firstEvent(ctx, s, pid)
		if err != nil || first != step.first {
			return fmt.Errorf("after snapshot %d event %d is the first, error %v, want %d", n, first, err, step.first)
		}
	}
	return nil
}

// handle stores that a projection has handled event n.
func handle(ctx context.Context, s annals.Store, projection string, id annals.PersistenceID, n annals.SeqNr) error {
	for e, err := range s.Journal().Replay(ctx, id, n, n) {
		if err != nil {
			return err
		}
		return s.Offsets().Save(ctx, annals.Progress{Projection: projection, Offsets: []annals.Offset{e.Offset()}})
	}
	return errors.New("the event is not there")
}

// firstEvent is the number of the first event that is not deleted, 0 when there is none.
func firstEvent(ctx context.Context, s annals.Store, id annals.PersistenceID) (annals.SeqNr, error) {
	for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
		return e.SeqNr, err
	}
	return 0, nil
}

// failingOffsets cannot read the offsets of projections.
type failingOffsets struct{ annals.Store }

func (s failingOffsets) Offsets() annals.OffsetStore { return unreadableOffsets{s.Store.Offsets()} }

type unreadableOffsets struct{ annals.OffsetStore }

func (unreadableOffsets) Handled(_ context.Context, _ string, ids ...annals.PersistenceID) ([]annals.Offset, error) {
	// The number is that of an event that would be deleted if the error were not looked at.
	return []annals.Offset{{ID: ids[0], SeqNr: annals.MaxSeqNr}}, &annals.Error{Op: "load offsets", ID: ids[0], Kind: annals.ErrUnavailable}
}
