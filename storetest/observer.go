package storetest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/contexts"
)

// observerCases are about annals.Observer.
var observerCases = []testCase{
	{id: "OBSERVE-1", about: "every operation is one call, with its entity, events and bytes", needs: needs(openObserved), run: observedOperations},
	{id: "OBSERVE-2", about: "a loop that breaks off is one call, with what was yielded", needs: needs(events, openObserved), run: observedLoops},
	{id: "OBSERVE-3", about: "the result has the error that the caller gets", needs: needs(events, openObserved), run: observedErrors},
	{id: "OBSERVE-4", about: "refused calls are observed as well", needs: needs(openObserved), run: observedRefusals},
	{id: "OBSERVE-5", about: "an Observer that panics, exits or returns no context disturbs no call", needs: needs(openObserved), run: brokenObservers},
	{id: "OBSERVE-6", about: "the Observer gets the contexts of all callers", needs: needs(events, openObserved), run: observedCallers},
}

// observer records calls. End finds the call in the context that Start returned.
type observer struct {
	mu     sync.Mutex
	calls  []observation
	faults []string
}

// observation is one call as an Observer sees it.
type observation struct {
	annals.Call
	callers []context.Context
	result  annals.Result
	ends    int // how often End was called for it
}

type observationKey struct{}

func (o *observer) Start(ctx context.Context, c annals.Call) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, observation{Call: c, callers: annals.Callers(ctx)})
	return context.WithValue(ctx, observationKey{}, len(o.calls)-1)
}

func (o *observer) End(ctx context.Context, c annals.Call, r annals.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, ok := ctx.Value(observationKey{}).(int)
	switch {
	case !ok:
		o.faults = append(o.faults, c.Op+": End has another context than Start returned")
	case o.calls[n].Call != c:
		o.faults = append(o.faults, c.Op+": End has another Call than Start")
	default:
		o.calls[n].ends++
		o.calls[n].result = r
	}
}

// take returns the calls since the last take. Each of them must have ended once.
func (o *observer) take(h *harness) []observation {
	h.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.calls {
		if c.ends != 1 {
			h.Errorf("%s: got %d calls of Observer.End, want 1", c.Op, c.ends)
		}
	}
	for _, fault := range o.faults {
		h.Errorf("Observer: %s", fault)
	}
	calls := o.calls
	o.calls, o.faults = nil, nil
	return calls
}

// openObserved is a store that reports to o.
func (h *harness) openObserved(o annals.Observer) annals.Store {
	h.Helper()
	s := h.cfg.OpenObserved(h, o)
	h.Cleanup(func() { _ = s.Close() })
	return s
}

// wantObserved checks that there was one call, with a Store and without an error.
func (h *harness) wantObserved(o *observer, want annals.Call, events, bytes int) {
	h.Helper()
	calls := o.take(h)
	if len(calls) != 1 {
		h.Errorf("%s: got %d calls observed, want 1: %+v", want.Op, len(calls), calls)
		return
	}
	got := calls[0]
	want.Store = got.Store
	if got.Call != want || got.Store == "" {
		h.Errorf("%s: got call %+v, want %+v with a store", want.Op, got.Call, want)
	}
	if r := got.result; r.Err != nil || r.Events != events || r.Bytes != bytes || r.Duration < 0 {
		h.Errorf("%s: got result %+v, want %d events, %d bytes, no error", want.Op, r, events, bytes)
	}
}

// dataBytes is what payloads take in Result.Bytes.
func dataBytes(ps ...annals.Payload) (n int) {
	for _, p := range ps {
		n += len(p.Data)
	}
	return n
}

func observedOperations(h *harness) {
	o := &observer{}
	h.store = h.openObserved(o)
	id := h.id()
	if h.caps.Events {
		c := h.commit(id, 0, h.batch(3))
		size := 0
		for i := range c.Events {
			if h.caps.Metadata {
				c.Events[i].Metadata = annals.Payload{SerializerID: 9, Manifest: "M", Data: []byte("meta-data")}
			}
			size += dataBytes(c.Events[i].Payload, c.Events[i].Metadata)
		}
		written := size
		if c.Snapshot != nil {
			written += dataBytes(c.Snapshot.Payload)
		}
		h.append(c)
		n := len(c.Events)
		h.wantObserved(o, annals.Call{Op: "append", ID: id, Events: n}, n, written)
		h.replay(id, 1, annals.MaxSeqNr)
		h.wantObserved(o, annals.Call{Op: "replay", ID: id}, n, size)
		h.last(id)
		h.wantObserved(o, annals.Call{Op: "last number", ID: id}, 0, 0)
		if h.caps.EventQueries {
			h.queryEvents(annals.Filter{}, n) // wait until all are visible
			o.take(h)
			h.queryEvents(annals.Filter{}, -1)
			h.wantObserved(o, annals.Call{Op: "query events"}, n, size)
		}
		if r, err := ability.Of[ability.Recoverer](h.store); err == nil {
			recovered := size
			if c.Snapshot != nil {
				n, recovered = 0, dataBytes(c.Snapshot.Payload)
			}
			if _, err := r.Recover(h.ctx, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil }); err != nil {
				h.Errorf("recover: got error %v, want none", err)
			}
			h.wantObserved(o, annals.Call{Op: "recover", ID: id}, n, recovered)
		}
		h.deleteTo(id, 1)
		h.wantObserved(o, annals.Call{Op: "delete events", ID: id}, 0, 0)
	}
	if h.caps.Snapshots {
		id := h.id()
		s := snapshotOf(id, 12)
		h.saveSnapshot(s)
		h.wantObserved(o, annals.Call{Op: "save snapshot", ID: id}, 0, dataBytes(s.Payload))
		h.wantSnapshot(id, annals.SnapshotCriteria{}, 12)
		h.wantObserved(o, annals.Call{Op: "load snapshot", ID: id}, 0, dataBytes(s.Payload))
	}
	if h.caps.States {
		id := h.id()
		w := stateWrite(id, 0)
		if h.caps.StateMetadata {
			w.Metadata = annals.Payload{SerializerID: 9, Manifest: "M", Data: []byte("meta-data")}
		}
		size := dataBytes(w.Payload, w.Metadata)
		h.putState(w)
		h.wantObserved(o, annals.Call{Op: "put state", ID: id}, 0, size)
		h.wantState(id, 1)
		h.wantObserved(o, annals.Call{Op: "get state", ID: id}, 0, size)
		if h.caps.StateQueries {
			h.queryStates(annals.Filter{}, 1)
			o.take(h)
			h.queryStates(annals.Filter{}, -1)
			h.wantObserved(o, annals.Call{Op: "query states"}, 0, size)
		}
		if h.caps.DeletesStates {
			h.deleteState(id, 1)
			h.wantObserved(o, annals.Call{Op: "delete state", ID: id}, 0, 0)
		}
	}
	h.observedOnce(o)
}

// observedOnce runs every operation and checks that each is one call.
func (h *harness) observedOnce(o *observer) {
	h.Helper()
	id := h.id()
	if h.caps.Events {
		h.write(id, 0, 3)
	}
	for _, op := range h.operations(h.store, id) {
		if !op.claimed {
			continue
		}
		o.take(h)
		err := op.run(h.ctx, h.store)
		calls := o.take(h)
		if !errors.Is(err, op.kind) {
			h.Errorf("%s: got error %v, want kind %v", op.name, err, op.kind)
		}
		if len(calls) != 1 || calls[0].Op != op.name || calls[0].ID != op.id || calls[0].Store == "" || calls[0].result.Err != err {
			h.Errorf("%s %q: got calls %+v observed, want 1 with operation, store, id and error %v", op.name, op.id, calls, err)
		}
	}
}

func observedLoops(h *harness) {
	o := &observer{}
	h.store = h.openObserved(o)
	id := h.id()
	h.write(id, 0, 3)
	if h.caps.EventQueries {
		h.queryEvents(annals.Filter{}, 3) // wait until all are visible
	}
	if h.caps.States {
		h.put(id, 0)
	}
	if h.caps.SnapshotQueries {
		h.saveSnapshot(snapshotOf(id, 3))
	}
	for _, op := range h.operations(h.store, id) {
		if op.loop == nil || !op.claimed {
			continue
		}
		o.take(h)
		items := 0
		if err := op.loop(h.ctx, h.store, func() bool { items++; return false }); err != nil || items != 1 {
			h.Errorf("%s whose body breaks off: got %d items, error %v, want 1", op.name, items, err)
		}
		events, bytes := 0, 0
		switch op.name {
		case "replay", "query events":
			events, bytes = 1, dataBytes(payload(1))
		case "query states":
			bytes = dataBytes(statePayload(1))
		case "query snapshots":
			bytes = dataBytes(statePayload(3))
		}
		h.wantObserved(o, annals.Call{Op: op.name, ID: op.id}, events, bytes)
	}
}

func observedErrors(h *harness) {
	o := &observer{}
	h.store = h.openObserved(o)
	id := h.id()
	h.write(id, 0, 2)
	same := func(did string, want error) {
		h.Helper()
		if calls := o.take(h); want == nil || len(calls) != 1 || calls[0].result.Err != want {
			h.Errorf("%s: got error %v and calls %+v, want one call with this error", did, want, calls)
		}
	}
	o.take(h)
	_, err := h.journal().Append(h.ctx, h.commit(id, 0, 1))
	h.wantKind(err, annals.ErrConflict, "append after 0 to an entity with two events")
	same("append after 0", err)
	if r, err := ability.Of[ability.Recoverer](h.store); err == nil {
		_, err = r.Recover(h.ctx, id, func(annals.Snapshot) error { return errors.New("mine") }, func(annals.Event) error { return errors.New("mine") })
		same("recover whose function fails", err)
	}
	if h.caps.States {
		h.put(id, 0)
		o.take(h)
		w := stateWrite(id, 0)
		w.FirstTry = true
		_, err = h.store.States().Put(h.ctx, w)
		same("put state after 0 at revision 1", err)
	}
}

func observedRefusals(h *harness) {
	o := &observer{}
	h.store = h.openObserved(o)
	ended, cancel := context.WithCancel(h.ctx)
	cancel()
	const invalidID = "of an invalid id"
	refused := func(ctx context.Context, id annals.PersistenceID, when string) {
		h.Helper()
		for _, op := range h.operations(h.store, id) {
			if !op.claimed || op.id == "" && when == invalidID {
				continue
			}
			o.take(h)
			err := op.run(ctx, h.store)
			calls := o.take(h)
			if err == nil || len(calls) != 1 || calls[0].Op != op.name || calls[0].ID != op.id || calls[0].result.Err != err || calls[0].result.Events != 0 || calls[0].result.Bytes != 0 {
				h.Errorf("%s %s: got error %v and calls %+v, want one call with this error, no events and no bytes", op.name, when, err, calls)
			}
		}
	}
	refused(ended, h.id(), "with an ended context")
	refused(h.ctx, "a\x00b", invalidID)
	if err := h.store.Close(); err != nil {
		h.Errorf("Close: got error %v, want none", err)
	}
	refused(h.ctx, h.id(), "of a closed store")
}

// brokenObserver calls worst in both methods.
type brokenObserver struct{ worst func() context.Context }

func (o brokenObserver) Start(context.Context, annals.Call) context.Context { return o.worst() }
func (o brokenObserver) End(context.Context, annals.Call, annals.Result)    { o.worst() }

func brokenObservers(h *harness) {
	for what, worst := range map[string]func() context.Context{
		"panics":             func() context.Context { panic("of the suite") },
		"ends its goroutine": func() context.Context { runtime.Goexit(); return nil },
		"returns nil":        func() context.Context { return nil },
	} {
		s := h.openObserved(brokenObserver{worst})
		id := h.id()
		h.through(s, func() {
			if h.caps.Events {
				h.write(id, 0, 3)
			}
			for _, op := range h.operations(s, id) {
				if !op.claimed {
					continue
				}
				err := h.returns(op.name+" with an Observer that "+what, func() error { return op.run(h.ctx, s) })
				if !errors.Is(err, op.kind) {
					h.Errorf("%s with an Observer that %s: got error %v, want kind %v", op.name, what, err, op.kind)
				}
			}
		})
	}
}

func observedCallers(h *harness) {
	o := &observer{}
	h.store = h.openObserved(o)
	type key struct{}
	callers := []context.Context{context.WithValue(h.ctx, key{}, 1), context.WithValue(h.ctx, key{}, 2)}
	id := h.id()
	for after, want := range [][]context.Context{nil, callers} {
		ctx := h.ctx
		if want != nil {
			ctx = contexts.WithCallers(ctx, want)
		}
		o.take(h)
		if _, err := h.send(ctx, h.store, h.commit(id, annals.SeqNr(after), 1)); err != nil {
			h.Fatalf("append after %d: got error %v, want none", after, err)
		}
		calls := o.take(h)
		if len(calls) == 0 || slices.ContainsFunc(calls, func(c observation) bool { return !slices.Equal(c.callers, want) }) {
			h.Errorf("append for %d callers: got the calls %+v in Observer.Start", len(want), calls)
		}
	}
}
