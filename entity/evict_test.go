package entity_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/entity"
)

// forget removes the account "a" from the store.
func forget(s annals.Store) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		const id = "Account|a"
		last, err := s.Journal().LastSeqNr(ctx, id)
		if err != nil {
			return err
		}
		state, ok, err := s.States().Get(ctx, id)
		if err == nil && ok {
			_, err = s.States().Delete(ctx, annals.StateWrite{ID: id, After: state.Revision})
		}
		err = errors.Join(err, s.Journal().DeleteTo(ctx, id, last), s.Snapshots().Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}))
		if err == nil {
			f, without := ability.Of[ability.Forgetter](s)
			if without != nil {
				return without
			}
			var done bool
			if done, err = f.Forget(ctx, ability.Forgetting{ID: id}); !done {
				err = errors.Join(err, errors.New("not forgotten"))
			}
		}
		return err
	}
}

// Evict waits for the commands and the write before it. Commands after it wait for Evict. An entity that was forgotten does not come back.
func TestEvict(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt := start(s, entity.Options{SingleOwner: true})
		mustAsk(t, rt, 5, 5)
		g, first := held(t, s, rt, 10)
		second := ask(t.Context(), rt, 10)
		synctest.Wait()
		began, goOn, evicted := false, make(chan struct{}), make(chan error, 1)
		go func() {
			evicted <- rt.Evict(t.Context(), "a", func(ctx context.Context) error {
				began = true
				<-goOn
				return forget(s.mem)(ctx)
			})
		}()
		synctest.Wait()
		later := ask(t.Context(), rt, 1)
		read := view(t.Context(), rt)
		synctest.Wait()
		g.pass()
		answered(t, first, 15, nil)
		if began {
			t.Error("Evict did not wait for the command that was decided before it")
		}
		g.pass()
		answered(t, second, 25, nil)
		if !began {
			t.Error("Evict does not begin")
		}
		s.heal()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := rt.Ask(ctx, "a", 1); !errors.Is(err, annals.ErrUnavailable) {
			t.Errorf("%v of a command during Evict, want that it waited in vain", err)
		}
		unanswered(t, later)
		close(goOn)
		if err := <-evicted; err != nil {
			t.Error(err)
		}
		answered(t, later, 1, nil)
		if got := <-read; got.err != nil || got.number > 1 {
			t.Errorf("saw %+v of a forgotten entity", got)
		}
		mustView(t, rt, 1, 1)
		if err := rt.Evict(t.Context(), "absent", nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s := rt.Stats(); s != (entity.Stats{Entities: 1, Evicted: 1}) {
			t.Errorf("%+v", s)
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Evict waits until no snapshot is being saved: one that was saved late would bring a forgotten entity back.
func TestEvictWaitsForTheSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, goOn := newHooked(), make(chan struct{})
		s.save = func(_ context.Context, _ annals.Snapshot, next func() error) error {
			<-goOn
			return next()
		}
		b := account
		b.SnapshotEvery = 1
		rt, err := entity.New(s, b, entity.Options{Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		mustAsk(t, rt, 5, 5)
		evicted := make(chan error, 1)
		go func() { evicted <- rt.Evict(t.Context(), "a", forget(s.mem)) }()
		synctest.Wait()
		select {
		case err := <-evicted:
			t.Errorf("Evict did not wait: %v", err)
		default:
		}
		close(goOn)
		if err := <-evicted; err != nil {
			t.Error(err)
		}
		if _, ok, err := s.mem.Snapshots().Latest(t.Context(), "Account|a", annals.SnapshotCriteria{}); ok || err != nil {
			t.Errorf("a snapshot is there: %t, %v", ok, err)
		}
		mustView(t, rt, 0, 0)
	})
}

// Evict removes the entity from memory also when the entity cannot be read, its callers have left, or the function fails.
func TestEvictDropsFromMemory(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt := start(s, entity.Options{SingleOwner: true, MaxEntities: 1})
		gone := func(when string, err, want error) {
			t.Helper()
			synctest.Wait()
			if rt.Len() != 0 || !errors.Is(err, want) {
				t.Errorf("%s: %d in memory, %v, want %v", when, rt.Len(), err, want)
			}
		}
		gone("never loaded", rt.Evict(t.Context(), "a", nil), nil)
		mustAsk(t, rt, 5, 5)
		gone("loaded", rt.Evict(t.Context(), "a", nil), nil)
		mustAsk(t, rt, 5, 10)
		own := errors.New("of the test")
		gone("failed", rt.Evict(t.Context(), "a", func(context.Context) error { return own }), own)
		func() {
			defer func() { _ = recover() }()
			_ = rt.Evict(t.Context(), "a", func(context.Context) error { panic("of the test") })
		}()
		gone("panicked", nil, nil)

		s.read = func(context.Context, annals.PersistenceID) error { return own }
		if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, own) {
			t.Error(err)
		}
		gone("cannot be loaded", rt.Evict(t.Context(), "a", nil), nil)
		s.read = nil

		mustAsk(t, rt, 5, 15)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := rt.Evict(ended, "a", nil); !errors.Is(err, annals.ErrUnavailable) || rt.Len() != 1 {
			t.Errorf("%v, %d in memory, want that it stays", err, rt.Len())
		}
		if err := rt.Evict(t.Context(), "", nil); !errors.Is(err, annals.ErrInvalid) {
			t.Error(err)
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		if err := rt.Evict(t.Context(), "a", nil); !errors.Is(err, annals.ErrClosed) {
			t.Errorf("%v, want closed", err)
		}
	})
}

// When the context of Evict ends while it waits, the entity stays as it is. Shutdown waits for an Evict whose function runs, and refuses
// the commands that wait for it.
func TestEvictGivenUp(t *testing.T) {
	eachKind(t, func(t *testing.T, start starter) {
		s := newHooked()
		rt := start(s, entity.Options{})
		mustAsk(t, rt, 5, 5)
		g, first := held(t, s, rt, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := rt.Evict(ctx, "a", func(context.Context) error { t.Error("called too late"); return nil })
		if !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		g.pass()
		answered(t, first, 6, nil)
		s.heal()
		mustAsk(t, rt, 1, 7)

		goOn, evicted := make(chan struct{}), make(chan error, 1)
		go func() { evicted <- rt.Evict(t.Context(), "a", func(context.Context) error { <-goOn; return nil }) }()
		synctest.Wait()
		later := ask(t.Context(), rt, 1)
		synctest.Wait()
		if err := rt.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		close(goOn)
		if err := <-evicted; err != nil {
			t.Error(err)
		}
		answered(t, later, 0, annals.ErrClosed)
		if err := rt.Shutdown(t.Context()); err != nil || rt.Len() != 0 {
			t.Errorf("%v, %d in memory", err, rt.Len())
		}
	})
}
