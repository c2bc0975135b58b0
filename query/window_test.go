package query

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/late"
)

// A full window stops the feed at the watermark, and as the watermark moves everything comes.
func TestWindowIsBounded(t *testing.T) {
	t.Parallel()
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			const most, entities = 10, 300
			s := late.New(late.Options{Lateness: 30 * time.Second, Fixed: true})
			var store annals.Store = s
			if watched {
				store = late.Watched{Store: s}
			}
			go func() {
				for i := range 2 * entities {
					id := annals.NewPersistenceID("T", strconv.Itoa(i%entities))
					c := annals.Commit{ID: id, After: annals.SeqNr(i / entities), Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}
					if _, err := s.Journal().Append(t.Context(), c); err != nil {
						t.Error(err)
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
			feed, err := NewFeed(store, annals.Filter{}, annals.Position{}, Options{Window: most})
			if err != nil {
				t.Fatal(err)
			}
			last, n := map[annals.PersistenceID]annals.SeqNr{}, 0
			for n < 2*entities {
				b, err := feed.Next(t.Context(), 7)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range b.Items {
					if n++; e.SeqNr != last[e.ID]+1 {
						t.Errorf("%s: number %d after %d", e.ID, e.SeqNr, last[e.ID])
					}
					last[e.ID] = e.SeqNr
				}
				if len(feed.handedOver.beyond) > most {
					t.Errorf("%d entities are remembered, want at most %d", len(feed.handedOver.beyond), most)
				}
				visible := 0
				for _, err := range s.Query().Events(t.Context(), annals.Filter{}) {
					if err != nil {
						t.Fatal(err)
					}
					visible++
				}
				if b.CaughtUp && n < visible-1 { // one may have come since
					t.Errorf("the feed says that it has caught up, with %d of %d events", n, visible)
				}
			}
			for began := time.Now(); time.Since(began) < time.Minute; { // until the watermark has passed
				if _, err := feed.Next(t.Context(), 7); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(feed.handedOver.beyond); n > 0 {
				t.Errorf("%d entities are remembered as beyond the watermark, want none", n)
			}
		})
	}
}

// Of entities that are not beyond the floor, a bounded number is remembered, among them the last ones.
func TestRecentEntitiesAreBounded(t *testing.T) {
	t.Parallel()
	k := newHandedOver(annals.Position{}, 0, window)
	floor := annals.Offset{Time: time.Unix(1e9, 0)}
	for i := range 10 * generation {
		id := annals.PersistenceID(strconv.Itoa(i))
		k.add(annals.Offset{Time: time.Unix(int64(i), 0), ID: id, SeqNr: 3}, floor)
		if e, ok := k.entity(id); !ok || e.last != 3 {
			t.Fatalf("entity %d: %+v, %v", i, e, ok)
		}
		if i >= generation {
			if _, ok := k.entity(annals.PersistenceID(strconv.Itoa(i - generation + 1))); !ok {
				t.Fatalf("entity %d is forgotten at %d", i-generation+1, i)
			}
		}
	}
	if n := len(k.recent) + len(k.older) + len(k.beyond); n > 2*generation {
		t.Errorf("%d entities are remembered", n)
	}
}

// What is known of an entity is its highest number and latest time, wherever it is kept.
func TestKnown(t *testing.T) {
	t.Parallel()
	at := func(s int64, n annals.SeqNr) annals.Offset {
		return annals.Offset{Time: time.Unix(s, 0), ID: "T|1", SeqNr: n}
	}
	k := newHandedOver(annals.Position{Offsets: []annals.Offset{at(20, 4)}}, 0, window)
	floor := annals.Offset{Time: time.Unix(10, 0)}
	for i, c := range []struct {
		add, floor annals.Offset
		want       entity
		beyond     bool
	}{
		{at(15, 5), floor, entity{at(20, 5), annals.Offset{}, 5}, true},
		{at(30, 2), floor, entity{at(30, 2), at(20, 5), 2}, true},
		{at(31, 3), at(31, 3), entity{at(31, 3), at(20, 5), 3}, false},
		{at(32, 6), at(32, 6), entity{at(32, 6), at(20, 5), 6}, false},
		{at(33, 7), at(32, 6), entity{at(33, 7), at(20, 5), 7}, true},
		{at(34, 6), at(32, 6), entity{at(34, 6), at(33, 7), 6}, true},
		{at(35, 8), at(35, 8), entity{at(35, 8), at(33, 7), 8}, false},
	} {
		k.add(c.add, c.floor)
		e, ok := k.entity("T|1")
		if _, beyond := k.beyond["T|1"]; !ok || e != c.want || beyond != c.beyond || !k.covers(c.add) {
			t.Errorf("after %d: %+v, %v, beyond %v, want %+v", i, e, ok, beyond, c.want)
		}
	}
	k.settle(at(35, 8))
	if k.covers(at(36, 8)) || k.covers(at(33, 9)) || !k.covers(at(34, 1)) {
		t.Errorf("%+v", k)
	}
}
