package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// transactionCases are about ability.Atomic. Writes of the caller through the transaction of a Transactor are tested by the store's own package.
var transactionCases = slices.Concat(inTransactions([]testCase{
	{id: "TX-1", about: "writes of fn are stored when it returns nil", needs: needs(events), run: txCommits},
	{id: "TX-2", about: "an error of fn undoes everything and is returned", needs: needs(events), run: txUndone(errMine, func() error { return errMine })},
	{id: "TX-3", about: "a panic in fn undoes everything and leaves the store usable", needs: needs(events), run: txUndone(nil, func() error { panic("of the suite") })},
	{id: "TX-4", about: "a conflict undoes all writes of the transaction", needs: needs(events), run: txConflicts},
	{id: "TX-5", about: "every operation of the inner store is ErrClosed when InTx has returned", needs: needs(events), run: txEnds},
	{id: "TX-6", about: "a write to the outer store with fn's context is ErrInvalid", needs: needs(events), run: txOuterStore},
	{id: "TX-7", about: "of concurrent transactions after the same number one wins", needs: needs(events), run: txRace},
	{id: "TX-8", about: "with an ended context fn does not run", needs: needs(events), run: txEndedContext},
	{id: "TX-9", about: "when the context ends in fn, all writes are stored or none", needs: needs(events), run: txCancelled},
	{id: "TX-10", about: "states and offsets are part of the transaction", needs: needs(events, states, offsets), run: txStatesAndOffsets},
	{id: "TX-12", about: "reads of the outer store with fn's context see the data before the transaction", needs: needs(events, snapshots), run: txReadsOutside},
	{id: "TX-13", about: "a call that fails leaves the transaction as it was", needs: needs(events), run: txGoesOn},
	{id: "TX-14", about: "Close waits for a transaction", needs: needs(events), run: txCloseWaits},
	{id: "TX-15", about: "the Observer sees the transaction and the calls in it, once each", needs: needs(events, openObserved), run: txObserved},
	{id: "TX-17", about: "of racing transactions that handle an event once, one is stored", needs: needs(events, offsets), run: txHandlesOnce},
	{id: "TX-16", about: "a number that is skipped to is part of the transaction", needs: needs(events), run: txSkips},
	{id: "TX-18", about: "the abilities of the inner store work", run: txAbilities},
	{id: "TX-19", about: "a transaction that was stored ends with success or ErrUnknown", needs: needs(events, loseAnswer), run: txAnswerLost},
	{id: "TX-11", about: "runtime.Goexit in fn undoes everything and leaves the store usable", needs: needs(events), run: txUndone(nil, func() error { runtime.Goexit(); return nil })},
}), inTransactions(guardCases))

// errMine is an error of the suite's own.
var errMine = errors.New("mine")

// inTransactions adds what all cases of transactions need.
func inTransactions(cases []testCase) []testCase {
	for i := range cases {
		cases[i].needs = append(needs(transacts), cases[i].needs...)
	}
	return cases
}

// inTx runs fn once in a transaction of the store.
func (h *harness) inTx(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	h.Helper()
	runs := 0
	err := ability.Atomically(ctx, h.store, func(ctx context.Context, in annals.Store) error {
		if runs++; runs > 1 {
			return fmt.Errorf("fn runs for the %dth time, want once", runs)
		}
		return fn(ctx, in)
	})
	if runs > 1 {
		h.Errorf("transaction: got %d runs of its function, want at most one", runs)
	}
	return err
}

func txCommits(h *harness) {
	a, b := h.id(), h.id()
	h.write(a, 0, 2)
	err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
		ra, errA := in.Journal().Append(ctx, h.commit(a, 2, h.batch(2)))
		rb, errB := in.Journal().Append(ctx, h.commit(b, 0, 1))
		if ra.SeqNr != annals.SeqNr(2+h.batch(2)) || rb.SeqNr != 1 {
			h.Errorf("receipts within a transaction: got %d and %d, want %d and 1", ra.SeqNr, rb.SeqNr, 2+h.batch(2))
		}
		return errors.Join(errA, errB)
	})
	if err != nil {
		h.Fatalf("transaction that appends to two entities: got error %v, want none", err)
	}
	h.wantReplay(a, 1, annals.MaxSeqNr, 1, annals.SeqNr(2+h.batch(2)))
	h.wantReplay(b, 1, annals.MaxSeqNr, 1, 1)
	h.write(b, 1, 1)
}

func txAnswerLost(h *harness) {
	id := h.id()
	h.wantTold("transaction", func() error {
		return h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
			_, err := in.Journal().Append(ctx, h.commit(id, 0, 1))
			return err
		})
	}, func() bool { return h.last(id) > 0 })
}

// txUndone ends the function of a transaction by end. The error must be want; nil is any, or a panic or the end of the goroutine.
func txUndone(want error, end func() error) func(h *harness) {
	return func(h *harness) {
		id := h.id()
		h.write(id, 0, 2)
		err := errors.New("did not return")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("panic: %v", r)
				}
			}()
			err = h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
				if _, err := in.Journal().Append(ctx, h.commit(id, 2, 1)); err != nil {
					return err
				}
				return end()
			})
		}()
		<-ended
		if err == nil || want != nil && !errors.Is(err, want) {
			h.Errorf("transaction whose function fails, panics or ends its goroutine: got error %v, want one (%v)", err, want)
		}
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, 2)
		h.wantLast(id, 2)
		h.write(id, 2, 1)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, 3)
	}
}

// txSkips skips in a transaction, where the inner store is an ability.Skipper.
func txSkips(h *harness) {
	id, mine := h.id(), errors.New("mine")
	for _, c := range []struct{ err, want error }{{mine, mine}, {nil, nil}} {
		skips := false
		err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
			skipper, err := ability.Of[ability.Skipper](in)
			if skips = err == nil; skips {
				if err := skipper.SkipTo(ctx, id, 0, 41); err != nil {
					return err
				}
			}
			return c.err
		})
		switch h.wantKind(err, c.want, "transaction that skips to 41"); {
		case !skips:
			return
		case c.err != nil:
			h.wantLast(id, 0)
		default:
			h.wantLast(id, 41)
		}
	}
}

func txAbilities(h *harness) {
	id, supported := h.id(), func(name string, err error) {
		if errors.Is(err, annals.ErrUnsupported) {
			h.Errorf("%s in a transaction whose store has the ability: got error %v, want none of this kind", name, err)
		}
	}
	err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
		if s, err := ability.Of[ability.Skipper](in); err == nil {
			supported("skip", s.SkipTo(ctx, id+"-skipped", 0, 7))
		}
		if s, err := ability.Of[ability.StateSkipper](in); err == nil {
			supported("skip state", s.SkipStateTo(ctx, id+"-state", 7))
		}
		if s, err := ability.Of[ability.Forgetter](in); err == nil {
			_, err := s.Forget(ctx, ability.Forgetting{ID: id, DryRun: true})
			supported("forget", err)
		}
		return nil
	})
	h.wantKind(err, nil, "transaction")
}

// txConflicts allows that the conflict is found at once or when InTx returns.
func txConflicts(h *harness) {
	id, other := h.id(), h.id()
	h.write(id, 0, 2)
	err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
		if _, err := in.Journal().Append(ctx, h.commit(other, 0, 1)); err != nil {
			return err
		}
		_, err := in.Journal().Append(ctx, h.commit(id, 0, 1))
		return err
	})
	h.wantKind(err, annals.ErrConflict, "transaction with an append after 0 to an entity with two events")
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 2)
	h.wantReplay(other, 1, annals.MaxSeqNr, 1, 0)
	h.wantLast(other, 0)
}

func txEnds(h *harness) {
	id := h.id()
	for _, fail := range []bool{false, true} {
		var ended annals.Store
		_ = h.inTx(h.ctx, func(_ context.Context, in annals.Store) error {
			ended = in
			if fail {
				return errors.New("rolled back")
			}
			return nil
		})
		if ended == nil {
			h.Fatalf("transaction: got no inner store")
		}
		for _, op := range h.operations(ended, id) {
			if op.claimed {
				h.wantNamed(op.run(h.ctx, ended), annals.ErrClosed, op, fmt.Sprintf("of the inner store when InTx has returned (rolled back: %v)", fail))
			}
		}
	}
	h.wantLast(id, 0)
}

// txCloseWaits lets the function of a transaction wait until Close has begun: then reads of the outer store are ErrClosed.
func txCloseWaits(h *harness) {
	id := h.id()
	h.write(id, 0, 1)
	closed := make(chan error, 1)
	err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
		go func() { closed <- h.store.Close() }()
		read := error(nil)
		for began := time.Now(); read == nil && time.Since(began) < stuck; runtime.Gosched() {
			_, read = h.journal().LastSeqNr(ctx, id)
		}
		h.wantKind(read, annals.ErrClosed, "last number by the outer store during Close")
		select {
		case err := <-closed:
			h.Errorf("Close during a transaction: got error %v before the transaction has ended, want Close to wait", err)
			closed <- err
		default:
		}
		_, err := in.Journal().Append(ctx, h.commit(id, 1, 1))
		return err
	})
	if err != nil {
		h.Errorf("transaction during Close: got error %v, want none", err)
	}
	if err := <-closed; err != nil {
		h.Errorf("Close during a transaction: got error %v, want none", err)
	}
	if h.cfg.Reopen != nil {
		h.store = h.cfg.Reopen(h, h.store)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, 2)
	}
}

func txObserved(h *harness) {
	o, mine := &observer{}, errors.New("mine")
	h.store = h.openObserved(o)
	id := h.id()
	for _, fail := range []error{mine, nil} {
		err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
			_, err := in.Journal().Append(ctx, h.commit(id, 0, 1))
			return errors.Join(err, fail)
		})
		h.wantKind(err, fail, "transaction whose function returns %v", fail)
		calls := o.take(h)
		if len(calls) != 2 || calls[0].Op != "transaction" || calls[0].ID != "" || calls[0].result.Err != err || calls[0].result.Events != 0 ||
			calls[1].Op != "append" || calls[1].ID != id || calls[1].result.Err != nil || calls[1].result.Events != 1 {
			h.Errorf("transaction with an append: got calls %+v observed, want \"transaction\" with error %v, and \"append\" of 1 event", calls, err)
		}
	}
}

func txOuterStore(h *harness) {
	id, outer := h.id(), h.id()
	err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
		_, err := h.journal().Append(ctx, h.commit(outer, 0, 1))
		h.wantKind(err, annals.ErrInvalid, "append to the outer store with the transaction's context")
		_, err = in.Journal().Append(ctx, h.commit(id, 0, 1))
		return err
	})
	if err != nil {
		h.Errorf("transaction after a refused write to the outer store: got error %v, want none", err)
	}
	h.wantLast(outer, 0)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 1)
}

func txReadsOutside(h *harness) {
	id := h.id()
	h.write(id, 0, 2)
	h.saveSnapshot(snapshotOf(id, 2))
	err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
		if _, err := in.Journal().Append(ctx, h.commit(id, 2, 1)); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, stuck)
		defer cancel()
		last, err := h.journal().LastSeqNr(ctx, id)
		if err != nil || last != 2 {
			h.Errorf("last number by the outer store in a transaction that appends 3: got %d, error %v, want 2", last, err)
		}
		es, err := collect(h.journal().Replay(ctx, id, 1, annals.MaxSeqNr))
		if err != nil {
			h.Errorf("replay by the outer store in a transaction: got error %v, want none", err)
		}
		h.wantEvents("replay by the outer store in a transaction that appends 3", es, id, 1, 2)
		s, ok, err := h.store.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
		if err != nil || !ok || s.SeqNr != 2 {
			h.Errorf("load snapshot by the outer store in a transaction: got number %d (%v), error %v, want 2", s.SeqNr, ok, err)
		}
		return nil
	})
	if err != nil {
		h.Errorf("transaction after reads of the outer store: got error %v, want none", err)
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 3)
}

// stuck is far more than a call takes that need not wait.
const stuck = 5 * time.Second

func txGoesOn(h *harness) {
	id, other := h.id(), h.id()
	h.write(id, 0, 1)
	err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err := in.Journal().LastSeqNr(ended, id)
		h.wantKind(err, annals.ErrUnavailable, "last number in a transaction, with an ended context")
		if _, err := in.Journal().Append(ended, h.commit(id, 1, 1)); err == nil {
			h.Errorf("append in a transaction, with an ended context: got no error")
		}
		_, err = in.Journal().Append(ctx, annals.Commit{ID: id, After: 1})
		h.wantKind(err, annals.ErrInvalid, "append of nothing in a transaction")
		for _, err = range in.Journal().Replay(ctx, "", 1, 1) {
			h.wantKind(err, annals.ErrInvalid, "replay of no id in a transaction")
		}
		_, errFirst := in.Journal().Append(ctx, h.commit(id, 1, 1))
		_, errSecond := in.Journal().Append(ctx, h.commit(other, 0, 1))
		return errors.Join(errFirst, errSecond)
	})
	if err != nil {
		h.Fatalf("transaction that went on after calls that failed: got error %v, want none", err)
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 2)
	h.wantReplay(other, 1, annals.MaxSeqNr, 1, 1)
}

func txRace(h *harness) {
	id := h.id()
	for after := range annals.SeqNr(h.volume(20, 5)) {
		errs := make([]error, 6)
		together(len(errs), func(i int) {
			errs[i] = h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
				_, err := in.Journal().Append(ctx, h.commit(id, after, 1))
				return err
			})
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !isConflict(err) && !errors.Is(err, annals.ErrUnavailable) {
				h.Fatalf("transaction with an append after %d: got error %v, want none, a conflict or ErrUnavailable", after, err)
			}
		}
		if won != 1 {
			h.Fatalf("six transactions with an append after %d: got %d winners, want one", after, won)
		}
		h.wantLast(id, after+1)
	}
}

func txEndedContext(h *harness) {
	for want, ctx := range h.endedContexts() {
		err := h.inTx(ctx, func(context.Context, annals.Store) error {
			h.Errorf("transaction with an ended context: got its function run, want not")
			return nil
		})
		h.wantKind(err, want, "transaction with an ended context")
	}
}

func txCancelled(h *harness) {
	a, b := h.id(), h.id()
	ctx, cancel := context.WithCancel(h.ctx)
	defer cancel()
	err := h.inTx(ctx, func(ctx context.Context, in annals.Store) error {
		_, errA := in.Journal().Append(ctx, h.commit(a, 0, 1))
		_, errB := in.Journal().Append(ctx, h.commit(b, 0, 1))
		cancel()
		return errors.Join(errA, errB)
	})
	na, nb := h.last(a), h.last(b)
	if na != nb || err == nil && na != 1 || err != nil && !errors.Is(err, annals.ErrUnknown) && na != 0 {
		h.Errorf("transaction whose context ended in its function: got error %v, last numbers %d and %d, want both writes or none", err, na, nb)
	}
}

func txStatesAndOffsets(h *harness) {
	id, o, mine := h.id(), offsetAt("Thing|followed", 3, 3), errors.New("mine")
	for _, fail := range []bool{true, false} {
		err := h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
			_, errState := in.States().Put(ctx, stateWrite(id, 0))
			errOffset := in.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{o}})
			if fail {
				return errors.Join(errState, errOffset, mine)
			}
			return errors.Join(errState, errOffset)
		})
		if fail {
			h.wantKind(err, mine, "transaction whose function fails")
			h.wantNoState(id, 0)
			h.wantNotHandled("p", o.ID)
			continue
		}
		if err != nil {
			h.Fatalf("transaction with a state and an offset: got error %v, want none", err)
		}
		h.wantState(id, 1)
		h.wantHandled("p", o)
	}
}

func txHandlesOnce(h *harness) {
	const workers = 4
	event := offsetAt("Thing|followed", 3, 3)
	errs, ids := make([]error, workers), make([]annals.PersistenceID, workers)
	for i := range ids {
		ids[i] = h.id()
	}
	together(workers, func(i int) {
		errs[i] = h.inTx(h.ctx, func(ctx context.Context, in annals.Store) error {
			_, err := in.Journal().Append(ctx, h.commit(ids[i], 0, 1)) // what the handler writes
			return errors.Join(err, in.Offsets().Save(ctx, annals.Progress{Projection: "p", Offsets: []annals.Offset{event}, Once: true}))
		})
	})
	won := 0
	for i, err := range errs {
		stored := h.last(ids[i]) == 1
		switch {
		case err == nil && stored:
			won++
		case !errors.Is(err, annals.ErrConflict) || stored:
			h.Errorf("transaction %d: got error %v, its write stored: %v, want success or a conflict that stores nothing", i, err, stored)
		}
	}
	if won != 1 {
		h.Errorf("%d racing transactions that handle one event: got %d winners, want 1", workers, won)
	}
}
