package rust5_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// The stream of the head table has each event once and in order, as a replay reads it. A delete does not bring deleted events back.
func TestFeedHasEachEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t, esa.Layout{Peer: esa.Rust5, WriteIDs: true, Snapshot: esa.Snapshot{Keep: 1}})
	feed := b.offer.Feed
	var fed []annals.Event
	b.Changed = func(table string, image plan.Item, created bool) {
		if table != feed.Table {
			return
		}
		events, err := feed.Events(image, created)
		if err != nil {
			t.Error(err)
		}
		fed = append(fed, events...)
	}
	id := annals.PersistenceID("Thing|1")
	b.write(id, b.write(id, 0, 1), 3)
	s := annals.Snapshot{ID: id, SeqNr: 5, Payload: events(1)[0].Payload}
	if _, err := b.append(annals.Commit{ID: id, After: 4, Events: events(1), Snapshot: &s}); err != nil {
		t.Fatal(err)
	}
	want, err := b.replay(id, 1, annals.MaxSeqNr)
	if err != nil || len(want) != 5 || !reflect.DeepEqual(fed, want) {
		t.Errorf("the stream has %v, a replay %v, %v", fed, want, err)
	}
	fed = nil
	b.write(id, 5, 3)
	fed = nil
	if err := b.Journal.DeleteTo(t.Context(), id, 7); err != nil || fmt.Sprint(numbers(fed)) != "[8]" {
		t.Errorf("after a delete up to 7 the stream has %v, %v", numbers(fed), err)
	}
	fed = nil
	if err := errors.Join(b.Journal.DeleteTo(t.Context(), id, 8), b.SkipTo(t.Context(), "Thing|2", 0, 5)); err != nil || fed != nil {
		t.Errorf("after a delete of everything and a skip the stream has %v, %v", numbers(fed), err)
	}
}

// A stream of the library's own writes is read. Each id is found, in one part of the table.
func TestFeedOfTheLibrary(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		if s.name != "default" && s.name != "ids" {
			continue
		}
		b := newBench(t, s.inputs.Steps[0].Settings.layout(""), s.tables...)
		var want, got []annals.PersistenceID
		for _, it := range b.Items("head") {
			events, err := b.offer.Feed.Events(it, true)
			if err != nil || len(events) != 1 && plan.KeyText(it["aid"]) != "__config__" {
				t.Fatalf("%s: %d events, %v", s.name, len(events), err)
			}
			for _, e := range events {
				stored, err := b.replay(e.ID, e.SeqNr, annals.MaxSeqNr)
				if err != nil || !reflect.DeepEqual(stored, events) {
					t.Errorf("%.60q: the stream has %v, a replay %v, %v", e.ID, events, stored, err)
				}
				want = append(want, e.ID)
			}
		}
		for part := range 4 {
			for found, err := range b.offer.Feed.Scan(t.Context(), b.Executor, plan.Part{N: part, Of: 4}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, found.ID)
			}
		}
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) || len(want) < 4 {
			t.Errorf("%s: ids %.60q, want %.60q", s.name, got, want)
		}
	}
	offer, _ := esa.Layout{Peer: esa.Rust5}.Plan()
	if _, err := offer.Feed.Events(plan.Item{"aid": plan.S("Thing-1"), "seq_nr": plan.N(1)}, true); !errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("a head without events: %v", err)
	}
}
