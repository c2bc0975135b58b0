package storetest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
)

func changesSeen[T any](t *typed[T]) {
	var seen []annals.State
	t.onChange = func(_ context.Context, _ T, s annals.State) error {
		seen = append(seen, s)
		return nil
	}
	id := t.thing()
	w := stateWrite(id, 0)
	if t.caps.Tags {
		w.Tags = []string{"green"}
	}
	if t.caps.StateMetadata {
		w.Metadata = someMetadata
	}
	want := []annals.State{{ID: id, Revision: 1, Payload: w.Payload, Tags: w.Tags, Metadata: w.Metadata, Time: t.putState(w).Time}}
	want = append(want, annals.State{ID: id, Revision: 2, Payload: statePayload(2), Time: t.put(id, 1).Time})
	r, err := t.store.States().Delete(t.ctx, annals.StateWrite{ID: id, After: 2, Payload: statePayload(3), WriteID: annals.NewWriteID()})
	if err != nil {
		t.Fatalf("delete state after 2: got error %v, want none", err)
	}
	want = append(want, annals.State{ID: id, Revision: 3, Deleted: true, Time: r.Time})
	want = append(want, annals.State{ID: id, Revision: 4, Payload: statePayload(4), Time: t.put(id, 3).Time})
	if len(seen) != len(want) {
		t.Fatalf("a handler of four changes: got %d calls", len(seen))
	}
	for i, s := range seen {
		// A handler may run before the write gets its time, and the time in a receipt may be in milliseconds.
		if early := want[i].Time.Sub(s.Time); early < -time.Millisecond || early > time.Minute {
			t.Errorf("time of change %d: got %v, want that of the receipt, %v, or one shortly before", i+1, s.Time, want[i].Time)
		}
		s.Time = want[i].Time
		t.wantEqual(s, want[i], "what the handler saw of change %d", i+1)
	}
}

func changesCounted[T any](t *typed[T]) {
	t.onChange = func(ctx context.Context, tx T, _ annals.State) error { return t.counts(ctx, tx) }
	id := t.thing()
	t.put(id, 0)
	t.put(id, 1)
	for _, after := range []annals.SeqNr{0, 1, 7} {
		_, err := t.store.States().Put(t.ctx, stateWrite(id, after))
		t.wantKind(err, annals.ErrConflict, "put state after %d at revision 2", after)
		_, err = t.store.States().Delete(t.ctx, annals.StateWrite{ID: id, After: after, WriteID: annals.NewWriteID()})
		t.wantKind(err, annals.ErrConflict, "delete state after %d at revision 2", after)
	}
	t.wantCounted(2)
	t.deleteState(id, 2)
	t.wantCounted(3)
}

func changesRepeated[T any](t *typed[T]) {
	mine, now := errors.New("mine"), error(nil)
	t.onChange = func(ctx context.Context, tx T, _ annals.State) error { return errors.Join(t.counts(ctx, tx), now) }
	id := t.thing()
	w := stateWrite(id, 0)
	t.putState(w)
	d := annals.StateWrite{ID: id, After: 1, WriteID: annals.NewWriteID()}
	if _, err := t.store.States().Delete(t.ctx, d); err != nil {
		t.Fatalf("delete state after 1: got error %v, want none", err)
	}
	for _, now = range []error{nil, mine} {
		t.wantStateRepeated(t.store.States().Put, w, "after a delete")
		t.wantStateRepeated(t.store.States().Delete, d, "at once")
	}
	t.wantCounted(2)
}

func handlerFails[T any](t *typed[T]) {
	t.wantChangesUndone("when the handler fails", func(context.Context, T) error { return errMine }, func(err error, did string) { t.wantOwnError(err, errMine, did) })
}

// wantChangesUndone puts and deletes a state whose handler ends by fail, and checks the errors.
func (t *typed[T]) wantChangesUndone(when string, fail func(context.Context, T) error, check func(err error, did string)) {
	t.Helper()
	id := t.thing()
	t.failing(fail)
	t.set(id, 0, "fine")
	for what, write := range map[string]writeState{"put state": t.store.States().Put, "delete state": t.store.States().Delete} {
		did := what + " " + when
		check(t.returns(did, func() error { _, err := write(t.ctx, textState(id, 1, "not fine")); return err }), did)
	}
	t.wantUndone(id, 1)
}

// wantOwnError checks that err is an *annals.Error without a Kind around the error of the caller's own function.
func (t *typed[T]) wantOwnError(err, want error, did string) {
	t.Helper()
	e := (*annals.Error)(nil)
	if !errors.Is(err, want) || !errors.As(err, &e) || e.Kind != nil || e.Op == "" {
		t.Errorf("%s: got %#v, want an *annals.Error without a kind, with an operation and the handler's error", did, err)
	}
}

func handlerPanics[T any](t *typed[T]) {
	t.wantChangesUndone("when the handler panics", func(context.Context, T) error { panic("of the suite") }, t.wantPanic)
}

func (t *typed[T]) wantPanic(err error, did string) {
	t.Helper()
	t.wantKind(err, annals.ErrPanic, "%s", did)
}

func handlerExits[T any](t *typed[T]) {
	exit := func() { runtime.Goexit() }
	t.wantChangesUndone("when the handler calls runtime.Goexit", func(context.Context, T) error { exit(); return nil }, t.wantPanic)
	id, did := t.thing(), "put state when Bind calls runtime.Goexit"
	t.set(id, 0, "fine")
	t.bind = func(annals.State) (annals.Columns, error) { exit(); return nil, nil }
	err := t.returns(did, func() error { _, err := t.store.States().Put(t.ctx, textState(id, 1, "exit")); return err })
	t.bind = nil
	t.wantPanic(err, did)
	t.wantUndone(id, 3)
}

// returns runs fn on another goroutine and returns its error. The case fails when fn panics or ends its goroutine.
func (h *harness) returns(did string, fn func() error) (err error) {
	h.Helper()
	returned, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if p := recover(); p != nil {
				h.Errorf("%s: got the panic %v, want none", did, p)
				returned = true
			}
		}()
		err = fn()
		returned = true
	}()
	<-ended
	if !returned {
		h.Errorf("%s: got the end of the caller's goroutine, want an answer", did)
	}
	return err
}

func handlerRefused[T any](t *typed[T]) {
	id := t.thing()
	t.failing(t.types.Refuse)
	t.set(id, 0, "fine")
	for range 2 { // a retry changes nothing
		_, err := t.store.States().Put(t.ctx, textState(id, 1, "refused"))
		t.wantKind(err, annals.ErrConstraint, "put state when a rule of the caller's own refuses it")
		if isConflict(err) || annals.SafeToRetry(err) {
			t.Errorf("put state when a rule of the caller's own refuses it: got %v, want an error that is not safe to retry", err)
		}
	}
	t.wantUndone(id, 1)
}

func handlersTakeTurns[T any](t *typed[T]) {
	var running atomic.Int64
	t.onChange = func(ctx context.Context, tx T, _ annals.State) error {
		if n := running.Add(1); n > 1 {
			t.Errorf("handlers of one entity: got %d at the same time, want one", n)
		}
		defer running.Add(-1)
		for range 100 { // let other goroutines run
			runtime.Gosched()
		}
		return t.counts(ctx, tx)
	}
	id := t.thing()
	for after := range annals.SeqNr(t.volume(20, 5)) {
		together(6, func(int) {
			if _, err := t.store.States().Put(t.ctx, stateWrite(id, after)); err != nil && !isConflict(err) {
				t.Errorf("put state after %d: got error %v, want none or a conflict", after, err)
			}
		})
		t.wantCounted(int(after) + 1)
	}
}

func handlerOutside[T any](t *typed[T]) {
	id, other := t.thing(), t.id()
	t.onChange = func(ctx context.Context, tx T, _ annals.State) error {
		_, err := t.journal().Append(ctx, t.commit(other, 0, 1))
		t.wantKind(err, annals.ErrInvalid, "append to the outer store with a handler's context")
		_, err = t.store.States().Put(ctx, stateWrite(id, 0))
		t.wantKind(err, annals.ErrInvalid, "put to the outer store with a handler's context")
		return t.counts(ctx, tx)
	}
	t.put(id, 0)
	t.wantState(id, 1)
	t.wantLast(other, 0)
	t.wantCounted(1)
}

func handlerInTx[T any](t *typed[T]) {
	t.onChange = func(ctx context.Context, tx T, _ annals.State) error { return t.counts(ctx, tx) }
	id, mine := t.thing(), errors.New("mine")
	for _, fail := range []error{mine, nil} {
		err := t.inTx(t.ctx, func(ctx context.Context, in annals.Store) error {
			_, err := in.States().Put(ctx, stateWrite(id, 0))
			return errors.Join(err, fail)
		})
		if !errors.Is(err, fail) {
			t.Errorf("transaction whose function returns %v: got error %v", fail, err)
		}
		if fail != nil {
			t.wantNoState(id, 0)
			t.wantCounted(0)
		}
	}
	t.wantState(id, 1)
	t.wantCounted(1)
	err := t.inTx(t.ctx, func(ctx context.Context, in annals.Store) error {
		_, err := in.States().Put(ctx, stateWrite(id, 0)) // some stores find the conflict when the transaction ends
		return err
	})
	t.wantKind(err, annals.ErrConflict, "transaction with a put after 0 at revision 1")
	t.wantCounted(1)
}

func handlerFailsInTx[T any](t *typed[T]) {
	id, other := t.thing(), t.thing()
	for what, fail := range map[string]func(context.Context, T) error{
		"fails":  func(context.Context, T) error { return errors.New("mine") },
		"panics": func(context.Context, T) error { panic("of the suite") },
	} {
		t.failing(fail)
		after := annals.SeqNr(0)
		if s, _, err := t.store.States().Get(t.ctx, other); err == nil {
			after = s.Revision
		}
		err := t.inTx(t.ctx, func(ctx context.Context, in annals.Store) error {
			if _, err := in.States().Put(ctx, textState(id, 0, "not fine")); err == nil {
				t.Errorf("put state within a transaction when the handler %s: got no error", what)
			}
			_, err := in.States().Put(ctx, textState(other, after, "fine"))
			return err
		})
		if err != nil {
			t.Errorf("transaction that goes on when a handler %s: got error %v, want none", what, err)
		}
	}
	t.wantNoState(id, 0)
	t.wantCounted(2) // those of other
}

func handlerSpared[T any](t *typed[T]) {
	t.bind = func(annals.State) (annals.Columns, error) {
		t.Errorf("a write that is wrong in itself: got Bind called, want not")
		return nil, nil
	}
	t.onChange = func(context.Context, T, annals.State) error {
		t.Errorf("a write that is wrong in itself: got the handler called, want not")
		return nil
	}
	id := t.thing()
	for what, w := range map[string]annals.StateWrite{
		"after -1":         stateWrite(id, -1),
		"after the last":   stateWrite(id, annals.MaxSeqNr),
		"a broken id":      stateWrite("Thing|\xff", 0),
		"no serializer id": {ID: id, WriteID: annals.NewWriteID()},
	} {
		_, err := t.store.States().Put(t.ctx, w)
		t.wantKind(err, annals.ErrInvalid, "put state with %s", what)
	}
	if limit := t.caps.Limits.MaxBytes; limit > 0 {
		_, err := t.store.States().Put(t.ctx, textState(id, 0, strings.Repeat("x", limit+1)))
		t.wantKind(err, annals.ErrTooLarge, "put state of %d bytes", limit+1)
	}
	t.wantNoState(id, 0)
}

func changesRace[T any](t *typed[T]) {
	mine := errors.New("mine")
	t.onChange = func(ctx context.Context, tx T, s annals.State) error {
		if err := t.counts(ctx, tx); err != nil {
			return err
		}
		if s.Revision%7 == 3 && len(s.Data)%2 == 0 {
			return mine
		}
		return nil
	}
	var accepted, refused atomic.Int64
	ids := []annals.PersistenceID{t.thing(), t.thing(), t.thing()}
	together(6, func(worker int) {
		for i := range t.volume(60, 15) {
			id := ids[(worker+i)%len(ids)]
			last, _, err := t.store.States().Get(t.ctx, id)
			if err != nil {
				t.Errorf("state of %q: got error %v, want none", id, err)
				return
			}
			w := textState(id, last.Revision, strings.Repeat("x", 1+(worker+i)%2))
			w.FirstTry = true
			if (worker+i)%5 == 4 {
				_, err = t.store.States().Delete(t.ctx, w)
			} else {
				_, err = t.store.States().Put(t.ctx, w)
			}
			switch {
			case err == nil:
				accepted.Add(1)
			case errors.Is(err, mine) || isConflict(err):
				refused.Add(1)
			default:
				t.Errorf("change of %q after %d: got error %v, want none, a conflict or the handler's", id, w.After, err)
				return
			}
		}
	})
	if accepted.Load() == 0 || refused.Load() == 0 {
		t.Errorf("racing changes: got %d accepted and %d refused, want some of both", accepted.Load(), refused.Load())
	}
	t.wantCounted(int(accepted.Load()))
	revisions := annals.SeqNr(0)
	for _, id := range ids {
		s, _, err := t.store.States().Get(t.ctx, id)
		if err != nil {
			t.Errorf("state of %q: got error %v, want none", id, err)
		}
		revisions += s.Revision
	}
	t.wantEqual(revisions, annals.SeqNr(accepted.Load()), "revisions of all entities after the race")
}

func handlerFailsWithEvent[T any](t *typed[T]) {
	id := t.thing()
	t.failing(func(context.Context, T) error { return errors.New("mine") })
	w := withEvent(textState(id, 0, "fine"))
	t.putState(w)
	if _, err := t.store.States().Put(t.ctx, withEvent(textState(id, 1, "not fine"))); err == nil {
		t.Error("put state with an event when the handler fails: got no error")
	}
	t.wantLast(id, 1)
	t.wantCounted(1)
	t.putState(withEvent(textState(id, 1, "fine")))
	t.wantReplay(id, 1, annals.MaxSeqNr, 1, 2)
	t.wantCounted(2)
}
