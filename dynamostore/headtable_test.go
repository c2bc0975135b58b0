package dynamostore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/headtable"
)

// The costs in docs/layouts/headtable.md.
func TestHeadtableCosts(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	layout := newHeadtable(2, false)().(headtable.Layout)
	s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true, Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	id := annals.NewPersistenceID("Thing", "1")
	j := s.Journal()
	cost := func(name string, err error, requests int, reads, writes float64) {
		t.Helper()
		if r := seen.last(); err != nil || r.Requests != requests || r.ReadUnits != reads || r.WriteUnits != writes {
			t.Errorf("%s: %v, %d requests, %v read units and %v write units, want %d, %v and %v", name, err, r.Requests, r.ReadUnits, r.WriteUnits, requests, reads, writes)
		}
	}
	append := func(after annals.SeqNr, n, size int, snapshot int) error {
		c := annals.Commit{ID: id, After: after, Events: texts(strings.Split(strings.Repeat(strings.Repeat("x", size)+" ", n-1)+strings.Repeat("x", size), " ")...)}
		if snapshot > 0 {
			c.Snapshot = &annals.Snapshot{ID: id, SeqNr: after + annals.SeqNr(n), Payload: text(strings.Repeat("s", snapshot)).Payload}
		}
		_, err := j.Append(t.Context(), c)
		return err
	}
	recovers := func() error {
		_, err := annals.Recover(t.Context(), s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		return err
	}

	cost("first event", append(0, 1, 800, 0), 1, 0, 4)
	cost("next event", append(1, 1, 800, 0), 1, 0, 4)
	cost("ten events of 300 bytes", append(2, 10, 300, 0), 1, 0, 28)
	cost("event after ten events, which the head has", append(12, 1, 800, 0), 1, 0, 10)
	cost("event with a snapshot of 20 KB, and its copy", append(13, 1, 800, 20_000), 2, 0.5, 85)
	cost("event after a snapshot of 20 KB", append(14, 1, 800, 0), 1, 0, 4)
	_, err = j.LastSeqNr(t.Context(), id)
	cost("last number", err, 1, 1, 0)
	cost("recovery from a snapshot of 20 KB with an event", recovers(), 2, 7, 0)
	if es := replay(t.Context(), t, s, id, 1, annals.MaxSeqNr); len(es) != 15 {
		t.Errorf("%d events", len(es))
	}
	cost("replay of 15 events in 8 KB", nil, 2, 3, 0)
	cost("a stale append", wantConflict(append(14, 1, 800, 0)), 1, 0, 0)
	cost("delete of two events", j.DeleteTo(t.Context(), id, 2), 4, 2, 3)
	_, _, err = s.Snapshots().Latest(t.Context(), id, annals.SnapshotCriteria{})
	cost("newest snapshot of 20 KB", err, 1, 5, 0)
}

// wantConflict is nil for ErrConflict.
func wantConflict(err error) error {
	if errors.Is(err, annals.ErrConflict) {
		return nil
	}
	return errors.Join(errors.New("no conflict"), err)
}
