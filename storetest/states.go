package storetest

import (
	"fmt"
	"strings"

	"github.com/annals-go/annals"
)

var stateCases = []testCase{
	{id: "D-01", about: "no state of an entity never written", needs: needs(states), run: func(h *harness) {
		h.put(h.id(), 0)
		h.wantNoState(h.id(), 0)
	}},
	{id: "D-03", about: "the first put is revision 1, and the second replaces it", needs: needs(states), run: func(h *harness) {
		id := h.id()
		for after := range annals.SeqNr(2) {
			h.put(id, after)
			h.wantState(id, after+1)
		}
	}},
	{id: "D-06", about: "a deleted state is not found, and a put after the delete is the next revision", needs: needs(states, deletesStates), run: func(h *harness) {
		id := h.id()
		h.put(id, 0)
		h.deleteState(id, 1)
		h.wantNoState(id, 2)
		h.put(id, 2)
		h.wantState(id, 3)
	}},
	{id: "D-O1", about: "a delete after another revision is a conflict", needs: needs(states, deletesStates), run: func(h *harness) {
		id := h.id()
		h.put(id, 0)
		for _, after := range []annals.SeqNr{0, 98} {
			_, err := h.store.States().Delete(h.ctx, annals.StateWrite{ID: id, After: after, WriteID: annals.NewWriteID()})
			h.wantKind(err, annals.ErrConflict, "delete state after %d at revision 1", after)
		}
		h.wantState(id, 1)
	}},
	{id: "D-O2", about: "a put after another revision is a conflict", needs: needs(states), run: func(h *harness) {
		id := h.id()
		h.put(id, 0)
		for _, after := range []annals.SeqNr{0, 2, 98} {
			_, err := h.store.States().Put(h.ctx, stateWrite(id, after))
			h.wantKind(err, annals.ErrConflict, "put state after %d at revision 1", after)
		}
		h.wantState(id, 1)
		_, err := h.store.States().Put(h.ctx, stateWrite(h.id(), 1))
		h.wantKind(err, annals.ErrConflict, "put state after 1 of an entity never written")
	}},
	{id: "D-O3", about: "serializer id, manifest and bytes are kept", needs: needs(states), run: func(h *harness) {
		for _, p := range []annals.Payload{
			{SerializerID: 666, Manifest: "A", Data: []byte("akka://sys/\x00\xff")},
			{SerializerID: -3, Manifest: "日本 😀", Data: []byte(strings.Repeat("x", 10_000))},
			{SerializerID: 1, Data: []byte{}},
		} {
			w := stateWrite(h.id(), 0)
			if limit := h.caps.Limits.MaxBytes; limit > 0 {
				p.Data = p.Data[:min(len(p.Data), limit-len(p.Manifest))]
			}
			w.Payload = p
			h.putState(w)
			s, ok, err := h.store.States().Get(h.ctx, w.ID)
			if err != nil || !ok || !equal(s.Payload, p) {
				h.Errorf("state: got %v with %s, error %v, want %s", ok, show(s.Payload), err, show(p))
			}
		}
	}},
	{id: "D-O4", about: "a delete with the revision of Get as After, of nothing, a state or a tombstone", needs: needs(states, deletesStates), run: func(h *harness) {
		id := h.id()
		for revision := range annals.SeqNr(4) { // of nothing, a tombstone, a state, another tombstone
			s, _, err := h.store.States().Get(h.ctx, id)
			if err != nil || s.Revision != revision {
				h.Errorf("revision of the state: got %d, error %v, want %d", s.Revision, err, revision)
			}
			if revision == 1 {
				h.put(id, s.Revision)
				h.wantState(id, 2)
				continue
			}
			h.deleteState(id, s.Revision)
			h.wantNoState(id, revision+1)
		}
	}},
	{id: "STATE-1", about: "revisions continue after deletes and never repeat", needs: needs(states, deletesStates), run: revisionsGoOn},
	{id: "STATE-3", about: "of eight writers with the same After one wins, at every revision", needs: needs(states), run: oneStateWinner},
	{id: "STATE-4", about: "a writer that was paused during a delete gets a conflict", needs: needs(states, deletesStates), run: pausedStateWriter},
	{id: "STATE-5", about: "tags are kept", needs: needs(states, tags), run: stateTags},
	{id: "STATE-10", about: "metadata is kept, also that of a delete", needs: needs(states, stateMetadata, deletesStates), own: true, run: stateMetadataComeBack},
	{id: "STATE-6", about: "the event of a write is in the journal, numbered as the revision", needs: needs(states, stateEvents, events, deletesStates), run: eventsOfStates},
	{id: "STATE-7", about: "a refused write leaves no event", needs: needs(states, stateEvents, events), run: noEventOfConflict},
	{id: "STATE-9", about: "a write with an event is ErrInvalid when the journal's last number is not After", needs: needs(states, stateEvents, events), run: eventOutOfStep},
	{id: "STATE-8", about: "concurrent writes with events store one event for each revision", needs: needs(states, stateEvents, events), run: racingStateEvents},
}

// stateWrite is a write of revision after+1 with a new WriteID.
func stateWrite(id annals.PersistenceID, after annals.SeqNr) annals.StateWrite {
	return annals.StateWrite{ID: id, After: after, Payload: statePayload(after + 1), WriteID: annals.NewWriteID()}
}

func (h *harness) put(id annals.PersistenceID, after annals.SeqNr) annals.Receipt {
	h.Helper()
	return h.putState(stateWrite(id, after))
}

func (h *harness) putState(w annals.StateWrite) annals.Receipt {
	h.Helper()
	r, err := h.store.States().Put(h.ctx, w)
	if err != nil || r.SeqNr != w.After+1 || r.Repeated || r.Time.IsZero() {
		h.Fatalf("put state of %q after %d: got %+v, error %v, want revision %d with a time, not Repeated", w.ID, w.After, r, err, w.After+1)
	}
	return r
}

func (h *harness) deleteState(id annals.PersistenceID, after annals.SeqNr) {
	h.Helper()
	r, err := h.store.States().Delete(h.ctx, stateWrite(id, after)) // the payload is ignored
	if err != nil || r.SeqNr != after+1 {
		h.Fatalf("delete state of %q after %d: got %+v, error %v, want revision %d", id, after, r, err, after+1)
	}
}

// wantState checks that the state is revision want, as put writes it.
func (h *harness) wantState(id annals.PersistenceID, want annals.SeqNr) {
	h.Helper()
	s, ok, err := h.store.States().Get(h.ctx, id)
	if err != nil || !ok || s.ID != id || s.Revision != want || s.Deleted || s.Time.IsZero() || !equal(s.Payload, statePayload(want)) {
		h.Errorf("state of %q: got %v, revision %d of %q at %v, deleted %v, with %s, error %v, want revision %d with %s",
			id, ok, s.Revision, s.ID, s.Time, s.Deleted, show(s.Payload), err, want, show(statePayload(want)))
	}
}

// wantNoState checks that there is no state. revision is that of the tombstone, 0 for a state never written.
func (h *harness) wantNoState(id annals.PersistenceID, revision annals.SeqNr) {
	h.Helper()
	s, ok, err := h.store.States().Get(h.ctx, id)
	if err != nil || ok || s.Revision != revision || s.Deleted != (revision > 0) || len(s.Data) > 0 {
		h.Errorf("state of %q: got %v, revision %d, deleted %v, %s, error %v, want none, revision %d", id, ok, s.Revision, s.Deleted, show(s.Payload), err, revision)
	}
}

func revisionsGoOn(h *harness) {
	id := h.id()
	var after annals.SeqNr
	for range 3 {
		h.put(id, after)
		h.wantState(id, after+1)
		h.deleteState(id, after+1)
		h.wantNoState(id, after+2)
		h.deleteState(id, after+2)
		h.wantNoState(id, after+3)
		after += 3
		w := stateWrite(id, 0)
		w.WriteID = annals.WriteID{} // with one, so old a write would be ErrUnknown
		_, err := h.store.States().Put(h.ctx, w)
		h.wantKind(err, annals.ErrConflict, "put state with After 0 after the delete of revision %d", after)
	}
}

func oneStateWinner(h *harness) {
	h.oneStateWinnerOf(h.store)
}

func (h *harness) oneStateWinnerOf(stores ...annals.Store) {
	h.Helper()
	const writers = 8
	id := h.id()
	for after := range annals.SeqNr(h.volume(30, 8)) {
		errs := make([]error, writers)
		together(writers, func(i int) {
			w := stateWrite(id, after)
			w.Manifest = string(rune('a' + i))
			_, errs[i] = stores[i%len(stores)].States().Put(h.ctx, w)
		})
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				h.Fatalf("%d state writers after %d: got writers %d and %d as winners, want one", writers, after, winner, i)
			case err == nil:
				winner = i
			case !isConflict(err):
				h.Fatalf("state writer %d after %d: got error %v, want none or a conflict", i, after, err)
			}
		}
		s, ok, err := h.store.States().Get(h.ctx, id)
		if want := string(rune('a' + winner)); winner < 0 || err != nil || !ok || s.Revision != after+1 || s.Manifest != want {
			h.Fatalf("state after %d racing writers with After %d, won by %d: got %v, revision %d by %q, error %v", writers, after, winner, ok, s.Revision, s.Manifest, err)
		}
	}
}

func pausedStateWriter(h *harness) {
	id := h.id()
	h.put(id, 0)
	h.put(id, 1)
	h.deleteState(id, 2)
	for after := range annals.SeqNr(3) {
		_, err := h.store.States().Put(h.ctx, stateWrite(id, after))
		h.wantKind(err, annals.ErrConflict, "put state with After %d after a delete that left revision 3", after)
		_, err = h.store.States().Delete(h.ctx, annals.StateWrite{ID: id, After: after, WriteID: annals.NewWriteID()})
		h.wantKind(err, annals.ErrConflict, "delete state with After %d after a delete that left revision 3", after)
	}
	h.wantNoState(id, 3)
}

func stateTags(h *harness) {
	w := stateWrite(h.id(), 0)
	w.Tags = []string{"green", "with space, and comma", "日本"}
	h.putState(w)
	s, _, err := h.store.States().Get(h.ctx, w.ID)
	if err != nil || !sameTags(s.Tags, w.Tags) {
		h.Errorf("tags of a state: got %q, error %v, want %q", s.Tags, err, w.Tags)
	}
	h.put(w.ID, 1)
	if s, _, err = h.store.States().Get(h.ctx, w.ID); err != nil || len(s.Tags) != 0 {
		h.Errorf("tags of a state written without: got %q, error %v, want none", s.Tags, err)
	}
}

// withMetadata is w with metadata that name the revision.
func withMetadata(w annals.StateWrite) annals.StateWrite {
	w.Metadata = annals.Payload{SerializerID: 9, Manifest: "M", Data: fmt.Appendf(nil, "metadata of %d", w.After+1)}
	return w
}

func stateMetadataComeBack(h *harness) {
	id := h.id()
	want := func(metadata annals.Payload, found bool) {
		h.Helper()
		s, ok, err := h.store.States().Get(h.ctx, id)
		if err != nil || ok != found || !equal(s.Metadata, metadata) {
			h.Errorf("state of %q: got %v, revision %d with metadata %s, error %v, want %v with %s", id, ok, s.Revision, show(s.Metadata), err, found, show(metadata))
		}
		if !h.caps.StateQueries {
			return
		}
		for _, s := range h.queryStates(annals.Filter{}, 1) {
			if !equal(s.Metadata, metadata) {
				h.Errorf("query states: got revision %d with metadata %s, want %s", s.Revision, show(s.Metadata), show(metadata))
			}
		}
	}
	w := withMetadata(stateWrite(id, 0))
	h.putState(w)
	want(w.Metadata, true)
	h.put(id, 1) // without
	want(annals.Payload{}, true)
	w = withMetadata(stateWrite(id, 2))
	h.putState(w)
	want(w.Metadata, true)
	w = withMetadata(annals.StateWrite{ID: id, After: 3, WriteID: annals.NewWriteID()})
	if _, err := h.store.States().Delete(h.ctx, w); err != nil {
		h.Fatalf("delete state after 3 with metadata: got error %v, want none", err)
	}
	want(w.Metadata, false)
	h.put(id, 4)
	h.deleteState(id, 5)
	want(annals.Payload{}, false)
}

// withEvent is w with the event of its revision.
func withEvent(w annals.StateWrite) annals.StateWrite {
	w.Event = &annals.NewEvent{Payload: payload(w.After + 1)}
	return w
}

func eventsOfStates(h *harness) {
	id := h.id()
	h.putState(withEvent(stateWrite(id, 0)))
	h.putState(withEvent(stateWrite(id, 1)))
	r, err := h.store.States().Delete(h.ctx, withEvent(annals.StateWrite{ID: id, After: 2, WriteID: annals.NewWriteID()}))
	if err != nil || r.SeqNr != 3 {
		h.Fatalf("delete state after 2 with an event: got %+v, error %v, want revision 3", r, err)
	}
	h.putState(withEvent(stateWrite(id, 3)))
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 4)
	h.wantLast(id, 4)
	h.wantState(id, 4)
}

func noEventOfConflict(h *harness) {
	id := h.id()
	h.putState(withEvent(stateWrite(id, 0)))
	for _, after := range []annals.SeqNr{0, 5} {
		_, err := h.store.States().Put(h.ctx, withEvent(stateWrite(id, after)))
		h.wantKind(err, annals.ErrConflict, "put state with an event after %d at revision 1", after)
	}
	w := withEvent(stateWrite(id, 1))
	w.Event.SerializerID = 0
	_, err := h.store.States().Put(h.ctx, w)
	h.wantKind(err, annals.ErrInvalid, "put state with an event without serializer id")
	h.wantState(id, 1)
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 1)
}

// eventOutOfStep puts states with events where the last number of the journal is not the last revision.
func eventOutOfStep(h *harness) {
	id := h.id()
	h.put(id, 0)
	_, err := h.store.States().Put(h.ctx, withEvent(stateWrite(id, 1)))
	h.wantKind(err, annals.ErrInvalid, "put revision 2 with an event, when revision 1 had none")
	h.wantState(id, 1)
	h.wantLast(id, 0)
	other := h.id()
	h.write(other, 0, 2)
	_, err = h.store.States().Put(h.ctx, withEvent(stateWrite(other, 0)))
	h.wantKind(err, annals.ErrInvalid, "put revision 1 with an event, when the journal has two")
	h.wantNoState(other, 0)
	h.wantReplay(other, 1, annals.MaxSeqNr, 1, 2)
}

func racingStateEvents(h *harness) {
	id, rounds := h.id(), h.volume(20, 6)
	for after := range annals.SeqNr(rounds) {
		errs := make([]error, 4)
		together(len(errs), func(i int) { _, errs[i] = h.store.States().Put(h.ctx, withEvent(stateWrite(id, after))) })
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else if !isConflict(err) {
				h.Fatalf("put state with an event after %d: got error %v, want none or a conflict", after, err)
			}
		}
		h.wantEqual(won, 1, "winners of four state writes with events after %d", after)
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, annals.SeqNr(rounds))
	h.wantState(id, annals.SeqNr(rounds))
}

// sameTags compares tags as a set.
func sameTags(a, b []string) bool {
	set := func(tags []string) map[string]bool {
		m := map[string]bool{}
		for _, t := range tags {
			m[t] = true
		}
		return m
	}
	return equal(set(a), set(b))
}
