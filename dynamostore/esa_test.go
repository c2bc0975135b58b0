package dynamostore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
)

func TestESACosts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	seen := &recorder{}
	s, err := dynamostore.Open(ctx, client(t), newESA(esa.Layout{Shards: 8, WriteIDs: true})(), dynamostore.Options{CreateTables: true, Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	cost := func(name string, requests int, reads, writes float64) {
		t.Helper()
		if r := seen.last(); r.Requests != requests || r.ReadUnits > reads || r.WriteUnits > writes {
			t.Errorf("%s: %d requests, %v read units and %v write units; want %d, at most %v and %v", name, r.Requests, r.ReadUnits, r.WriteUnits, requests, reads, writes)
		}
	}
	id := annals.NewPersistenceID("Thing", "small")
	load := func() (last annals.SeqNr) {
		t.Helper()
		last, err := ability.Recover(ctx, s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	append := func(after annals.SeqNr, events, size int, snapshot string) {
		t.Helper()
		c := annals.Commit{ID: id, After: after}
		for range events {
			c.Events = append(c.Events, text(strings.Repeat("x", size)))
		}
		if snapshot != "" || after == 0 {
			c.Snapshot = &annals.Snapshot{ID: id, SeqNr: after + annals.SeqNr(events), Payload: text(snapshot).Payload}
		}
		if _, err := s.Journal().Append(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	hide := func() { // a load then begins with the first event
		t.Helper()
		if err := s.Snapshots().Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}); err != nil {
			t.Fatal(err)
		}
	}
	load()
	cost("load of an entity that was never written", 2, 2.5, 0)
	load()
	cost("the same again", 2, 2.5, 0)
	append(0, 1, 800, "")
	cost("the first event, of 800 bytes", 1, 0, 4+2)
	append(1, 1, 800, "")
	cost("one event of 800 bytes", 1, 0, 4+2)
	append(2, 10, 800, "")
	cost("ten events of 800 bytes", 1, 0, 22+11)
	append(12, 1, 800, strings.Repeat("s", 20_000))
	cost("one event with a snapshot of 20 KB", 1, 0, 42+21)
	append(13, 1, 800, "")
	cost("one event behind a snapshot of 20 KB", 1, 0, 42+21)
	append(14, 19, 800, "")
	if last := load(); last != 33 {
		t.Errorf("last number %d", last)
	}
	cost("load of the snapshot and 20 events after it", 2, 1+5+20+1, 0)
	// Events of 300 bytes: one query reads ten of them for a unit. Numbers of up to three digits begin with all digits.
	for _, c := range []struct {
		events, requests int
		units            float64 // the minimum is 1 for the head and 1 for each 4 KB of events
	}{
		{98, 2, 13}, {99, 2, 13}, {100, 2, 13}, {101, 2, 14}, {198, 2, 24}, {199, 4, 45}, {1000, 4, 220},
	} {
		id = annals.PersistenceID(fmt.Sprintf("Thing|many-%d", c.events))
		for after := 0; after < c.events; after += 50 {
			append(annals.SeqNr(after), min(50, c.events-after), 300, "")
		}
		hide()
		if last := load(); last != annals.SeqNr(c.events) {
			t.Errorf("last number %d of %d", last, c.events)
		}
		cost(fmt.Sprintf("load of %d events of 300 bytes", c.events), c.requests, c.units, 0)
	}
	append(1000, 10, 300, "state")
	append(1010, 50, 300, "")
	append(1060, 49, 300, "")
	load()
	cost("load of 99 events with as many digits", 2, 15, 0)
	id = "Thing|digits"
	for after := annals.SeqNr(0); after < 950; after += 50 {
		append(after, 50, 300, map[annals.SeqNr]string{900: "state"}[after])
	}
	append(950, 50, 300, "")
	append(1000, 49, 300, "")
	load()
	cost("load of 99 events, those from 1000 on with one digit more", 3, 15, 0)
	id = annals.NewPersistenceID("Thing", "deleted")
	append(0, 12, 800, "")
	if _, err := s.Journal().LastSeqNr(ctx, id); err != nil {
		t.Fatal(err)
	}
	cost("last number", 2, 3, 0)
	if err := s.Journal().DeleteTo(ctx, id, 10); err != nil {
		t.Fatal(err)
	}
	cost("delete of ten events", 2+1+10, 4, 2+10*2)
}

// With a state in the head, an event costs what the library for Go pays.
func TestESACostsWithState(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for state, units := range map[int]float64{100: 6, 4000: 18, 20_000: 63} {
		seen := &recorder{}
		s, err := dynamostore.Open(ctx, client(t), newESA(esa.Layout{Shards: 8})(), dynamostore.Options{CreateTables: true, Observer: seen})
		if err != nil {
			t.Fatal(err)
		}
		id := annals.NewPersistenceID("Thing", "stated")
		for after := range annals.SeqNr(2) {
			c := annals.Commit{ID: id, After: after, Events: texts(strings.Repeat("x", 400))}
			if after == 0 {
				c.Snapshot = &annals.Snapshot{ID: id, SeqNr: 1, Payload: text(strings.Repeat("s", state)).Payload}
			}
			if _, err := s.Journal().Append(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		if r := seen.last(); r.Requests != 1 || r.WriteUnits > units {
			t.Errorf("an event behind a state of %d bytes: %d requests and %v write units, want 1 and at most %v", state, r.Requests, r.WriteUnits, units)
		}
		_ = s.Close()
	}
}

// Open compares some rows with the settings, and names what does not fit.
func TestESASettings(t *testing.T) {
	t.Parallel()
	ctx, prefix := t.Context(), "e"+rand.Text()
	layout := esa.Layout{Shards: 32, Types: []string{"order-item"}, Journal: esa.Journal{Table: prefix + "j"}, Snapshot: esa.Snapshot{Table: prefix + "s", Keep: 2}, Format: esa.Plain()}
	s, err := dynamostore.Open(ctx, client(t), layout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		for _, entityType := range []string{"order-item", "Thing"} {
			id := annals.NewPersistenceID(entityType, fmt.Sprint("entity-", i))
			c := annals.Commit{ID: id, Events: texts("a", "b"), Snapshot: &annals.Snapshot{ID: id, SeqNr: 2, Payload: text("state").Payload}}
			if _, err := s.Journal().Append(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change func(l *esa.Layout)
		says   string // "" is no error
	}{
		"the same":                 {func(*esa.Layout) {}, ""},
		"another language":         {func(l *esa.Layout) { l.Peer = esa.Rust }, "the row is at the key of the peers go"},
		"another shard count":      {func(l *esa.Layout) { l.Shards = 31 }, "(Peer, Shards, Keys, BareAID, Types) make it"},
		"an unknown type":          {func(l *esa.Layout) { l.Types = nil }, "order-item-entity-"},
		"another aggregate id":     {func(l *esa.Layout) { l.BareAID, l.Types = true, nil }, "order-item-entity-"},
		"another unit of the time": {func(l *esa.Layout) { l.Peer, l.Shards = esa.Rust3, 1 }, "pkey"},
	} {
		l := layout
		c.change(&l)
		again, err := dynamostore.Open(ctx, client(t), l, dynamostore.Options{})
		if err == nil {
			_ = again.Close()
		}
		if (c.says == "") != (err == nil) || err != nil && (!errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}
