package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/annals-go/annals"
)

var refusalCases = []testCase{
	{id: "REFUSE-1", about: "an invalid commit is ErrInvalid and nothing is written", needs: needs(events), run: wrongCommits},
	{id: "REFUSE-2", about: "an invalid snapshot is ErrInvalid and nothing is written", needs: needs(snapshots), run: wrongSnapshots},
	{id: "REFUSE-3", about: "an invalid state write is ErrInvalid and nothing is written", needs: needs(states), run: wrongStateWrites},
	{id: "REFUSE-5", about: "errors are an *annals.Error with the id, and repeat no payload", needs: needs(events), run: errorsCarryID},
	{id: "REFUSE-6", about: "the first commit of an entity must carry a snapshot", needs: needs(events, firstSnapshot), run: missingFirstSnapshot},
	{id: "REFUSE-7", about: "manifests, tags and metadata count for Limits.MaxBytes", needs: needs(events, sizeLimit), run: largeBeside},
	{id: "REFUSE-8", about: "errors about long ids, tags and names are short", needs: needs(events), run: shortErrors},
	{id: "REFUSE-9", about: "an After above the last number is ErrConflict and nothing is written", needs: needs(events), run: inventedAfter},
}

func wrongCommits(h *harness) {
	id, none, size := h.id(), h.id(), h.batch(2)
	last := h.write(id, 0, 2) + annals.SeqNr(size)
	for what, change := range map[string]func(c *annals.Commit){
		"without events":                     func(c *annals.Commit) { c.Events = nil },
		"without events of a new entity":     func(c *annals.Commit) { c.ID, c.After, c.Events = none, 0, nil },
		"with After -1":                      func(c *annals.Commit) { c.After = -1 },
		"with After MaxSeqNr":                func(c *annals.Commit) { c.After = annals.MaxSeqNr },
		"without an id":                      func(c *annals.Commit) { c.ID = "" },
		"without a serializer id":            func(c *annals.Commit) { c.Events[0].SerializerID = 0 },
		"with a manifest that is no UTF-8":   func(c *annals.Commit) { c.Events[0].Manifest = "\xff" },
		"with U+0000 in a manifest":          func(c *annals.Commit) { c.Events[0].Manifest = "a\x00b" },
		"with an empty tag":                  func(c *annals.Commit) { c.Events[0].Tags = []string{"a", ""} },
		"with a tag that is no UTF-8":        func(c *annals.Commit) { c.Events[0].Tags = []string{"\xc3"} },
		"with metadata without serializer":   func(c *annals.Commit) { c.Events[0].Metadata = annals.Payload{Data: []byte("x")} },
		"with a snapshot of number 0":        func(c *annals.Commit) { s := snapshotOf(c.ID, 0); c.Snapshot = &s },
		"with a snapshot of an older number": func(c *annals.Commit) { s := snapshotOf(c.ID, 2); c.Snapshot = &s },
		"with a snapshot before its last":    func(c *annals.Commit) { s := snapshotOf(c.ID, last-1); c.Snapshot = &s },
		"with a snapshot of a later number":  func(c *annals.Commit) { s := snapshotOf(c.ID, last+1); c.Snapshot = &s },
		"with a snapshot of another entity":  func(c *annals.Commit) { s := snapshotOf("Thing|other", last); c.Snapshot = &s },
		"with a snapshot without serializer": func(c *annals.Commit) { c.Snapshot = &annals.Snapshot{ID: c.ID, SeqNr: last} },
	} {
		c := h.commit(id, 2, size)
		change(&c)
		r, err := h.journal().Append(h.ctx, c)
		h.wantKind(err, annals.ErrInvalid, "append a commit %s (receipt %v)", what, r)
	}
	h.wantReplay(id, 1, annals.MaxSeqNr, 1, 2)
	h.wantLast(id, 2)
	h.wantLast(none, 0)
}

func inventedAfter(h *harness) {
	for _, last := range []annals.SeqNr{0, 3} {
		id := h.id()
		h.write(id, 0, int(last))
		for _, above := range []annals.SeqNr{1, 2, 1000} {
			r, err := h.journal().Append(h.ctx, h.commit(id, last+above, 1))
			h.wantKind(err, annals.ErrConflict, "append after %d to an entity whose last number is %d (receipt %v)", last+above, last, r)
		}
		h.wantLast(id, last)
		h.write(id, last, 2)
		h.wantReplay(id, 1, annals.MaxSeqNr, 1, last+2)
	}
}

func wrongSnapshots(h *harness) {
	id := h.id()
	for what, change := range map[string]func(s *annals.Snapshot){
		"of number 0":              func(s *annals.Snapshot) { s.SeqNr = 0 },
		"of number -3":             func(s *annals.Snapshot) { s.SeqNr = -3 },
		"without an id":            func(s *annals.Snapshot) { s.ID = "" },
		"without a serializer id":  func(s *annals.Snapshot) { s.SerializerID = 0 },
		"with U+0000 in its tag":   func(s *annals.Snapshot) { s.Tags = []string{"\x00"} },
		"with metadata without id": func(s *annals.Snapshot) { s.Metadata = annals.Payload{Manifest: "m"} },
	} {
		s := snapshotOf(id, 7)
		change(&s)
		h.wantKind(h.store.Snapshots().Save(h.ctx, s), annals.ErrInvalid, "save a snapshot %s", what)
	}
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 0)
	h.wantKind(h.store.Snapshots().Delete(h.ctx, id, annals.SnapshotCriteria{MinSeqNr: 1}), annals.ErrInvalid, "delete snapshots without an upper bound")
}

func wrongStateWrites(h *harness) {
	id := h.id()
	h.put(id, 0)
	for what, change := range map[string]func(w *annals.StateWrite){
		"with After -1":           func(w *annals.StateWrite) { w.After = -1 },
		"without an id":           func(w *annals.StateWrite) { w.ID = "" },
		"with an empty tag":       func(w *annals.StateWrite) { w.Tags = []string{""} },
		"without a serializer id": func(w *annals.StateWrite) { w.SerializerID = 0 },
	} {
		w := stateWrite(id, 1)
		change(&w)
		_, err := h.store.States().Put(h.ctx, w)
		h.wantKind(err, annals.ErrInvalid, "put a state %s", what)
		if w.SerializerID != 0 && h.caps.DeletesStates { // a delete has no payload
			_, err = h.store.States().Delete(h.ctx, w)
			h.wantKind(err, annals.ErrInvalid, "delete a state %s", what)
		}
	}
	h.wantState(id, 1)
	if limit := h.caps.Limits.MaxBytes; limit > 0 {
		w := stateWrite(id, 1)
		w.Data = make([]byte, limit+1)
		_, err := h.store.States().Put(h.ctx, w)
		h.wantKind(err, annals.ErrTooLarge, "put a state of %d bytes where Limits.MaxBytes is %d", limit+1, limit)
		h.wantState(id, 1)
	}
}

// errorsCarryID checks the fields of a conflict: the entity and both numbers. The last number may be 0 for not known.
func errorsCarryID(h *harness) {
	const secret = "s3cret"
	id := h.id()
	h.write(id, 0, 3)
	c := h.commit(id, 0, 1)
	c.Events[0].Data = []byte(secret)
	_, err := h.journal().Append(h.ctx, c)
	h.wantKind(err, annals.ErrConflict, "append after 0 to an entity with three events")
	var e *annals.Error
	if !errors.As(err, &e) {
		h.Fatalf("append after 0: got error %T, want *annals.Error", err)
	}
	if e.ID != id || e.Op == "" || e.After != 0 || e.Last != 0 && e.Last != 3 {
		h.Errorf("conflict: got operation %q, id %q, after %d, last %d, want an operation, %q, 0 and 3 (or 0 for not known)", e.Op, e.ID, e.After, e.Last, id)
	}
	c.After, c.Events[0].SerializerID = 3, 0
	_, invalid := h.journal().Append(h.ctx, c)
	if !errors.As(invalid, &e) || e.ID != id {
		h.Errorf("append a payload without serializer id: got error %v, want an *annals.Error of %q", invalid, id)
	}
	if text := fmt.Sprintf("%v %+v %v %+v", err, err, invalid, invalid); strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%d", []byte(secret))) {
		h.Errorf("refused appends: got errors that repeat a payload: %s", text)
	}
}

func missingFirstSnapshot(h *harness) {
	id := h.id()
	c := h.commit(id, 0, 1)
	c.Snapshot = nil
	_, err := h.journal().Append(h.ctx, c)
	h.wantKind(err, annals.ErrInvalid, "first commit of an entity without a snapshot")
	h.wantLast(id, 0)
}

func largeBeside(h *harness) {
	id, limit := h.id(), h.caps.Limits.MaxBytes
	large := strings.Repeat("x", limit)
	after := h.write(id, 0, 1)
	for what, add := range map[string]func(e *annals.NewEvent){
		"a manifest":               func(e *annals.NewEvent) { e.Manifest = large },
		"tags":                     func(e *annals.NewEvent) { e.Tags = []string{large[:limit/2], large[limit/2:]} },
		"metadata":                 func(e *annals.NewEvent) { e.Metadata = annals.Payload{SerializerID: 4, Data: []byte(large)} },
		"a manifest of metadata":   func(e *annals.NewEvent) { e.Metadata = annals.Payload{SerializerID: 4, Manifest: large} },
		"a manifest of an adapter": func(e *annals.NewEvent) { e.Adapter = large },
	} {
		c := h.commit(id, after, 1)
		add(&c.Events[0])
		_, err := h.journal().Append(h.ctx, c)
		h.wantKind(err, annals.ErrTooLarge, "append an event with %s of %d bytes where Limits.MaxBytes is %d", what, limit, limit)
	}
	h.wantLast(id, after)
	if h.caps.Snapshots {
		for what, s := range map[string]annals.Snapshot{
			"a manifest": {Payload: annals.Payload{SerializerID: 4, Manifest: large, Data: []byte("x")}},
			"tags":       {Payload: payload(1), Tags: []string{large}},
			"metadata":   {Payload: payload(1), Metadata: annals.Payload{SerializerID: 4, Manifest: large}},
		} {
			s.ID, s.SeqNr = id, after
			h.wantKind(h.store.Snapshots().Save(h.ctx, s), annals.ErrTooLarge, "save a snapshot with %s of %d bytes", what, limit)
		}
	}
	if h.caps.States {
		for what, add := range map[string]func(w *annals.StateWrite){
			"a manifest": func(w *annals.StateWrite) { w.Manifest = large }, "tags": func(w *annals.StateWrite) { w.Tags = []string{large} },
		} {
			w := stateWrite(h.id(), 0)
			add(&w)
			_, err := h.store.States().Put(h.ctx, w)
			h.wantKind(err, annals.ErrTooLarge, "put a state with %s of %d bytes", what, limit)
		}
	}
}

// shortErrors uses invalid ids, tags and names of a megabyte.
func shortErrors(h *harness) {
	const most = 16 << 10
	long := strings.Repeat("\x00", 1<<20)
	short := func(err error, did string) {
		h.Helper()
		h.wantKind(err, annals.ErrInvalid, "%s", did)
		if err != nil && len(err.Error()) > most {
			h.Errorf("%s: got an error of %d bytes, want at most %d", did, len(err.Error()), most)
		}
	}
	id := annals.PersistenceID(long)
	_, err := h.journal().Append(h.ctx, annals.Commit{ID: id, Events: newEvents(0, 1)})
	short(err, "append to a long id")
	_, err = h.journal().LastSeqNr(h.ctx, id)
	short(err, "last number of a long id")
	_, err = collect(h.journal().Replay(h.ctx, id, 1, annals.MaxSeqNr))
	short(err, "replay of a long id")
	c := h.commit(h.id(), 0, h.batch(100))
	for i := range c.Events {
		c.Events[i].Tags = []string{long}
	}
	_, err = h.journal().Append(h.ctx, c)
	short(err, "append with long tags")
	if h.caps.Offsets {
		short(h.store.Offsets().Save(h.ctx, annals.Progress{Projection: long}), "save offsets of a long name")
	}
}
