package storetest

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// recoveryCases run twice: with the store's Recoverer, and with the fallback of ability.Recover.
var recoveryCases = bothWays([]recoveryCase{
	{"J-E1", "sixteen single events, then the next number", needs(events), func(h *harness, s annals.Store) {
		id := h.id()
		for n := range annals.SeqNr(16) {
			h.append(h.commit(id, n, 1))
		}
		h.wantRecovered(s, id, 16)
		h.write(id, 16, 1)
		h.wantRecovered(s, id, 17)
	}},
	{"J-E2", "deletes to 3 and to 7", needs(events), func(h *harness, s annals.Store) {
		id := h.id()
		for n := range annals.SeqNr(16) {
			h.append(h.commit(id, n, 1))
		}
		h.deleteTo(id, 3)
		h.wantAfterDelete(s, id, 4, 16)
		h.deleteTo(id, 7)
		h.wantAfterDelete(s, id, 8, 16)
	}},
	{"J-E3", "a batch of six", needs(events), recoverSizes(6)},
	{"J-E4", "two batches of three", needs(events), recoverSizes(3, 3)},
	{"J-E5", "a batch of four", needs(events), recoverSizes(4)},
	{"J-E6", "six single events, five of them deleted", needs(events), func(h *harness, s annals.Store) {
		id := h.id()
		h.writeSizes(id, 0, 1, 1, 1, 1, 1, 1)
		h.deleteTo(id, 5)
		h.wantAfterDelete(s, id, 6, 6)
	}},
	{"RECOVER-1", "an entity never written", needs(events), func(h *harness, s annals.Store) {
		h.write(h.id(), 0, 2)
		h.wantRecovered(s, h.id(), 0)
	}},
	{"RECOVER-2", "all events deleted: the last number is known", needs(events), func(h *harness, s annals.Store) {
		id := h.id()
		h.write(id, 0, 7)
		h.deleteTo(id, annals.MaxSeqNr)
		h.wantAfterDelete(s, id, 8, 7)
	}},
	{"RECOVER-3", "a snapshot and the events after it", needs(events, snapshots), func(h *harness, s annals.Store) {
		id := h.id()
		last := h.write(id, 0, 10)
		for n := range annals.SeqNr(10) { // at every number, so also in the middle of commits
			h.saveSnapshot(snapshotOf(id, n+1))
			h.wantRecovered(s, id, last)
		}
	}},
	{"RECOVER-4", "a snapshot in the middle of a commit, and the later events of the commit", needs(events, snapshots), func(h *harness, s annals.Store) {
		id := h.id()
		last := h.writeSizes(id, 0, 2, 6, 1)
		for _, n := range []annals.SeqNr{3, 5, 7} {
			h.saveSnapshot(snapshotOf(id, n))
			h.wantRecovered(s, id, last)
			h.deleteTo(id, n-1)
			h.wantRecovered(s, id, last)
			h.deleteTo(id, n)
			h.wantRecovered(s, id, last)
		}
	}},
	{"RECOVER-5", "a snapshot of the last event, with and without events", needs(events, snapshots), func(h *harness, s annals.Store) {
		id := h.id()
		last := h.write(id, 0, 5)
		h.saveSnapshot(snapshotOf(id, last))
		h.wantRecovered(s, id, last)
		h.deleteTo(id, annals.MaxSeqNr)
		h.wantRecovered(s, id, last)
		h.wantRecovered(s, id, h.write(id, last, 2))
	}},
	{"RECOVER-6", "an older snapshot saved late is not used", needs(events, snapshots), func(h *harness, s annals.Store) {
		id := h.id()
		last := h.write(id, 0, 9)
		h.saveSnapshot(snapshotOf(id, 8))
		h.deleteTo(id, 8)
		h.saveSnapshot(snapshotOf(id, 4))
		h.wantRecovered(s, id, last)
	}},
	{"RECOVER-7", "many snapshots, many events", needs(events, snapshots), func(h *harness, s annals.Store) {
		id := h.id()
		last := h.write(id, 0, h.volume(2_600, 600))
		for n := annals.SeqNr(100); n <= 500; n += 100 {
			h.saveSnapshot(snapshotOf(id, n))
		}
		h.wantRecovered(s, id, last)
		h.saveSnapshot(snapshotOf(id, last-1))
		h.wantRecovered(s, id, last)
	}},
	{"RECOVER-8", "events deleted after the newest snapshot: the snapshot and the remaining events", needs(events, snapshots), func(h *harness, s annals.Store) {
		id := h.id()
		h.writeSizes(id, 0, 1, 8)
		h.saveSnapshot(snapshotOf(id, 2))
		h.deleteTo(id, 6)
		h.wantPieces(s, id, 2, 7, 9)
		h.deleteTo(id, annals.MaxSeqNr)
		h.wantPieces(s, id, 2, 10, 9)
	}},
	{"RECOVER-9", "an error of the caller's event function is returned unchanged", needs(events), func(h *harness, s annals.Store) {
		id := h.id()
		h.write(id, 0, 5)
		mine := errors.New("mine")
		seen := 0
		_, err := ability.Recover(h.ctx, s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error {
			if seen++; seen == 2 {
				return mine
			}
			return nil
		})
		if h.caps.Limits.FirstSnapshot { // the snapshot may cover the events
			return
		}
		if !unchanged(err, mine) || seen != 2 {
			h.Errorf("recovery whose event function fails at the second event: got error %v after %d events, want %v after 2", err, seen, mine)
		}
	}},
	{"RECOVER-10", "an error of the caller's snapshot function is returned unchanged", needs(events, snapshots), func(h *harness, s annals.Store) {
		id := h.id()
		h.write(id, 0, 5)
		h.saveSnapshot(snapshotOf(id, 3))
		mine := errors.New("mine")
		_, err := ability.Recover(h.ctx, s, id, func(annals.Snapshot) error { return mine }, func(e annals.Event) error {
			h.Errorf("recovery whose snapshot function fails: got event %d, want none", e.SeqNr)
			return nil
		})
		if !unchanged(err, mine) {
			h.Errorf("recovery whose snapshot function fails: got error %v, want %v", err, mine)
		}
	}},
	{"RECOVER-11", "a snapshot stored with its commit", needs(events, snapshots, commitSnapshot), func(h *harness, s annals.Store) {
		id := h.id()
		last := h.write(id, 0, 3)
		c := h.commit(id, last, h.batch(3))
		last += annals.SeqNr(len(c.Events))
		snap := snapshotOf(id, last)
		c.Snapshot = &snap
		h.append(c)
		h.wantRecovered(s, id, last)
		h.deleteTo(id, last)
		h.wantRecovered(s, id, last)
		h.wantRecovered(s, id, h.write(id, last, 2))
	}},
	{"RECOVER-13", "the snapshot is that of Latest, and the events are those of a replay, with times, tags and metadata", needs(events, snapshots), func(h *harness, s annals.Store) {
		id := h.id()
		for after := range annals.SeqNr(3) {
			h.append(decorate(h.commit(id, after, 1)))
		}
		h.wantSaved(annals.Snapshot{ID: id, SeqNr: 1, Payload: statePayload(1), Tags: someTags, Metadata: someMetadata})
		want, _, err := h.store.Snapshots().Latest(h.ctx, id, annals.SnapshotCriteria{})
		var snaps []annals.Snapshot
		var es []annals.Event
		_, failed := ability.Recover(h.ctx, s, id, func(s annals.Snapshot) error { snaps = append(snaps, s); return nil },
			func(e annals.Event) error { es = append(es, e); return nil })
		wantEvents := h.events(id, 2, 3)
		for i := range min(len(es), 2) { // which a recovery need not have
			es[i].WriteID, wantEvents[i].WriteID = annals.WriteID{}, annals.WriteID{}
		}
		if err != nil || failed != nil {
			h.Fatalf("load snapshot and recovery of %q: got errors %v and %v, want none", id, err, failed)
		}
		h.wantEqual(snaps, []annals.Snapshot{want}, "snapshot of a recovery")
		h.wantEqual(es, wantEvents, "events of a recovery")
	}},
	{"RECOVER-12", "all snapshots deleted, and all events left", needs(events, snapshots), func(h *harness, s annals.Store) {
		id := h.id()
		last := h.write(id, 0, 6)
		h.saveSnapshot(snapshotOf(id, 4))
		h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		h.wantRecovered(s, id, last)
	}},
})

type recoveryCase struct {
	id, about string
	needs     []need
	run       func(h *harness, s annals.Store)
}

// bothWays makes two cases of each recoveryCase.
func bothWays(cases []recoveryCase) (all []testCase) {
	for _, rc := range cases {
		all = append(all,
			testCase{id: rc.id, about: "recovery: " + rc.about, needs: rc.needs, run: func(h *harness) { rc.run(h, h.store) }},
			testCase{id: rc.id + "-fallback", about: "recovery without the store's own: " + rc.about, needs: rc.needs, run: func(h *harness) { rc.run(h, withoutAbilities{h.store}) }})
	}
	return all
}

// withoutAbilities hides the optional abilities of a store, as a decorator does.
type withoutAbilities struct{ annals.Store }

func recoverSizes(sizes ...int) func(h *harness, s annals.Store) {
	return func(h *harness, s annals.Store) {
		id := h.id()
		h.wantRecovered(s, id, h.writeSizes(id, 0, sizes...))
	}
}

// unchanged reports whether err is mine itself, not wrapped.
func unchanged(err, mine error) bool { return errors.Is(err, mine) && err.Error() == mine.Error() }

// recovered is an entity whose state is the sum of the numbers of its events.
type recovered struct {
	snapshot, first, seqNr annals.SeqNr // of the snapshot, of the first event, of the last snapshot or event; 0 = none
	sum                    int64
	hole                   string // after the first event
}

// recover recovers id from s.
func (h *harness) recover(s annals.Store, id annals.PersistenceID) (r recovered, last annals.SeqNr, err error) {
	return h.recoverBeside(s, id, func() {})
}

// recoverBeside is recover. It calls owner when the first snapshot has been passed on.
func (h *harness) recoverBeside(s annals.Store, id annals.PersistenceID, owner func()) (r recovered, last annals.SeqNr, err error) {
	begun := false
	last, err = ability.Recover(h.ctx, s, id, func(snap annals.Snapshot) error {
		if !begun {
			begun = true
			defer owner()
		}
		sum, err := strconv.ParseInt(string(snap.Data), 10, 64)
		r = recovered{snapshot: snap.SeqNr, seqNr: snap.SeqNr, sum: sum}
		if snap.ID != id || !equal(snap.Payload, statePayload(snap.SeqNr)) {
			r.hole = fmt.Sprintf("snapshot %d of %q with %s", snap.SeqNr, snap.ID, show(snap.Payload))
		}
		return err
	}, func(e annals.Event) error {
		switch {
		case e.ID != id || !equal(e.Payload, payload(e.SeqNr)):
			r.hole = fmt.Sprintf("event %d of %q with %s", e.SeqNr, e.ID, show(e.Payload))
		case r.first == 0:
			r.first = e.SeqNr
		case e.SeqNr != r.seqNr+1:
			r.hole = fmt.Sprintf("event %d after %d", e.SeqNr, r.seqNr)
		}
		r.seqNr, r.sum = e.SeqNr, r.sum+int64(e.SeqNr)
		return nil
	})
	return r, last, err
}

// fault says what is wrong with r as the complete state after number want; "" for nothing.
func (r recovered) fault(want annals.SeqNr) string {
	switch n := int64(want); {
	case r.hole != "":
		return "got " + r.hole
	case r.seqNr != want:
		return fmt.Sprintf("got a state after %d, want %d", r.seqNr, want)
	case r.first != 0 && r.first != r.snapshot+1:
		return fmt.Sprintf("got event %d first after snapshot %d", r.first, r.snapshot)
	case r.sum != n*(n+1)/2:
		return fmt.Sprintf("got state %d after %d, want %d", r.sum, n, n*(n+1)/2)
	}
	return ""
}

// wantRecovered checks that a recovery is the complete state after number want.
func (h *harness) wantRecovered(s annals.Store, id annals.PersistenceID, want annals.SeqNr) {
	h.Helper()
	r, last, err := h.recover(s, id)
	if fault := r.fault(want); err != nil || last != want || fault != "" {
		h.Errorf("recovery of %q: got last number %d, error %v, want %d; %s", id, last, err, want, fault)
	}
}

// wantAfterDelete checks that a recovery has the events first … last and no snapshot: the earlier events were deleted without one. Stores that
// require a snapshot with the first commit have that one.
func (h *harness) wantAfterDelete(s annals.Store, id annals.PersistenceID, first, last annals.SeqNr) {
	h.Helper()
	if h.caps.Limits.FirstSnapshot {
		h.through(s, func() { h.wantRecoverable(id, last) })
		return
	}
	h.wantPieces(s, id, 0, first, last)
}

// wantPieces checks that a recovery has a snapshot of a number (0 = none) and the events first … last.
func (h *harness) wantPieces(s annals.Store, id annals.PersistenceID, snapshot, first, last annals.SeqNr) {
	h.Helper()
	r, got, err := h.recover(s, id)
	want := recovered{snapshot: snapshot, seqNr: snapshot, sum: int64(snapshot) * (int64(snapshot) + 1) / 2}
	for n := first; n <= last; n++ {
		want.first, want.seqNr, want.sum = first, n, want.sum+int64(n)
	}
	if err != nil || got != last || r != want {
		h.Errorf("recovery of %q: got %+v with last number %d, error %v, want %+v with %d", id, r, got, err, want, last)
	}
}
