package commit_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/google/go-cmp/cmp"
)

// The stream tells of each event once, as a replay reads it, and of nothing else.
func TestFeed(t *testing.T) {
	t.Parallel()
	e, x := furnished(t)
	var told []annals.Event
	quiet := 0 // images without events
	x.Changed = func(table string, image plan.Item, created bool) {
		if table != e.Offer.Feed.Table {
			return
		}
		events, err := e.Offer.Feed.Events(image, created)
		if err != nil {
			t.Error(err)
		}
		if told = append(told, events...); len(events) == 0 {
			quiet++
		}
	}
	journal, first := e.Offer.On(x).Journal, annals.SeqNr(8)
	c := annals.Commit{ID: id, After: first - 1, WriteID: plantest.WriteID(2), Events: []annals.NewEvent{plantest.Event("8"), plantest.Event("\x00")}}
	c.Events[0].Tags, c.Events[0].Adapter = []string{"red"}, "adapter"
	c.Events[0].Metadata = annals.Payload{SerializerID: 4, Manifest: "meta", Data: []byte{0}}
	c.Snapshot = &annals.Snapshot{ID: id, SeqNr: 9, Payload: annals.Payload{SerializerID: 4, Data: []byte("s")}}
	_, err := journal.Append(t.Context(), c)
	_, err2 := journal.Append(t.Context(), annals.Commit{ID: id, After: 9, WriteID: plantest.WriteID(3), Events: []annals.NewEvent{plantest.Event("10")}})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	var replayed []annals.Event
	for ev, err := range journal.Replay(t.Context(), id, first, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		replayed = append(replayed, ev)
	}
	if len(told) != 3 || !cmp.Equal(told, replayed) {
		t.Errorf("the stream tells of %v, a replay reads %v", told, replayed)
	}
	told, quiet = nil, 0
	_, err = e.Offer.States.Write(t.Context(), x, plan.StateWrite{StateWrite: annals.StateWrite{ID: "Thread|43", WriteID: plantest.WriteID(1), Payload: annals.Payload{SerializerID: 4}}, Time: x.Now()})
	if err := errors.Join(err,
		e.save(x, 10, 1, true), e.DeleteTo(x, 8), e.DeleteTo(x, 10), e.Prune(x, 10), e.Offer.On(x).SkipTo(t.Context(), "Thread|44", 0, 7),
		e.Offer.On(x).Offsets.Save(t.Context(), annals.Progress{Projection: projection, Epoch: 8, Offsets: []annals.Offset{{ID: id, SeqNr: 3, Time: x.Now()}}}),
	); err != nil {
		t.Fatal(err)
	}
	if len(told) > 0 || quiet < 6 {
		t.Errorf("%d images of other items, and the stream tells of %v", quiet, told)
	}
}

// A commit that cannot be read is not left out.
func TestFeedOfHostileItems(t *testing.T) {
	t.Parallel()
	e, x := furnished(t)
	for _, it := range x.Items(e.Offer.Feed.Table) {
		if it["n"] == nil {
			continue
		}
		for _, name := range []string{"pid", "seq", "n", "at"} {
			broken := maps.Clone(it)
			broken[name] = plan.Bool(true)
			if _, err := e.Offer.Feed.Events(broken, true); !errors.Is(err, annals.ErrCorrupt) {
				t.Errorf("commit %v whose %s is a boolean: %v", plan.KeyText(it["seq"]), name, err)
			}
		}
	}
}

// All ids that have had events are listed, each in one part of the table.
func TestFeedIDs(t *testing.T) {
	t.Parallel()
	offer, err := commit.Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	contracts := offer.On(x)
	want := map[annals.PersistenceID]int{}
	for n := range 20 {
		id := annals.PersistenceID(fmt.Sprint("Thread|", n))
		for after := range annals.SeqNr(3) {
			if _, err := contracts.Journal.Append(t.Context(), annals.Commit{ID: id, After: after, Events: []annals.NewEvent{plantest.Event("e")}}); err != nil {
				t.Fatal(err)
			}
		}
		want[id] = 1
	}
	_, err = offer.States.Write(t.Context(), x, plan.StateWrite{StateWrite: annals.StateWrite{ID: "Thread|state", Payload: annals.Payload{SerializerID: 4}}, Time: x.Now()})
	if err := errors.Join(err, offer.Check(t.Context(), x, true), contracts.Journal.DeleteTo(t.Context(), "Thread|7", 3)); err != nil {
		t.Fatal(err)
	}
	got, parts := map[annals.PersistenceID]int{}, map[int]bool{}
	for n := range 4 {
		for found, err := range offer.Feed.Scan(t.Context(), x, plan.Part{N: n, Of: 4}) {
			if err != nil {
				t.Fatal(err)
			}
			got[found.ID]++
			parts[n] = true
		}
	}
	if !maps.Equal(got, want) || len(parts) < 2 {
		t.Errorf("ids in the parts %v: %v", slices.Collect(maps.Keys(parts)), got)
	}
}
