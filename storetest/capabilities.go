package storetest

import (
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// capabilityCases check that a store refuses or drops what it does not claim.
var capabilityCases = []testCase{
	{id: "CLAIM-1", about: "what is not claimed is refused with ErrUnsupported", run: unclaimedRefused},
	{id: "CLAIM-2", about: "without CommitSnapshot a commit with one is refused and not written", needs: needs(events), unless: needs(commitSnapshot), run: unclaimedCommitSnapshot},
	{id: "CLAIM-3", about: "without Tags they are dropped", needs: needs(events), unless: needs(tags), run: unclaimedTags},
	{id: "CLAIM-4", about: "without Metadata it is dropped", needs: needs(events), unless: needs(metadata), run: unclaimedMetadata},
	{id: "CLAIM-11", about: "without StateMetadata it is dropped", needs: needs(states), unless: needs(stateMetadata), run: unclaimedStateMetadata},
	{id: "CLAIM-5", about: "without EventTimes the store's clock is used", needs: needs(events), unless: needs(eventTimes), run: unclaimedTimes},
	{id: "CLAIM-12", about: "without Times events and receipts have none", needs: needs(events), unless: needs(times), run: unclaimedEventTimes},
	{id: "CLAIM-6", about: "without TagQueries a query by tag is refused", unless: needs(tagQueries), run: unclaimedTagQueries},
	{id: "CLAIM-7", about: "without StateEvents a write with one is refused and not written", needs: needs(states), unless: needs(stateEvents), run: unclaimedStateEvents},
	{id: "CLAIM-8", about: "without ManySnapshots only the newest snapshot is kept", needs: needs(snapshots), unless: needs(manySnapshots), run: unclaimedManySnapshots},
	{id: "CLAIM-9", about: "tags are kept", needs: needs(events, tags), run: tagsComeBack},
	{id: "CLAIM-10", about: "no claim without the claims that it needs", run: claimsFit},
}

func unclaimedRefused(h *harness) {
	if h.caps.Events {
		h.write(h.id(), 0, 1) // a subscription that is not refused does not wait
	}
	for _, op := range h.operations(h.store, "Thing|unclaimed") {
		if !op.claimed {
			h.wantNamed(op.run(h.ctx, h.store), annals.ErrUnsupported, op, "which the store does not claim")
		}
	}
}

func unclaimedCommitSnapshot(h *harness) {
	id := h.id()
	c := h.commit(id, 0, 1)
	s := snapshotOf(id, 1)
	c.Snapshot = &s
	_, err := h.journal().Append(h.ctx, c)
	h.wantKind(err, annals.ErrUnsupported, "append a commit with a snapshot where CommitSnapshot is not claimed")
	h.wantLast(id, 0)
}

// Tags and metadata of what a case decorates.
var (
	someTags     = []string{"green", "with space, and comma", "日本"}
	someMetadata = annals.Payload{SerializerID: 9, Manifest: "M", Data: []byte("meta-data")}
)

// decorate gives the first event of c tags and metadata.
func decorate(c annals.Commit) annals.Commit {
	c.Events[0].Tags, c.Events[0].Metadata = someTags, someMetadata
	return c
}

// decorated appends one event with tags and metadata.
func (h *harness) decorated() annals.Event {
	h.Helper()
	id := h.id()
	h.append(decorate(h.commit(id, 0, 1)))
	return h.events(id, 1, 1)[0]
}

func tagsComeBack(h *harness) {
	if got := h.decorated().Tags; !sameTags(got, someTags) {
		h.Errorf("tags of an event: got %q, want %q", got, someTags)
	}
}

func unclaimedTags(h *harness) {
	if got := h.decorated().Tags; len(got) > 0 {
		h.Errorf("tags of an event where Tags is not claimed: got %q, want none (or the claim)", got)
	}
}

func unclaimedMetadata(h *harness) {
	if got := h.decorated().Metadata; !equal(got, annals.Payload{}) {
		h.Errorf("metadata of an event where Metadata is not claimed: got %s, want none (or the claim)", show(got))
	}
}

func unclaimedStateMetadata(h *harness) {
	w := withMetadata(stateWrite(h.id(), 0))
	h.putState(w)
	s, _, err := h.store.States().Get(h.ctx, w.ID)
	if err != nil || !equal(s.Metadata, annals.Payload{}) {
		h.Errorf("metadata of a state where StateMetadata is not claimed: got %s, error %v, want none (or the claim)", show(s.Metadata), err)
	}
}

func unclaimedTimes(h *harness) {
	id, past := h.id(), time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	c := h.commit(id, 0, 1)
	c.Events[0].Time = past
	h.append(c)
	for _, e := range h.replay(id, 1, annals.MaxSeqNr) {
		if e.Time.Equal(past) {
			h.Errorf("time of an event where EventTimes is not claimed: got the writer's %v, want the store's clock (or the claim)", past)
		}
	}
}

func unclaimedEventTimes(h *harness) {
	id := h.id()
	c := h.commit(id, 0, h.batch(2))
	r := h.append(c)
	if !r.Time.IsZero() {
		h.Errorf("time of a receipt where Times is not claimed: got %v, want none (or the claim)", r.Time)
	}
	imported := h.commit(id, r.SeqNr, 1)
	imported.Events[0].Time = takenAt(1)
	h.append(imported)
	check := func(did string, es ...annals.Event) {
		for _, e := range es {
			if !e.Time.IsZero() {
				h.Errorf("%s: got time %v of number %d where Times is not claimed, want none (or the claim)", did, e.Time, e.SeqNr)
			}
		}
	}
	check("replay", h.replay(id, 1, annals.MaxSeqNr)...)
	_, err := ability.Recover(h.ctx, h.store, id, func(annals.Snapshot) error { return nil }, func(e annals.Event) error {
		check("recovery", e)
		return nil
	})
	h.wantKind(err, nil, "recovery")
}

func unclaimedTagQueries(h *harness) {
	f := annals.Filter{Tag: "green"}
	if h.caps.EventQueries {
		_, err := collect(h.store.Query().Events(h.ctx, f))
		h.wantKind(err, annals.ErrUnsupported, "query events by tag where TagQueries is not claimed")
		_, err = h.store.Query().Newest(h.ctx, f)
		h.wantKind(err, annals.ErrUnsupported, "query the newest offset by tag where TagQueries is not claimed")
	}
	if h.caps.StateQueries {
		_, err := collect(h.store.Query().States(h.ctx, f))
		h.wantKind(err, annals.ErrUnsupported, "query states by tag where TagQueries is not claimed")
	}
	if h.caps.SnapshotQueries {
		_, err := collect(h.store.Query().Snapshots(h.ctx, f))
		h.wantKind(err, annals.ErrUnsupported, "query snapshots by tag where TagQueries is not claimed")
	}
}

func unclaimedStateEvents(h *harness) {
	id := h.id()
	_, err := h.store.States().Put(h.ctx, withEvent(stateWrite(id, 0)))
	h.wantKind(err, annals.ErrUnsupported, "put a state with an event where StateEvents is not claimed")
	_, err = h.store.States().Delete(h.ctx, withEvent(stateWrite(id, 0)))
	h.wantKind(err, annals.ErrUnsupported, "delete a state with an event where StateEvents is not claimed")
	h.wantNoState(id, 0)
}

func unclaimedManySnapshots(h *harness) {
	id := h.id()
	h.snapshotFixture(id)
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 15)
	h.wantSnapshot(id, annals.SnapshotCriteria{MaxSeqNr: 13}, 0)
	h.saveSnapshot(snapshotAt(id, 12)) // dropped, without an error
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 15)
}

// claimsFit checks that the claims and limits do not contradict each other.
func claimsFit(h *harness) {
	c := h.caps
	for _, claim := range []struct {
		name         string
		made, needed bool
		what         string
	}{
		{"EventQueries", c.EventQueries, c.Events && c.Times, "Events and Times"},
		{"IDQueries", c.IDQueries, c.Events || c.States, "Events or States"},
		{"StateQueries", c.StateQueries, c.States, "States"},
		{"CommitSnapshot", c.CommitSnapshot, c.Events && c.Snapshots, "Events and Snapshots"},
		{"ManySnapshots", c.ManySnapshots, c.Snapshots, "Snapshots"},
		{"SnapshotQueries", c.SnapshotQueries, c.Snapshots && c.Times, "Snapshots and Times"},
		{"TagQueries", c.TagQueries, c.Tags && (c.EventQueries || c.StateQueries), "Tags, and EventQueries or StateQueries"},
		{"Times", c.Times, c.Events, "Events"},
		{"EventTimes", c.EventTimes, c.Times, "Times"},
		{"StateMetadata", c.StateMetadata, c.States, "States"},
		{"DeletesStates", c.DeletesStates, c.States, "States"},
		{"StateEvents", c.StateEvents, c.Events && c.States, "Events and States"},
		{"IdempotentState", c.IdempotentState, c.States, "States"},
		{"Lateness", c.Lateness != 0, c.Lateness > 0 && (c.EventQueries || c.StateQueries || c.IDQueries), "at least 0, and EventQueries, StateQueries or IDQueries"},
		{"Repeatable", c.Repeatable, c.Events, "Events"},
		{"FenceAfterDelete", c.FenceAfterDelete, c.Events, "Events"},
		{"GuardsReads", c.GuardsReads, c.Events || c.States, "Events or States"},
		{"ability.Forgetter", is[ability.Forgetter](h.store), c.Events || c.States, "Events or States"},
		{"ability.Skipper", is[ability.Skipper](h.store), c.Events, "Events"},
		{"ability.StateSkipper", is[ability.StateSkipper](h.store), c.States, "States"},
		{"ability.Subscriber", is[ability.Subscriber](h.store), c.Events, "Events"},
		{"Limits.FirstSnapshot", c.Limits.FirstSnapshot, c.CommitSnapshot, "CommitSnapshot"},
		{"Limits", true, min(c.Limits.MaxEvents, c.Limits.MaxBytes, c.Limits.MaxIDBytes, c.Limits.MaxIDChars) >= 0, "no negative number"},
		{"Limits.MaxIDBytes", c.Limits.MaxIDBytes > 0, c.Limits.MaxIDBytes >= 200, "at least 200"},
		{"Limits.MaxIDChars", c.Limits.MaxIDChars > 0, c.Limits.MaxIDChars >= 200, "at least 200"},
	} {
		if claim.made && !claim.needed {
			h.Errorf("capabilities: got %s without what it needs, want %s", claim.name, claim.what)
		}
	}
	h.wantEqual(h.store.Capabilities(), c, "capabilities of a second store")
}

// is reports whether s has the ability A.
func is[A any](s annals.Store) bool {
	_, err := ability.Of[A](s)
	return err == nil
}
