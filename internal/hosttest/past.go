package hosttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/random"
)

// Past checks LoadAt and LoadAsOf of both hosts on s, which has snapshots: for random histories, with snapshots and with deletes of events that the
// newest snapshot covers, each state of the past is that of its events, or ErrTruncated.
func Past(t *testing.T, s annals.Store) {
	t.Helper()
	random.Each(t, 6, func(t *testing.T, r *random.Source) {
		if err := past(t.Context(), s, r, func(host loader) loader { return host }); err != nil {
			t.Error(err)
		}
	})
}

// list is an entity whose state is all its events.
var list = behavior.EventSourced[[]int, int, []int, int]{
	Type:   "List",
	Decide: func(_ []int, events []int) ([]int, error) { return events, nil },
	Evolve: func(before []int, event int) []int { return append(slices.Clip(before), event) },
	States: codec.JSON[[]int]("list"),
}

// loader is a host of list.
type loader interface {
	Do(ctx context.Context, id string, events []int) (behavior.Result[int], error)
	Load(ctx context.Context, id string) ([]int, annals.SeqNr, error)
	LoadAt(ctx context.Context, id string, n annals.SeqNr) ([]int, annals.SeqNr, error)
	LoadAsOf(ctx context.Context, id string, t time.Time) ([]int, annals.SeqNr, error)
}

// history is what an entity of list has stored and deleted.
type history struct {
	times     []time.Time // of all events
	snapshots []annals.SeqNr
	deleted   annals.SeqNr // the last number that was deleted
}

// loadable reports whether the state after event n can be loaded. By time, the event after it is needed, too.
func (h history) loadable(n annals.SeqNr, timed bool) bool {
	base := annals.SeqNr(0)
	for _, at := range h.snapshots {
		if at <= n {
			base = at
		}
	}
	return h.deleted <= base || !timed && n == base
}

// past writes an entity, and checks what as makes of its hosts.
func past(ctx context.Context, s annals.Store, r *random.Source, as func(host loader) loader) error {
	caps := s.Capabilities()
	repository, err := aggregate.New(s, list, aggregate.Options{})
	if err != nil {
		return err
	}
	runtime, err := entity.New(s, list, entity.Options{})
	if err != nil {
		return err
	}
	hosts := []loader{repository, runtime}
	id := fmt.Sprint("past-", r.Seed)
	pid := annals.NewPersistenceID("List", id)
	var h history
	for range 8 {
		events := make([]int, 1+r.IntN(3))
		for i := range events {
			events[i] = len(h.times) + i + 1
		}
		if _, err := random.OneOf(r, hosts...).Do(ctx, id, events); err != nil {
			return err
		}
		for e, err := range s.Journal().Replay(ctx, pid, annals.SeqNr(len(h.times)+1), annals.MaxSeqNr) {
			if err != nil {
				return err
			}
			h.times = append(h.times, e.Time)
		}
		last := annals.SeqNr(len(h.times))
		if at := last - annals.SeqNr(r.IntN(2)); r.OneIn(2) && at > 0 && (len(h.snapshots) == 0 || at > h.snapshots[len(h.snapshots)-1]) {
			state, _, err := repository.LoadAt(ctx, id, at)
			if err != nil {
				return err
			}
			if err := saveSnapshot(ctx, s, annals.Snapshot{ID: pid, SeqNr: at, Time: h.times[at-1]}, state); err != nil {
				return err
			}
			if !caps.ManySnapshots {
				h.snapshots = nil
			}
			h.snapshots = append(h.snapshots, at)
		}
		if n := len(h.snapshots); n > 0 && r.OneIn(3) {
			h.deleted = max(h.deleted, random.OneOf(r, h.snapshots...)-annals.SeqNr(r.IntN(2)))
			if err := s.Journal().DeleteTo(ctx, pid, h.deleted); err != nil {
				return err
			}
		}
		host := as(random.OneOf(r, hosts...)) // both ask package host
		if err := errors.Join(h.check(ctx, host, id), h.checkTimes(ctx, host, id, caps)); err != nil {
			return fmt.Errorf("%T with %d events, snapshots %v, deleted to %d: %w", host, last, h.snapshots, h.deleted, err)
		}
	}
	return runtime.Shutdown(ctx)
}

func saveSnapshot(ctx context.Context, s annals.Store, snapshot annals.Snapshot, state []int) (err error) {
	if snapshot.Payload, err = list.States.Encode(state); err != nil {
		return err
	}
	return s.Snapshots().Save(ctx, snapshot)
}

// check compares each number. The newest state is not disturbed.
func (h history) check(ctx context.Context, host loader, id string) error {
	last := annals.SeqNr(len(h.times))
	for n := range last + 1 {
		got, number, err := host.LoadAt(ctx, id, n)
		if err := h.compare(n, n == 0 || h.loadable(n, false), got, number, err); err != nil {
			return fmt.Errorf("LoadAt(%d): %w", n, err)
		}
	}
	for _, n := range []annals.SeqNr{-1, last + 1} {
		if _, _, err := host.LoadAt(ctx, id, n); !errors.Is(err, annals.ErrInvalid) {
			return fmt.Errorf("LoadAt(%d): %w, want ErrInvalid", n, err)
		}
	}
	got, number, err := host.Load(ctx, id)
	if err := h.compare(last, true, got, number, err); err != nil {
		return fmt.Errorf("Load: %w", err)
	}
	return nil
}

// checkTimes compares the time of each event, and one before and after all.
func (h history) checkTimes(ctx context.Context, host loader, id string, caps annals.Capabilities) error {
	if !caps.Times {
		if _, _, err := host.LoadAsOf(ctx, id, time.Now()); !errors.Is(err, annals.ErrUnsupported) {
			return fmt.Errorf("LoadAsOf without times: %w", err)
		}
		return nil
	}
	for _, at := range append(slices.Clone(h.times), time.Time{}, h.times[0].Add(-time.Millisecond), h.times[len(h.times)-1].Add(time.Hour)) {
		n := annals.SeqNr(0)
		for i, stored := range h.times {
			if !stored.After(at) {
				n = annals.SeqNr(i + 1)
			}
		}
		got, number, err := host.LoadAsOf(ctx, id, at)
		if err := h.compare(n, h.loadable(n, true), got, number, err); err != nil {
			return fmt.Errorf("LoadAsOf(%v), after event %d: %w", at, n, err)
		}
	}
	return nil
}

// compare compares a state with the events up to n.
func (h history) compare(n annals.SeqNr, known bool, got []int, number annals.SeqNr, err error) error {
	switch {
	case !known && errors.Is(err, annals.ErrTruncated):
		return nil
	case err != nil || !known:
		return fmt.Errorf("state %v, number %d, %w, is known: %v", got, number, err, known)
	case number != n || len(got) != int(n):
		return fmt.Errorf("state %v, number %d, want the events to %d", got, number, n)
	}
	for i := range got {
		if got[i] != i+1 {
			return fmt.Errorf("state %v, want the events to %d", got, n)
		}
	}
	return nil
}
