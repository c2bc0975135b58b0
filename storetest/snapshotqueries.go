package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

var snapshotQueryCases = []testCase{
	{id: "QUERY-30", about: "the newest snapshot of each entity, in the order of their events", needs: needs(events, snapshotQueries), run: newestSnapshots},
	{id: "QUERY-31", about: "all fields of a filter for snapshots together", needs: needs(events, snapshotQueries), run: combinedSnapshotFilters},
	{id: "QUERY-32", about: "a snapshot of no event has the place of its save, one of an event keeps its place when the event is deleted", needs: needs(events, snapshotQueries), run: snapshotsWithoutEvents},
	{id: "QUERY-33", about: "deleted snapshots are not found", needs: needs(events, snapshotQueries), run: deletedSnapshotsQueried},
	{id: "QUERY-34", about: "snapshots are held back by the times of their events", needs: needs(events, snapshotQueries, eventTimes), run: heldBackSnapshots},
}

func (h *harness) querySnapshots(f annals.Filter, want int) []annals.Snapshot {
	h.Helper()
	return query(h, fmt.Sprintf("query snapshots %+v", f), want, func() ([]annals.Snapshot, error) { return collect(h.store.Query().Snapshots(h.ctx, f)) })
}

func (h *harness) wantSnapshots(did string, got, want []annals.Snapshot) {
	h.Helper()
	wantItems(h, did, got, want, func(s annals.Snapshot) string {
		return fmt.Sprintf("%s, taken at %s, with tags %q, %s and metadata %s", placed(s.Offset()), s.Time.UTC().Format(time.RFC3339Nano), slices.Sorted(slices.Values(s.Tags)), show(s.Payload), show(s.Metadata))
	})
}

// snapshotPopulation writes entities with three events each, and saves snapshots of number 2 in another order than that of the events. They
// are returned as queries yield them.
func (h *harness) snapshotPopulation(entities int) (all []annals.Snapshot) {
	h.Helper()
	for i := range entities {
		id := h.idOf([]string{"Thing", "Thin"}[i%2])
		last := h.writeSizes(id, 0, 1, 1, 1)
		s := snapshotAt(id, last-1)
		s.Time = s.Time.Add(time.Duration(entities-i) * time.Minute)
		if i%3 != 0 {
			s.Tags = []string{"apple", "green"}
		}
		if h.caps.Metadata {
			s.Metadata = annals.Payload{SerializerID: 9, Manifest: "M", Data: []byte("meta-data")}
		}
		s.EventTime = h.events(id, s.SeqNr, s.SeqNr)[0].Time
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b annals.Snapshot) int { return a.Offset().Compare(b.Offset()) })
	for _, s := range slices.Backward(all) {
		s.EventTime = time.Time{}
		h.saveSnapshot(s)
	}
	if !h.caps.Tags {
		for i := range all {
			all[i].Tags = nil
		}
	}
	return all
}

func newestSnapshots(h *harness) {
	all := h.snapshotPopulation(20)
	h.wantSnapshots("query all snapshots", h.querySnapshots(annals.Filter{}, len(all)), all)

	newer := snapshotAt(all[0].ID, 3)
	h.saveSnapshot(newer)
	older := snapshotAt(all[1].ID, 1) // does not become the newest
	h.saveSnapshot(older)
	newer.EventTime = h.events(newer.ID, 3, 3)[0].Time
	all[0] = newer
	slices.SortFunc(all, func(a, b annals.Snapshot) int { return a.Offset().Compare(b.Offset()) })
	h.wantSnapshots("query all snapshots after a newer one of one entity, and an older one of another", h.querySnapshots(annals.Filter{}, len(all)), all)
}

func combinedSnapshotFilters(h *harness) {
	all := h.snapshotPopulation(24)
	h.querySnapshots(annals.Filter{}, len(all)) // wait until all are visible
	for _, f := range h.filters(all[len(all)/2].Offset()) {
		want := chosen(f, all, annals.Snapshot.Offset, func(s annals.Snapshot) []string { return s.Tags })
		got := h.querySnapshots(f, len(want))
		if f.KeysOnly {
			for i := range min(len(got), len(want)) {
				if len(got[i].Data) == 0 {
					want[i].Payload, got[i].Payload, want[i].Metadata, got[i].Metadata = annals.Payload{}, annals.Payload{}, annals.Payload{}, annals.Payload{}
				}
			}
		}
		h.wantSnapshots(fmt.Sprintf("query snapshots %+v", f), got, want)
	}
	got := paged(h, annals.Filter{Limit: 7}, h.querySnapshots, annals.Snapshot.Offset)
	h.wantSnapshots("query snapshots in pages of 7", got, all)
}

func snapshotsWithoutEvents(h *harness) {
	before, none, after := h.id(), h.id(), h.id()
	h.write(before, 0, 1)
	h.saveSnapshot(snapshotAt(none, 41))
	h.write(after, 0, 1)
	h.saveSnapshot(snapshotAt(before, 1))
	h.saveSnapshot(snapshotAt(after, 1))
	h.deleteTo(before, 1)
	var got []annals.PersistenceID
	for _, s := range h.querySnapshots(annals.Filter{}, 3) {
		got = append(got, s.ID)
	}
	h.wantEqual(got, []annals.PersistenceID{before, none, after}, "entities of the snapshots, the second of which has no event")
}

func deletedSnapshotsQueried(h *harness) {
	all := h.snapshotPopulation(4)
	h.querySnapshots(annals.Filter{}, len(all)) // wait until all are visible
	h.deleteSnapshots(all[1].ID, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
	want := slices.Delete(slices.Clone(all), 1, 2)
	h.wantSnapshots("query snapshots after a delete", h.querySnapshots(annals.Filter{}, len(want)), want)
}

func heldBackSnapshots(h *harness) {
	old, young := h.id(), h.id()
	c := h.commit(old, 0, 1)
	c.Events[0].Time = takenAt(1)
	h.append(c)
	h.write(young, 0, 1)
	want := snapshotAt(old, 1)
	want.Time = takenAt(2)
	h.saveSnapshot(want)
	h.saveSnapshot(snapshotAt(young, 1)) // taken before that, too
	want.EventTime = takenAt(1)
	h.wantSnapshots("query snapshots of events older than an hour", h.querySnapshots(annals.Filter{Behind: time.Hour}, 1), []annals.Snapshot{want})
}
