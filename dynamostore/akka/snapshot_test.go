package akka_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

const snapshotTable = "akka-persistence-snapshot"

// offered returns what a layout offers on tables in memory.
func offered(t *testing.T, l akka.Layout, x *plantest.Executor) (plan.Contracts, *plantest.Executor) {
	t.Helper()
	b := on(t, l, x)
	return b.Contracts, b.Executor
}

// put stores an item without the layout.
func put(t *testing.T, x *plantest.Executor, table string, it plan.Item) {
	t.Helper()
	if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: table, Put: it}}}); err != nil {
		t.Fatal(err)
	}
}

func at(n int64) time.Time { return time.UnixMilli(n).UTC() }

// latest returns the number of the newest snapshot; 0 is none.
func latest(t *testing.T, s annals.SnapshotStore, id annals.PersistenceID, c annals.SnapshotCriteria) annals.SeqNr {
	t.Helper()
	found, ok, err := s.Latest(t.Context(), id, c)
	if err != nil || ok != (found.SeqNr > 0) {
		t.Fatal(found, ok, err)
	}
	return found.SeqNr
}

// The golden files have the requests for snapshots. TestGoldenWrite compares the items with the plugin's.
func TestSnapshotRequests(t *testing.T) {
	for name, s := range map[string]akka.Snapshot{
		"snapshots":         {},
		"snapshots-old":     {Old: true},
		"snapshots-by-time": {ByTime: true, Index: "by-time", Name: "other"},
	} {
		plantest.Requests(t, name, akka.Layout{Snapshot: s}, nil, func(b *plantest.Bench) {
			b.Save(5, []byte("five"))
			b.Save(3, []byte("three"))
			b.Save(3, []byte("again"))
			b.Latest(annals.SnapshotCriteria{})
			b.Latest(annals.SnapshotCriteria{MaxTime: b.Time})
			b.Latest(annals.SnapshotCriteria{MaxSeqNr: 4})
			b.Prune(annals.SnapshotCriteria{MinSeqNr: 1, MaxSeqNr: 4})
			b.Latest(annals.SnapshotCriteria{MinSeqNr: 1, MaxSeqNr: 4})
		})
	}
}

// Bounds between which there is nothing are no query: the service refuses such a query.
func TestSnapshotsWithinNoBounds(t *testing.T) {
	t.Parallel()
	c, x := offered(t, akka.Layout{Snapshot: akka.Snapshot{ByTime: true}}, nil)
	for _, criteria := range []annals.SnapshotCriteria{{MinSeqNr: 3, MaxSeqNr: 2}, {MinTime: at(2000), MaxTime: at(1000)}} {
		if n := latest(t, c.Snapshots, "a", criteria); n != 0 {
			t.Errorf("%+v: found %d", criteria, n)
		}
		if err := c.Snapshots.Delete(t.Context(), "a", criteria); err != nil {
			t.Error(err)
		}
	}
	if log := x.Log(); log != "" {
		t.Errorf("requests:\n%s", log)
	}
}

// S-D1: the size is computed as the plugin does, and compared with its limit.
func TestLargeSnapshots(t *testing.T) {
	t.Parallel()
	const id = "ünï" // three characters in the plugin's sum
	fitting := 400_000 - 253 - len("journal-P-") - 3
	for _, l := range []akka.Layout{{}, {Snapshot: akka.Snapshot{Old: true}}} {
		c, x := offered(t, l, nil)
		header := 0
		if l.Snapshot.Old {
			header = 8
		}
		for _, more := range []int{0, 1} {
			s := annals.Snapshot{ID: id, SeqNr: 1, Payload: annals.Payload{SerializerID: 4, Data: make([]byte, fitting-header+more)}}
			err := c.Snapshots.Save(t.Context(), s)
			if (err != nil) != (more > 0) || err != nil && !errors.Is(err, annals.ErrTooLarge) {
				t.Errorf("old %v, %d bytes more than the limit: %v", l.Snapshot.Old, more, err)
			}
		}
		if n := len(x.Items(snapshotTable)); n != 1 {
			t.Errorf("%d items", n)
		}
	}
}

// Akka takes some serializer ids in the header of the old format for that of Akka 2.3, and refuses the snapshot.
func TestSnapshotsThatAkkaRefuses(t *testing.T) {
	t.Parallel()
	for id, refused := range map[int32]bool{0xedac: true, 0xffff: true, -1: true, 0x0500edac: true, 0xedab: false, -100_000: false} {
		for _, old := range []bool{false, true} {
			c, _ := offered(t, akka.Layout{Snapshot: akka.Snapshot{Old: old}}, nil)
			err := c.Snapshots.Save(t.Context(), annals.Snapshot{ID: "a", SeqNr: 1, Payload: annals.Payload{SerializerID: id, Data: []byte{1}}})
			if (err != nil) != (old && refused) || err != nil && !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("serializer %d, old %v: %v", id, old, err)
			}
		}
	}
}

// Items of both formats may be side by side, and each is read by what it has.
func TestSnapshotsOfBothFormats(t *testing.T) {
	t.Parallel()
	current, x := offered(t, akka.Layout{}, nil)
	old, _ := offered(t, akka.Layout{Snapshot: akka.Snapshot{Old: true}}, x)
	for n, c := range map[annals.SeqNr]plan.Contracts{1: old, 2: current} {
		for _, p := range []annals.Payload{{SerializerID: 20, Data: []byte("hello")}, {SerializerID: -100_000, Manifest: "Order", Data: []byte{}}} {
			if err := c.Snapshots.Save(t.Context(), annals.Snapshot{ID: "order-1", SeqNr: n, Time: at(1_700_000_000_000), Payload: p}); err != nil {
				t.Fatal(err)
			}
			for _, reader := range []plan.Contracts{old, current} {
				got, ok, err := reader.Snapshots.Latest(t.Context(), "order-1", annals.SnapshotCriteria{MaxSeqNr: n})
				if !ok || err != nil || got.SeqNr != n || got.SerializerID != p.SerializerID || got.Manifest != p.Manifest || string(got.Data) != string(p.Data) || !got.Time.Equal(at(1_700_000_000_000)) {
					t.Errorf("snapshot %d: %+v, %v, %v", n, got, ok, err)
				}
			}
		}
	}
}

// The newest snapshot is that with the highest number, whatever the clocks said. ByTime is for what the plugin loads.
func TestNewestSnapshotWhenClocksDiffer(t *testing.T) {
	t.Parallel()
	c, x := offered(t, akka.Layout{}, nil)
	byTime, _ := offered(t, akka.Layout{Snapshot: akka.Snapshot{ByTime: true}}, x)
	for n, ms := range map[annals.SeqNr]int64{10: 3000, 20: 2000, 30: 1000} {
		if err := c.Snapshots.Save(t.Context(), annals.Snapshot{ID: "a", SeqNr: n, Time: at(ms), Payload: annals.Payload{SerializerID: 4}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []struct {
		criteria         annals.SnapshotCriteria
		byNumber, byTime annals.SeqNr
	}{
		{annals.SnapshotCriteria{}, 30, 10},
		{annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}, 30, 10},
		{annals.SnapshotCriteria{MaxTime: at(2500)}, 30, 20},
		{annals.SnapshotCriteria{MinTime: at(1500)}, 20, 10},
		{annals.SnapshotCriteria{MinTime: at(1500), MaxTime: at(2500)}, 20, 20},
		{annals.SnapshotCriteria{MaxSeqNr: 25}, 20, 20},
		{annals.SnapshotCriteria{MinSeqNr: 1}, 30, 30},
		{annals.SnapshotCriteria{MaxSeqNr: 30, MinTime: at(1500)}, 20, 20},
		{annals.SnapshotCriteria{MaxSeqNr: 20, MinTime: at(2500)}, 10, 10}, // the plugin filters after the limit, and finds none
		{annals.SnapshotCriteria{MinTime: at(3001)}, 0, 0},
	} {
		if n := latest(t, c.Snapshots, "a", want.criteria); n != want.byNumber {
			t.Errorf("%+v: %d, want %d", want.criteria, n, want.byNumber)
		}
		if n := latest(t, byTime.Snapshots, "a", want.criteria); n != want.byTime {
			t.Errorf("%+v by time: %d, want %d", want.criteria, n, want.byTime)
		}
	}
}

// A snapshot that is replaced during a delete is not deleted.
func TestDeleteKeepsReplacedSnapshots(t *testing.T) {
	t.Parallel()
	c, x := offered(t, akka.Layout{}, nil)
	save := func(ms int64) {
		if err := c.Snapshots.Save(t.Context(), annals.Snapshot{ID: "a", SeqNr: 1, Time: at(ms), Payload: annals.Payload{SerializerID: 4}}); err != nil {
			t.Fatal(err)
		}
	}
	save(1000)
	x.Meanwhile = func() { save(2000) } // after the query
	if err := c.Snapshots.Delete(t.Context(), "a", annals.SnapshotCriteria{MaxTime: at(1500)}); err != nil {
		t.Fatal(err)
	}
	if n := latest(t, c.Snapshots, "a", annals.SnapshotCriteria{}); n != 1 {
		t.Errorf("newest snapshot: %d", n)
	}
}

// paged yields a page for each item, and calls between after the first.
type paged struct {
	*plantest.Executor
	between func()
}

func (x paged) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		begun := false
		var last int64
		for {
			some := false
			for it, err := range x.Executor.Query(ctx, q) {
				n, _ := plan.Number(it, "seq")
				if begun && (n == last || (n < last) != q.Backward) {
					continue // of an earlier page
				}
				if !yield(it, err) {
					return
				}
				some, begun, last = true, true, n
				break
			}
			if !some {
				return
			}
			if q.Paged != nil {
				q.Paged()
			}
			if x.between != nil {
				x.between()
			}
		}
	}
}

// There is a snapshot within the bounds at each moment: while Latest reads, a newer one is saved, then the older one deleted.
func TestNewestSnapshotOverPages(t *testing.T) {
	t.Parallel()
	offer, err := akka.Layout{}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	c := offer.On(x)
	save := func(n annals.SeqNr, ms int64) {
		if err := c.Snapshots.Save(t.Context(), annals.Snapshot{ID: "a", SeqNr: n, Time: at(ms), Payload: annals.Payload{SerializerID: 4}}); err != nil {
			t.Fatal(err)
		}
	}
	save(1, 1000)
	save(9, 9000) // not within the bounds
	moved := false
	reader := offer.On(paged{x, func() {
		if !moved {
			moved = true
			save(10, 1500)
			if err := c.Snapshots.Delete(t.Context(), "a", annals.SnapshotCriteria{MaxSeqNr: 1}); err != nil {
				t.Error(err)
			}
		}
	}})
	if n := latest(t, reader.Snapshots, "a", annals.SnapshotCriteria{MaxTime: at(2000)}); n != 10 {
		t.Errorf("newest snapshot: %d", n)
	}
}

// A snapshot that cannot be read is ErrCorrupt; the error names the table and the number.
func TestCorruptSnapshots(t *testing.T) {
	t.Parallel()
	c, x := offered(t, akka.Layout{}, nil)
	for what, it := range map[string]plan.Item{
		"no payload":                  {"ts": plan.N(1)},
		"no serializer":               {"ts": plan.N(1), "pay_data": plan.B(nil)},
		"a serializer above 32 bits":  {"ts": plan.N(1), "pay_data": plan.B(nil), "ser_id": plan.N(1 << 32)},
		"a payload that is a text":    {"ts": plan.N(1), "pay_data": plan.S("secret"), "ser_id": plan.N(1)},
		"a manifest that is a number": {"ts": plan.N(1), "pay_data": plan.B(nil), "ser_id": plan.N(1), "ser_manifest": plan.N(1)},
		"no time":                     {"pay_data": plan.B(nil), "ser_id": plan.N(1)},
		"a short header":              {"ts": plan.N(1), "pay": plan.B([]byte{4, 0, 0})},
		"Akka 2.3":                    {"ts": plan.N(1), "pay": plan.B([]byte("\x08\x00\x00\x00\xac\xed\x00\x05secret"))}, // S-D5
	} {
		it["par"], it["seq"] = plan.S("journal-P-a"), plan.N(7)
		put(t, x, snapshotTable, it)
		_, ok, err := c.Snapshots.Latest(t.Context(), "a", annals.SnapshotCriteria{})
		if ok || !errors.Is(err, annals.ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf(`%q, item par "journal-P-a", seq "7"`, snapshotTable)) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", what, ok, err)
		}
	}
}

// A recovery by time does not begin with a snapshot whose next events are deleted, when another one replaces them.
func TestRecoveryByTimeBehindDeletes(t *testing.T) {
	t.Parallel()
	c, _ := offered(t, akka.Layout{Snapshot: akka.Snapshot{ByTime: true}}, nil)
	for n := range annals.SeqNr(9) {
		if _, err := c.Journal.Append(t.Context(), annals.Commit{ID: "a", After: n, Events: []annals.NewEvent{plantest.Event("e")}}); err != nil {
			t.Fatal(err)
		}
	}
	recovered := func(want annals.SeqNr) {
		t.Helper()
		first := annals.SeqNr(-1)
		last, err := c.Recover(t.Context(), "a", func(s annals.Snapshot) error {
			first = s.SeqNr
			return nil
		}, func(annals.Event) error { return nil })
		if first != want || last != 9 || err != nil {
			t.Errorf("a recovery begins with snapshot %d and ends with %d, %v, want %d and 9", first, last, err, want)
		}
	}
	recovered(-1)
	if err := c.Snapshots.Save(t.Context(), annals.Snapshot{ID: "a", Time: at(500), Payload: annals.Payload{SerializerID: 4}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Journal.DeleteTo(t.Context(), "a", 2); err != nil {
		t.Fatal(err)
	}
	recovered(0) // the plugin has stored it before the first event
	for n, ms := range map[annals.SeqNr]int64{5: 2000, 7: 1000} {
		if err := c.Snapshots.Save(t.Context(), annals.Snapshot{ID: "a", SeqNr: n, Time: at(ms), Payload: annals.Payload{SerializerID: 4}}); err != nil {
			t.Fatal(err)
		}
	}
	recovered(5)
	if err := c.Journal.DeleteTo(t.Context(), "a", 7); err != nil {
		t.Fatal(err)
	}
	recovered(7)
}

// Snapshots of other journals in the table are no damage.
func TestOwnersOfSnapshots(t *testing.T) {
	t.Parallel()
	offer, err := akka.Layout{Journal: akka.Journal{Name: "orders", OtherNames: []string{"shop"}}}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]annals.PersistenceID{"orders-P-a": "a", "shop-P-a": "", "orders-P-": "damaged", "third-P-a": "damaged"} {
		id, damage := offer.Row(snapshotTable, plan.Item{"par": plan.S(key), "seq": plan.N(1)})
		if damage != nil {
			id += "damaged"
		}
		if id != want {
			t.Errorf("the row of %s is of %q (%v), want %q", key, id, damage, want)
		}
	}
}
