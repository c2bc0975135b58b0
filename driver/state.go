package driver

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/valid"
)

// States is annals.Store.
func (s *store) States() annals.StateStore {
	return states{s, s.driver.States()}
}

type states struct {
	s *store
	d annals.StateStore // nil where States is not claimed
}

// Get is annals.StateStore.
func (s states) Get(ctx context.Context, id annals.PersistenceID) (state annals.State, ok bool, err error) {
	k := s.s.start(ctx, annals.Call{Op: "get state", ID: id}, &err)
	defer k.end(&err)
	if err := k.use(claimed(s.s.caps.States, valid.ID("", id, s.s.caps.Limits)), false); err != nil {
		return annals.State{}, false, err
	}
	state, ok, err = s.d.Get(k.in, id)
	if err == nil {
		s.s.tx.saw(Seen{ID: id, State: true, Number: state.Revision})
	}
	k.transferred(stateSize(state))
	return state, ok, err
}

// Put is annals.StateStore. A StateWrite without a WriteID gets one.
func (s states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return s.write(ctx, "put state", w, false)
}

// Delete is annals.StateStore.
func (s states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	w.Payload = annals.Payload{}
	return s.write(ctx, "delete state", w, true)
}

func (s states) write(ctx context.Context, op string, w annals.StateWrite, deletes bool) (r annals.Receipt, err error) {
	events := 0
	if w.Event != nil {
		events = 1
	}
	k := s.s.start(ctx, annals.Call{Op: op, ID: w.ID, Events: events}, &err)
	defer k.end(&err)
	fault := claimed(s.s.caps.States, valid.StateWrite(op, w, s.s.caps.Limits))
	if deletes && !s.s.caps.DeletesStates {
		fault = unclaimed("a delete of a state")
	}
	if fault == nil && w.Event != nil && !s.s.caps.StateEvents {
		fault = unclaimed("a write with an event")
	}
	if err := k.use(fault, true); err != nil {
		return annals.Receipt{}, err
	}
	if w.WriteID == (annals.WriteID{}) {
		w.WriteID, w.FirstTry = annals.NewWriteID(), true
	}
	if !s.s.caps.StateMetadata {
		w.Metadata = annals.Payload{}
	}
	write := s.d.Put
	if deletes {
		write = s.d.Delete
	}
	r, err = write(k.in, w)
	s.s.tx.wrote(Seen{ID: w.ID, State: true, Number: w.After}, r.Repeated, err)
	if w.Event != nil {
		s.s.tx.wrote(Seen{ID: w.ID, Number: w.After}, r.Repeated, err)
	}
	if err == nil {
		k.transferred(0, bytes(&w.Payload, &w.Metadata))
		if w.Event != nil {
			k.transferred(1, bytes(&w.Event.Payload, &w.Event.Metadata))
		}
	}
	return r, err
}
