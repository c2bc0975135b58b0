package storetest

import (
	"context"
	"errors"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// operation is one method of the contracts and of the optional abilities, with arguments that a store which claims it accepts.
type operation struct {
	name    string // Error.Op and Call.Op
	claimed bool
	id      annals.PersistenceID // Error.ID and Call.ID; "" where the operation is not about one entity
	run     func(ctx context.Context, s annals.Store) error
	kind    error                                                             // of the error of run; nil for none
	loop    func(ctx context.Context, s annals.Store, body func() bool) error // of an operation that yields items; run reads them all
}

// operations are all operations of s. Those about one entity are about id, whose last number is 3 and which has no state, or about an entity
// never written. When id is empty, the ids of these are empty, too.
func (h *harness) operations(s annals.Store, id annals.PersistenceID) []operation {
	c, never := h.caps, beside(id, "-never-written")
	ops := []operation{
		{name: "append", claimed: c.Events, id: id, run: func(ctx context.Context, s annals.Store) error {
			_, err := s.Journal().Append(ctx, h.commit(id, 3, 1))
			return err
		}},
		{name: "replay", claimed: c.Events, id: id, loop: func(ctx context.Context, s annals.Store, body func() bool) error {
			return forEach(s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr), body)
		}},
		{name: "last number", claimed: c.Events, id: id, run: func(ctx context.Context, s annals.Store) error {
			_, err := s.Journal().LastSeqNr(ctx, id)
			return err
		}},
		{name: "delete events", claimed: c.Events, id: id, run: func(ctx context.Context, s annals.Store) error {
			return s.Journal().DeleteTo(ctx, id, 1)
		}},
		{name: "load snapshot", claimed: c.Snapshots, id: id, run: func(ctx context.Context, s annals.Store) error {
			_, _, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
			return err
		}},
		{name: "save snapshot", claimed: c.Snapshots, id: id, run: func(ctx context.Context, s annals.Store) error {
			return s.Snapshots().Save(ctx, snapshotOf(id, 1))
		}},
		{name: "delete snapshots", claimed: c.Snapshots, id: id, run: func(ctx context.Context, s annals.Store) error {
			return s.Snapshots().Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		}},
		{name: "get state", claimed: c.States, id: id, run: func(ctx context.Context, s annals.Store) error {
			_, _, err := s.States().Get(ctx, id)
			return err
		}},
		{name: "put state", claimed: c.States, id: id, run: func(ctx context.Context, s annals.Store) error {
			_, err := s.States().Put(ctx, stateWrite(id, 0))
			return err
		}},
		{name: "delete state", claimed: c.DeletesStates, id: never, run: func(ctx context.Context, s annals.Store) error {
			_, err := s.States().Delete(ctx, stateWrite(never, 0))
			return err
		}},
		{name: "query events", claimed: c.EventQueries, loop: func(ctx context.Context, s annals.Store, body func() bool) error {
			return forEach(s.Query().Events(ctx, annals.Filter{}), body)
		}},
		{name: "query states", claimed: c.StateQueries, loop: func(ctx context.Context, s annals.Store, body func() bool) error {
			return forEach(s.Query().States(ctx, annals.Filter{}), body)
		}},
		{name: "query snapshots", claimed: c.SnapshotQueries, loop: func(ctx context.Context, s annals.Store, body func() bool) error {
			return forEach(s.Query().Snapshots(ctx, annals.Filter{}), body)
		}},
		{name: "query ids", claimed: c.IDQueries, loop: func(ctx context.Context, s annals.Store, body func() bool) error {
			return forEach(s.Query().IDs(ctx, "", ""), body)
		}},
		{name: "query newest", claimed: c.EventQueries, run: func(ctx context.Context, s annals.Store) error {
			_, err := s.Query().Newest(ctx, annals.Filter{})
			return err
		}},
		{name: "query watermark", claimed: c.EventQueries || c.StateQueries, run: func(ctx context.Context, s annals.Store) error {
			_, err := s.Query().Watermark(ctx)
			return err
		}},
		{name: "load positions", claimed: c.Offsets, run: func(ctx context.Context, s annals.Store) error {
			_, err := s.Offsets().Load(ctx, "p", annals.SliceRange{})
			return err
		}},
		{name: "load offsets", claimed: c.Offsets, id: id, run: func(ctx context.Context, s annals.Store) error {
			_, err := s.Offsets().Handled(ctx, "p", id)
			return err
		}},
		{name: "save offsets", claimed: c.Offsets, run: func(ctx context.Context, s annals.Store) error {
			return s.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{offsetAt(id, 1, 1)}})
		}},
		{name: "forget offsets", claimed: c.Offsets, id: never, run: func(ctx context.Context, s annals.Store) error {
			return s.Offsets().Forget(ctx, "p", never)
		}},
		{name: "reset offsets", claimed: c.Offsets, run: func(ctx context.Context, s annals.Store) error {
			return s.Offsets().Reset(ctx, "p", annals.SliceRange{}, annals.Offset{})
		}},
	}
	ops = append(ops, h.abilities(s, id)...)
	for i, op := range ops {
		if op.loop != nil {
			ops[i].run = func(ctx context.Context, s annals.Store) error { return op.loop(ctx, s, func() bool { return true }) }
		}
	}
	return ops
}

// method is the first store with the method of an ability: s, or what it unwraps. It does not ask what the store lacks.
func method[A any](s annals.Store) (a A, ok bool) {
	for s != nil {
		if a, ok = s.(A); ok {
			return a, true
		}
		w, wraps := s.(interface{ Unwrap() annals.Store })
		if !wraps {
			break
		}
		s = w.Unwrap()
	}
	return a, false
}

// methodOf is method for a store that has it.
func methodOf[A any](s annals.Store) A {
	a, _ := method[A](s)
	return a
}

// abilities are the operations that s has methods for. claimed says whether s has the ability.
func (h *harness) abilities(s annals.Store, id annals.PersistenceID) (ops []operation) {
	skipped, unknown := beside(id, "-skipped"), beside(id, "-unknown")
	if _, ok := method[ability.Recoverer](s); ok {
		ops = append(ops, operation{name: "recover", claimed: is[ability.Recoverer](s), id: id, run: func(ctx context.Context, s annals.Store) error {
			_, err := methodOf[ability.Recoverer](s).Recover(ctx, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
			return err
		}})
	}
	if _, ok := method[ability.Skipper](s); ok {
		ops = append(ops, operation{name: "skip", claimed: is[ability.Skipper](s), id: skipped, run: func(ctx context.Context, s annals.Store) error {
			return methodOf[ability.Skipper](s).SkipTo(ctx, skipped, 0, 7)
		}})
	}
	if _, ok := method[ability.StateSkipper](s); ok {
		ops = append(ops, operation{name: "skip state", claimed: is[ability.StateSkipper](s), id: skipped, run: func(ctx context.Context, s annals.Store) error {
			return methodOf[ability.StateSkipper](s).SkipStateTo(ctx, skipped, 7)
		}})
	}
	if _, ok := method[ability.Forgetter](s); ok {
		for _, dry := range []bool{true, false} {
			ops = append(ops, operation{name: "forget", claimed: is[ability.Forgetter](s), id: unknown, run: func(ctx context.Context, s annals.Store) error {
				_, err := methodOf[ability.Forgetter](s).Forget(ctx, ability.Forgetting{ID: unknown, DryRun: dry})
				return err
			}})
		}
	}
	if _, ok := method[ability.StateFinder](s); ok {
		ops = append(ops, operation{name: "find states", claimed: is[ability.StateFinder](s), kind: annals.ErrInvalid, run: func(ctx context.Context, s annals.Store) error {
			_, err := collect(methodOf[ability.StateFinder](s).FindStates(ctx, "Thing", "no_such_column", "x"))
			return err
		}})
	}
	if _, ok := method[ability.Watcher](s); ok {
		ops = append(ops, operation{name: "watch", claimed: is[ability.Watcher](s), run: func(ctx context.Context, s annals.Store) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			_, err := methodOf[ability.Watcher](s).Watch(ctx, annals.Filter{})
			return err
		}})
	}
	if _, ok := method[ability.Subscriber](s); ok {
		ops = append(ops, operation{name: "subscribe", claimed: is[ability.Subscriber](s), run: func(ctx context.Context, s annals.Store) error {
			for _, err := range methodOf[ability.Subscriber](s).Subscribe(ctx, "operations", annals.Filter{}) {
				return err
			}
			return errors.New("the loop has ended without an error")
		}})
	}
	if _, ok := method[ability.Checker](s); ok {
		ops = append(ops, operation{name: "check", claimed: is[ability.Checker](s), id: id, run: func(ctx context.Context, s annals.Store) error {
			_, err := methodOf[ability.Checker](s).Check(ctx, id, nil)
			return err
		}})
	}
	if _, ok := method[ability.Scanner](s); ok {
		ops = append(ops, operation{name: "scan", claimed: is[ability.Scanner](s), loop: func(ctx context.Context, s annals.Store, body func() bool) error {
			return forEach(methodOf[ability.Scanner](s).Scan(ctx, "", ""), body)
		}})
	}
	if _, ok := method[ability.HealthChecker](s); ok {
		ops = append(ops, operation{name: "check health", claimed: is[ability.HealthChecker](s), run: func(ctx context.Context, s annals.Store) error {
			return methodOf[ability.HealthChecker](s).CheckHealth(ctx)
		}})
	}
	return ops
}

// beside is id with a suffix, or empty.
func beside(id, suffix annals.PersistenceID) annals.PersistenceID {
	if id == "" {
		return ""
	}
	return id + suffix
}

// forEach calls body for each item of seq until it returns false, and returns the error of seq.
func forEach[T any](seq iter.Seq2[T, error], body func() bool) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
		if !body() {
			return nil
		}
	}
	return nil
}

// wantNamed checks that err is an *annals.Error of a kind that names op and its entity. A nil kind is any.
func (h *harness) wantNamed(err, kind error, op operation, when string) {
	h.Helper()
	e := (*annals.Error)(nil)
	if !errors.As(err, &e) || e.Op != op.name || e.ID != op.id || kind != nil && e.Kind != kind {
		h.Errorf("%s %q %s: got error %#v, want an *annals.Error of this operation and id, kind %v", op.name, op.id, when, err, kind)
	}
}
