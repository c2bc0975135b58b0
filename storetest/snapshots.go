package storetest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

var snapshotCases = append(snapshotTable(), []testCase{
	{id: "S-01", about: "no snapshot of an entity that has none", needs: needs(snapshots), run: func(h *harness) {
		h.snapshotFixture(h.id())
		h.wantSnapshot(h.id(), annals.SnapshotCriteria{}, 0)
	}},
	{id: "S-07", about: "delete 13 alone: 12 is the newest up to 13", needs: needs(snapshots, manySnapshots), run: func(h *harness) {
		id := h.id()
		h.snapshotFixture(id)
		h.deleteSnapshots(id, annals.SnapshotCriteria{MinSeqNr: 13, MaxSeqNr: 13})
		h.wantSnapshot(id, annals.SnapshotCriteria{MinSeqNr: 2, MaxSeqNr: 13}, 12)
		h.wantSnapshot(id, annals.SnapshotCriteria{}, 15)
	}},
	{id: "S-08", about: "delete up to 13 and its time: 14 is left", needs: needs(snapshots, manySnapshots), run: func(h *harness) {
		id := h.id()
		h.snapshotFixture(id)
		h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: 13, MaxTime: takenAt(13)})
		h.wantSnapshot(id, annals.SnapshotCriteria{MaxSeqNr: 13, MaxTime: takenAt(13)}, 0)
		h.wantSnapshot(id, annals.SnapshotCriteria{MaxSeqNr: 14, MaxTime: takenAt(14)}, 14)
	}},
	{id: "S-09", about: "delete up to 14, but before its time: 14 survives", needs: needs(snapshots, manySnapshots), run: func(h *harness) {
		id := h.id()
		h.snapshotFixture(id)
		h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: 14, MaxTime: takenAt(14).Add(-time.Millisecond)})
		h.wantSnapshot(id, annals.SnapshotCriteria{MaxSeqNr: 14, MaxTime: takenAt(14)}, 14)
	}},
	{id: "S-10", about: "a second save of a number replaces the first", needs: needs(snapshots), run: func(h *harness) {
		id := h.id()
		h.snapshotFixture(id)
		h.wantSaved(annals.Snapshot{ID: id, SeqNr: 15, Payload: payload(77)})
	}},
	{id: "S-11", about: "a snapshot of ten thousand characters", needs: needs(snapshots), run: func(h *harness) {
		s := snapshotOf(h.id(), 100)
		fill(&s.Payload, min(10_000, cmp.Or(h.caps.Limits.MaxBytes, 10_000)))
		h.wantSaved(s)
	}},
	{id: "S-O1", about: "serializer id, manifest and bytes are kept", needs: needs(snapshots), run: func(h *harness) {
		id := h.id()
		h.snapshotFixture(id)
		h.wantSaved(annals.Snapshot{ID: id, SeqNr: 100, Payload: annals.Payload{SerializerID: 666, Manifest: "A", Data: []byte("akka://sys/\x00\xff")}})
	}},
	{id: "S-O2", about: "metadata and tags are kept, or dropped where they are not claimed", needs: needs(snapshots), run: func(h *harness) {
		s := snapshotOf(h.id(), 100)
		s.Metadata, s.Tags = someMetadata, someTags
		h.wantSaved(s)
	}},
	{id: "S-D1", about: "a snapshot above the limit is refused", needs: needs(snapshots, sizeLimit), run: largeSnapshot},
	{id: "SNAPSHOT-1", about: "an older snapshot saved late does not become the newest", needs: needs(snapshots), run: olderSavedLate},
	{id: "SNAPSHOT-2", about: "after concurrent saves the highest number is the newest", needs: needs(snapshots), run: racingSaves},
	{id: "SNAPSHOT-3", about: "the newest snapshot never goes back during saves", needs: needs(snapshots), run: newestNeverGoesBack},
	{id: "SNAPSHOT-4", about: "deletes can be repeated, of an unknown entity too", needs: needs(snapshots), run: repeatedSnapshotDeletes},
	{id: "SNAPSHOT-5", about: "a save without a time gets the store's clock", needs: needs(snapshots), run: snapshotTime},
	{id: "SNAPSHOT-6", about: "lower bounds of number and time are inclusive", needs: needs(snapshots, manySnapshots), run: lowerBounds},
	{id: "SNAPSHOT-8", about: "a delete up to a number below the newest keeps the newest", needs: needs(snapshots), run: pruneKeepsNewest},
	{id: "SNAPSHOT-9", about: "there is always a snapshot while new ones are saved and older ones deleted", needs: needs(snapshots), run: alwaysOneSnapshot},
	{id: "SNAPSHOT-10", about: "a large snapshot that is saved again under its number is read whole, and is that saved last", needs: needs(events, snapshots), run: largeSavedAgain},
}...)

// snapshotTable are the cases that only load a snapshot of the fixture.
func snapshotTable() (all []testCase) {
	for _, r := range []struct {
		id, about string
		criteria  annals.SnapshotCriteria
		want      annals.SeqNr
		needs     []need
	}{
		{"S-02", "none as old as the bound", annals.SnapshotCriteria{MaxTime: time.UnixMilli(100)}, 0, needs(snapshots)},
		{"S-03", "none up to 7", annals.SnapshotCriteria{MaxSeqNr: 7}, 0, needs(snapshots)},
		{"S-04", "the newest is 15", annals.SnapshotCriteria{}, 15, needs(snapshots)},
		{"S-05", "the newest up to 13", annals.SnapshotCriteria{MaxSeqNr: 13}, 13, needs(snapshots, manySnapshots)},
		{"S-06", "the newest up to 13 and its time", annals.SnapshotCriteria{MaxSeqNr: 13, MaxTime: takenAt(13)}, 13, needs(snapshots, manySnapshots)},
		{"S-06b", "the newest up to the time of 13", annals.SnapshotCriteria{MaxTime: takenAt(13)}, 13, needs(snapshots, manySnapshots)},
	} {
		all = append(all, testCase{id: r.id, about: r.about, needs: r.needs, run: func(h *harness) {
			id := h.id()
			h.snapshotFixture(id)
			h.wantSnapshot(id, r.criteria, r.want)
		}})
	}
	return all
}

// takenAt is the time of snapshot n of the fixture. The times are a minute apart and have milliseconds, as some tables keep no more.
func takenAt(n annals.SeqNr) time.Time {
	return time.Date(2024, 5, 1, 12, int(n), 0, 7_000_000, time.UTC)
}

func snapshotAt(id annals.PersistenceID, n annals.SeqNr) annals.Snapshot {
	s := snapshotOf(id, n)
	s.Time = takenAt(n)
	return s
}

// snapshotFixture saves snapshots 11 … 15, one after another.
func (h *harness) snapshotFixture(id annals.PersistenceID) {
	h.Helper()
	for n := annals.SeqNr(11); n <= 15; n++ {
		h.saveSnapshot(snapshotAt(id, n))
	}
}

// wantSnapshot checks that the snapshot of number want is the newest that fits c; 0 means none.
func (h *harness) wantSnapshot(id annals.PersistenceID, c annals.SnapshotCriteria, want annals.SeqNr) {
	h.Helper()
	s, ok, err := h.store.Snapshots().Latest(h.ctx, id, c)
	switch {
	case err != nil || ok != (want > 0) || s.SeqNr != want:
		h.Errorf("newest snapshot of %q that fits %+v: got %v, number %d, error %v, want number %d (0 is none)", id, c, ok, s.SeqNr, err, want)
	case ok && (s.ID != id || !equal(s.Payload, statePayload(want))):
		h.Errorf("snapshot %d of %q: got one of %q with %s, want %s", want, id, s.ID, show(s.Payload), show(statePayload(want)))
	case ok && (s.Time.IsZero() || !s.EventTime.IsZero()):
		h.Errorf("snapshot %d of %q: got the times %v and, of its event, %v, want the first only", want, id, s.Time, s.EventTime)
	}
}

func (h *harness) deleteSnapshots(id annals.PersistenceID, c annals.SnapshotCriteria) {
	h.Helper()
	if err := h.store.Snapshots().Delete(h.ctx, id, c); err != nil {
		h.Fatalf("delete snapshots of %q that fit %+v: got error %v, want none", id, c, err)
	}
}

// wantSaved saves s and checks that it is the newest snapshot.
func (h *harness) wantSaved(s annals.Snapshot) {
	h.Helper()
	h.saveSnapshot(s)
	if !h.caps.Tags {
		s.Tags = nil
	}
	if !h.caps.Metadata {
		s.Metadata = annals.Payload{}
	}
	got, ok, err := h.store.Snapshots().Latest(h.ctx, s.ID, annals.SnapshotCriteria{})
	if len(got.Tags) == 0 && !h.caps.SnapshotQueries { // which tags are for
		s.Tags = nil
	}
	if err != nil || !ok || got.ID != s.ID || got.SeqNr != s.SeqNr || !equal(got.Payload, s.Payload) || !equal(got.Metadata, s.Metadata) || !sameTags(got.Tags, s.Tags) {
		h.Errorf("newest snapshot of %q: got %v, number %d of %q with %s, metadata %s and tags %q, error %v, want number %d with %s, metadata %s and tags %q",
			s.ID, ok, got.SeqNr, got.ID, show(got.Payload), show(got.Metadata), got.Tags, err, s.SeqNr, show(s.Payload), show(s.Metadata), s.Tags)
	}
}

func largeSnapshot(h *harness) {
	id, limit := h.id(), h.caps.Limits.MaxBytes
	s := snapshotOf(id, 1)
	s.Data = make([]byte, limit+1)
	h.wantKind(h.store.Snapshots().Save(h.ctx, s), annals.ErrTooLarge, "save a snapshot of %d bytes where Limits.MaxBytes is %d", limit+1, limit)
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 0)
	fill(&s.Payload, limit)
	h.wantSaved(s)
}

func olderSavedLate(h *harness) {
	id := h.id()
	h.saveSnapshot(snapshotAt(id, 20))
	h.saveSnapshot(snapshotAt(id, 15))
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 20)
	h.saveSnapshot(snapshotOf(id, 10)) // its time is later than that of 20
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 20)
	if h.caps.ManySnapshots {
		h.wantSnapshot(id, annals.SnapshotCriteria{MaxSeqNr: 19}, 15)
		h.wantSnapshot(id, annals.SnapshotCriteria{MaxSeqNr: 14}, 10)
	}
}

func racingSaves(h *harness) {
	for range h.volume(5, 2) {
		id := h.id()
		order := shuffled(h.volume(32, 12))
		errs := make([]error, len(order))
		together(len(order), func(i int) { errs[i] = h.store.Snapshots().Save(h.ctx, snapshotOf(id, order[i])) })
		if err := errors.Join(errs...); err != nil {
			h.Fatalf("%d racing saves: got error %v, want none", len(order), err)
		}
		h.wantSnapshot(id, annals.SnapshotCriteria{}, annals.SeqNr(len(order)))
	}
}

func newestNeverGoesBack(h *harness) {
	id := h.id()
	done := make(chan struct{})
	errs := make([]error, 3)
	together(3, func(i int) {
		switch i {
		case 0:
			defer close(done)
			for n := range annals.SeqNr(h.volume(60, 20)) {
				if errs[0] = h.store.Snapshots().Save(h.ctx, snapshotOf(id, n+1)); errs[0] != nil {
					return
				}
			}
		case 1:
			for n := annals.SeqNr(1); running(done) && errs[1] == nil; n = n%5 + 1 { // older ones
				errs[1] = h.store.Snapshots().Save(h.ctx, snapshotOf(id, n))
			}
		case 2:
			var seen annals.SeqNr
			for running(done) && errs[2] == nil {
				s, _, err := h.store.Snapshots().Latest(h.ctx, id, annals.SnapshotCriteria{})
				if errs[2] = err; err == nil && s.SeqNr < seen {
					errs[2] = fmt.Errorf("newest snapshot: got %d after %d, want it never to go back", s.SeqNr, seen)
				}
				seen = s.SeqNr
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("saves and reads of snapshots side by side: %v", err)
	}
}

// alwaysOneSnapshot loads snapshots while each one is deleted after the next one is saved.
func alwaysOneSnapshot(h *harness) {
	const readers = 2
	id, rounds := h.id(), h.volume(60, 20)
	h.saveSnapshot(snapshotOf(id, 1))
	var reading atomic.Int32
	reading.Store(readers)
	errs := make([]error, 1+readers)
	together(len(errs), func(i int) {
		if i == 0 {
			for n := annals.SeqNr(1); reading.Load() > 0 && errs[0] == nil; n++ {
				runtime.Gosched() // the reads may share the processor
				errs[0] = errors.Join(h.store.Snapshots().Save(h.ctx, snapshotOf(id, n+1)), h.store.Snapshots().Delete(h.ctx, id, annals.SnapshotCriteria{MaxSeqNr: n}))
			}
			return
		}
		defer reading.Add(-1)
		for round := 0; round < rounds && errs[i] == nil; round++ {
			_, ok, err := h.store.Snapshots().Latest(h.ctx, id, annals.SnapshotCriteria{})
			if errs[i] = err; err == nil && !ok {
				errs[i] = errors.New("newest snapshot: got none, want one: each is deleted after the next is saved")
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("saves, deletes and reads of snapshots side by side: %v", err)
	}
}

// largeSavedAgain saves large snapshots of one number while others read them. A store that keeps such a snapshot in parts must not mix the
// parts of two saves, nor lose those of the last one.
func largeSavedAgain(h *harness) {
	const readers = 2
	id, versions := h.id(), h.volume(10, 4)
	last := h.write(id, 0, 1)
	size := 450_000 // more than an item of DynamoDB holds
	if limit := h.caps.Limits.MaxBytes; limit > 0 {
		size = min(size, limit/2)
	}
	err := h.saveVersion(id, last, 1, size)
	for errors.Is(err, annals.ErrTooLarge) && size > 10_000 {
		size /= 2
		err = h.saveVersion(id, last, 1, size)
	}
	if err != nil {
		h.Fatalf("save a snapshot of %d bytes: got error %v, want none", size, err)
	}
	var saved, reading atomic.Int64
	saved.Store(1)
	reading.Store(readers)
	errs := make([]error, 1+readers)
	together(len(errs), func(i int) {
		if i == 0 {
			for version := int64(2); (version <= int64(versions) || reading.Load() > 0) && errs[0] == nil; version++ {
				errs[0] = h.saveVersion(id, last, version, size)
				saved.Store(version)
			}
			return
		}
		defer reading.Add(-1)
		for round := 0; round < versions && errs[i] == nil; round++ {
			before := saved.Load()
			s, ok, err := h.store.Snapshots().Latest(h.ctx, id, annals.SnapshotCriteria{})
			if errs[i] = err; err == nil {
				errs[i] = versionFault(s, ok, before, size)
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		h.Fatalf("saves and reads of a large snapshot side by side: %v", err)
	}
	h.deleteTo(id, last)
	var got annals.Snapshot
	recovered, err := ability.Recover(h.ctx, h.store, id, func(s annals.Snapshot) error { got = s; return nil }, func(annals.Event) error { return nil })
	if err == nil {
		err = versionFault(got, true, saved.Load(), size)
	}
	if err != nil || recovered != last {
		h.Errorf("recovery by a large snapshot that was saved %d times: got last number %d, error %v, want %d", saved.Load(), recovered, err, last)
	}
}

// versionData is a number and bytes that cannot be compressed, which follow from the number.
func versionData(version int64, size int) []byte {
	data := make([]byte, size)
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], uint64(version))
	_, _ = rand.NewChaCha8(seed).Read(data[copy(data, seed[:8]):])
	return data
}

func (h *harness) saveVersion(id annals.PersistenceID, n annals.SeqNr, version int64, size int) error {
	return h.store.Snapshots().Save(h.ctx, annals.Snapshot{ID: id, SeqNr: n, Payload: annals.Payload{SerializerID: 4, Data: versionData(version, size)}})
}

// versionFault says what is wrong with a snapshot that is to be whole, and of version oldest or a later one.
func versionFault(s annals.Snapshot, ok bool, oldest int64, size int) error {
	if !ok || len(s.Data) != size {
		return fmt.Errorf("newest snapshot: got %v with %d bytes, want %d bytes", ok, len(s.Data), size)
	}
	version := int64(binary.BigEndian.Uint64(s.Data))
	if version < oldest || !bytes.Equal(s.Data, versionData(version, size)) {
		return fmt.Errorf("newest snapshot: got one that begins with version %d, want version %d or a later one, whole", version, oldest)
	}
	return nil
}

func repeatedSnapshotDeletes(h *harness) {
	id := h.id()
	everything := annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}
	h.deleteSnapshots(id, everything)
	h.snapshotFixture(id)
	for range 2 {
		h.deleteSnapshots(id, everything)
		h.wantSnapshot(id, annals.SnapshotCriteria{}, 0)
	}
	h.saveSnapshot(snapshotAt(id, 16))
	h.deleteSnapshots(id, annals.SnapshotCriteria{MaxTime: takenAt(16)}) // a time alone is an upper bound
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 0)
}

func snapshotTime(h *harness) {
	id := h.id()
	h.saveSnapshot(snapshotOf(id, 1))
	h.saveSnapshot(snapshotAt(id, 2))
	s, _, err := h.store.Snapshots().Latest(h.ctx, id, annals.SnapshotCriteria{})
	if err != nil || !s.Time.Equal(takenAt(2)) {
		h.Errorf("time of a snapshot saved with one: got %v, error %v, want %v", s.Time, err, takenAt(2))
	}
	h.saveSnapshot(snapshotOf(id, 3))
	s, _, err = h.store.Snapshots().Latest(h.ctx, id, annals.SnapshotCriteria{})
	if err != nil || !s.Time.After(takenAt(2)) {
		h.Errorf("time of a snapshot saved without one: got %v, error %v, want the store's clock", s.Time, err)
	}
}

func lowerBounds(h *harness) {
	id := h.id()
	h.snapshotFixture(id)
	h.wantSnapshot(id, annals.SnapshotCriteria{MinSeqNr: 13, MaxSeqNr: 13}, 13)
	h.wantSnapshot(id, annals.SnapshotCriteria{MinSeqNr: 16}, 0)
	h.wantSnapshot(id, annals.SnapshotCriteria{MinTime: takenAt(12), MaxTime: takenAt(12)}, 12)
	h.wantSnapshot(id, annals.SnapshotCriteria{MinTime: takenAt(16)}, 0)
	h.deleteSnapshots(id, annals.SnapshotCriteria{MinSeqNr: 14, MaxSeqNr: 15})
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 13)
	h.deleteSnapshots(id, annals.SnapshotCriteria{MinTime: takenAt(13), MaxTime: takenAt(20)})
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 12)
}

func pruneKeepsNewest(h *harness) {
	id := h.id()
	h.snapshotFixture(id)
	h.deleteSnapshots(id, annals.SnapshotCriteria{MaxSeqNr: 14})
	h.wantSnapshot(id, annals.SnapshotCriteria{}, 15)
	h.wantSnapshot(id, annals.SnapshotCriteria{MaxSeqNr: 14}, 0)
}
