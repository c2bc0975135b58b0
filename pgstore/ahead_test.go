package pgstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// The plugin's cleanup can remove all events with their numbers and leave the snapshot. The entity continues with the number after the
// snapshot, whichever statement writes the commit.
func TestSnapshotAheadOfTheJournal(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	one := []annals.NewEvent{{Payload: text("next")}}
	ahead := func(id annals.PersistenceID, events annals.SeqNr) annals.SeqNr {
		t.Helper()
		for after := range events {
			appendOne(t, s, id, after)
		}
		if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: 7, Payload: text("seven")}); err != nil {
			t.Fatal(err)
		}
		return recovered(t, s, id)
	}
	for name, c := range map[string]annals.Commit{
		"plain": {Events: one}, "tagged": {Events: []annals.NewEvent{{Payload: text("next"), Tags: []string{"a"}}}}, "two": {Events: []annals.NewEvent{one[0], one[0]}},
		"with a snapshot": {Events: one, Snapshot: &annals.Snapshot{SeqNr: 8, Payload: text("eight")}},
	} {
		for events := range annals.SeqNr(3) {
			c.ID = annals.NewPersistenceID("Ahead", fmt.Sprint(name, " after ", events))
			if c.Snapshot != nil {
				snapshot := *c.Snapshot
				snapshot.ID, c.Snapshot = c.ID, &snapshot
			}
			c.After = ahead(c.ID, events)
			r, err := s.Journal().Append(t.Context(), c)
			if err != nil || r.SeqNr != 7+annals.SeqNr(len(c.Events)) {
				t.Errorf("%q: %+v, %v", c.ID, r, err)
			}
			if last := recovered(t, s, c.ID); last != r.SeqNr {
				t.Errorf("%q: recovered %d after it, want %d", c.ID, last, r.SeqNr)
			}
			appendOne(t, s, c.ID, r.SeqNr)
			_, err = s.Journal().Append(t.Context(), annals.Commit{ID: c.ID, After: 7, Events: one})
			wantKind(t, err, annals.ErrConflict)
		}
	}

	// An invented number stays a conflict, and leaves nothing.
	ahead("Ahead|invented", 0)
	for _, after := range []annals.SeqNr{6, 8} {
		_, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Ahead|invented", After: after, Events: one})
		wantKind(t, err, annals.ErrConflict)
	}
	if n := count(t, at, "SELECT count(*) FROM event_journal WHERE persistence_id = 'Ahead|invented'"); n != 0 {
		t.Errorf("%d rows of an entity that was not written", n)
	}

	// Of many writers one wins.
	ahead("Ahead|race", 2)
	var wins sync.Map
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for after := annals.SeqNr(7); ; after = recovered(t, s, "Ahead|race") {
				if r, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Ahead|race", After: after, Events: one}); err == nil {
					if _, twice := wins.LoadOrStore(r.SeqNr, w); twice || r.SeqNr < 8 {
						t.Errorf("number %d was given twice, or below the snapshot", r.SeqNr)
					}
					return
				}
			}
		})
	}
	wg.Wait()
	if last := recovered(t, s, "Ahead|race"); last != 15 {
		t.Errorf("last number %d after eight writers, want 15", last)
	}
}

// recovered is the last number, by a recovery.
func recovered(t *testing.T, s annals.Store, id annals.PersistenceID) annals.SeqNr {
	t.Helper()
	last, err := ability.Recover(t.Context(), s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
	if err != nil {
		t.Error(err)
	}
	return last
}

// When the plugin deletes an entity without events, it leaves a marker with the number 0.
func TestFirstEventAfterAMarkerAtZero(t *testing.T) {
	t.Parallel()
	s := openAt(t, goldenDatabase(t, "cleanup"), goldenOptions("cleanup"))
	for after := range annals.SeqNr(2) {
		appendOne(t, s, "Log|unknown", after)
	}
	if n := len(all(t, s, "Log|unknown")); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}
