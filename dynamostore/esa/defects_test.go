package esa_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/valid"
)

// elsewhere are the defects that are none of this package's code, with what shows that they do not exist here.
var elsewhere = map[string]string{
	"D17":     "the calls of a store take contexts: storetest",
	"D19-D21": "the store in memory: memstore passes storetest",
	"D25":     "there is no store on Bigtable",
	"D27":     "examples are tests",
	"D28":     "the sample application: examples/groupchat, and the tests of internal/subscription",
}

// defects are the calls in which a library loses, hides or reports something wrongly, by the number of the defect.
var defects = map[string]func(d *defect){
	"D1": func(d *defect) { // events behind the first page of the index
		d.create()
		for range 5 {
			d.must(d.append(30, ""))
		}
		d.index(func(it plan.Item) bool { n, _ := plan.Number(it, "seq_nr"); return n <= 40 })
		d.holds(151)
	},
	"D2": func(d *defect) { // an event with the number of a stored one
		d.create()
		d.must(d.append(1, ""))
		d.last--
		d.conflict(d.append(1, ""))
		d.last++
		d.holds(2)

		// A library has stored event 5 after event 2. The version does not tell of it, so only the condition of the put does.
		five, head := maps.Clone(d.Items("journal")[0]), maps.Clone(d.Items("snapshot")[0])
		five["skey"], five["seq_nr"], five["occurred_at"], head["version"] = plan.S("Thread-42-5"), plan.N(5), plan.N(7), plan.N(3)
		d.put("journal", five)
		d.put("snapshot", head)
		d.last = 3
		d.conflict(d.append(2, ""))
		for _, it := range d.Items("journal") {
			if at, _ := plan.Number(it, "occurred_at"); plan.KeyText(it["skey"]) == "Thread-42-5" && at != 7 {
				d.Error("event 5 was replaced")
			}
		}
	},
	"D3": func(d *defect) { // which copies stay
		for _, keep := range []int{1, 3} {
			for _, expire := range []time.Duration{0, time.Hour} {
				d := d.reopen(esa.Snapshot{Keep: keep, Expire: expire})
				d.create()
				for n := 2; n <= 7; n++ {
					d.must(d.append(1, fmt.Sprint("state ", n)))
				}
				want := []annals.SeqNr{5, 6, 7}[3-keep:]
				if got := d.copies(false); !slices.Equal(got, want) {
					d.Errorf("keep %d, expire %v: copies %v, want %v", keep, expire, got, want)
				}
				if all := d.copies(true); expire > 0 && len(all) != 7 || expire == 0 && len(all) != keep {
					d.Errorf("keep %d, expire %v: %d copies with those that expire", keep, expire, len(all))
				}
			}
		}
	},
	"D4": func(d *defect) { // fewer copies than are kept
		d.create()
		d = d.reopened(esa.Snapshot{Keep: 100}) // also for an entity that has none
		for n := 2; n <= 40; n++ {
			d.must(d.append(1, []string{"state", ""}[n%2]))
		}
		if got := d.copies(false); len(got) != 20 {
			d.Errorf("copies %v", got)
		}
	},
	"D5": func(d *defect) { // an error of the retention
		d = d.reopen(esa.Snapshot{Keep: 1})
		d.create()
		d.deletes = errors.New("the deletes fail")
		d.must(d.append(1, "state"))
		d.must(d.append(1, "state"))
		if err := esa.Retain(d.Context(), plantest.Store(d), d.id); !errors.Is(err, d.deletes) {
			d.Errorf("Retain: %v", err)
		}
		d.deletes = nil
		d.must(d.append(1, "state"))
		if got := d.copies(true); !slices.Equal(got, []annals.SeqNr{4}) {
			d.Errorf("copies %v", got)
		}
		d.holds(4)
	},
	"D6": func(d *defect) { // more copies than a request deletes
		d = d.reopen(esa.Snapshot{Keep: 100})
		d.create()
		for range 39 {
			d.must(d.append(1, "state"))
		}
		d = d.reopened(esa.Snapshot{Keep: 5})
		d.must(d.append(1, "state"))
		if got := d.copies(true); !slices.Equal(got, []annals.SeqNr{37, 38, 39, 40, 41}) {
			d.Errorf("copies %v", got)
		}
	},
	"D7": expiresOnce, // the request that marks a copy
	"D8": expiresOnce, // the time at which a copy expires
	"D9": func(d *defect) { // an index that shows nothing yet
		d.create()
		d.must(d.append(3, ""))
		d.index(func(plan.Item) bool { return false })
		d.holds(4)
	},
	"D10": func(d *defect) { // another shard count
		d.create()
		l := d.layout
		l.Shards = 61
		other := d.bench.reopened(l)
		for what, err := range map[string]error{
			"check":       other.offer.Check(d.Context(), other, false),
			"last number": lastError(other, d.id),
			"replay":      replayError(d.bench.reopened(l), d.id),
			"creation":    appendError(d.bench.reopened(l), d.id, 0),
		} {
			if !errors.Is(err, annals.ErrInvalid) {
				d.Errorf("%s with 61 shards: %v", what, err)
			}
		}
		d.conflict(appendError(d.bench.reopened(l), d.id, 1)) // of a program that has not read before
		d.holds(1)
	},
	"D11": func(d *defect) { // two ids with the same aid
		for _, id := range []annals.PersistenceID{"order-item|1", "order|item-1"} {
			l := d.layout
			l.Types = nil
			if id == "order-item|1" {
				l.Types = []string{"order-item"}
			}
			other := on(d.T, l, nil)
			for _, stored := range []annals.PersistenceID{"order-item|1", "order|item-1"} {
				if err := appendError(other, stored, 0); (err == nil) != (id == stored) || err != nil && !errors.Is(err, annals.ErrInvalid) {
					d.Errorf("%q with the types %q: %v", stored, l.Types, err)
				}
			}
		}
	},
	"D12": func(d *defect) { // numbers and states that do not fit
		d.create()
		for _, after := range []annals.SeqNr{0, 2, 4} {
			d.last = after
			d.conflict(d.append(1, map[bool]string{true: "state"}[after == 0]))
		}
		d.last = 1
		if d.layout.Peer != esa.Rust3 { // its states do not name a number or an id
			for _, data := range []string{`{"seq_nr":50}`, `{"id":{"type":"Thread","value":"43"}}`} {
				c := d.commit(1, "")
				c.Snapshot = &annals.Snapshot{ID: d.id, SeqNr: 2, Payload: annals.Payload{SerializerID: 31, Manifest: "Thread", Data: []byte(data)}}
				if _, err := d.Journal.Append(d.Context(), c); !errors.Is(err, annals.ErrInvalid) {
					d.Errorf("a state %s of event 2: %v", data, err)
				}
			}
		}
		d.holds(1)
	},
	"D13": func(d *defect) { // the size of the state in each write
		d = d.apart()
		d.must(d.append(1, ""))
		d.must(d.append(1, strings.Repeat("state", 20_000)))
		if head := d.Items("head")[0]; plan.Size(head) > 1000 {
			d.Errorf("the head has the attributes %v", slices.Sorted(maps.Keys(head)))
		}
		d.holds(2)
	},
	"D14": func(d *defect) { // several events of one command
		d.create()
		d.Log()
		d.must(d.append(10, ""))
		if log := d.Log(); strings.Count(log, "transaction\n") != 1 {
			d.Errorf("ten events:\n%s", log)
		}
		d.last = 2
		d.conflict(d.append(10, "")) // nothing of it is stored
		d.holds(11)
	},
	"D15": func(d *defect) { // a state above the limit of an item
		if err := d.append(1, strings.Repeat("x", 410_000)); !errors.Is(err, annals.ErrTooLarge) {
			d.Errorf("a creation with 410,000 bytes: %v", err)
		}
		d = d.apart()
		d.must(d.append(1, ""))
		d.holds(1)
	},
	"D16": func(d *defect) { // rows without payload, and wrong calls
		d.create()
		d.must(d.append(1, ""))
		if err := valid.Commit(d.commit(1, ""), d.offer.Capabilities.Limits); err != nil {
			d.Error(err)
		}
		first := annals.Commit{ID: "Thread|43", Events: d.commit(1, "").Events}
		if err := valid.Commit(first, d.offer.Capabilities.Limits); !errors.Is(err, annals.ErrInvalid) {
			d.Errorf("a first event without a state: %v", err)
		}
		without := func(table string) *bench {
			broken := d.bench.cloned()
			it := maps.Clone(broken.Items(table)[0])
			delete(it, "payload")
			broken.put(table, it)
			return broken
		}
		if err := replayError(without("journal"), d.id); !errors.Is(err, annals.ErrCorrupt) {
			d.Errorf("an event without payload: %v", err)
		}
		d.bench = without("snapshot") // a head without a state: the events are read from the first one on
		if s, ok, err := d.Snapshots.Latest(d.Context(), d.id, annals.SnapshotCriteria{}); ok || err != nil {
			d.Errorf("a head without payload: state %d, %v, %v", s.SeqNr, ok, err)
		}
		d.holds(2)
	},
	"D18": func(d *defect) { // the kinds of errors
		d.create()
		d.last = 0
		err := d.append(1, "state")
		if e, ok := errors.AsType[*annals.Error](err); !ok || e.Kind != annals.ErrConflict {
			d.Errorf("a second creation: %v", err)
		}
		if err := appendError(d.bench, annals.PersistenceID("Thread|"+strings.Repeat("x", 1100)), 0); !errors.Is(err, annals.ErrInvalid) {
			d.Errorf("an id above the service's limit: %v", err)
		}
	},
	"D22": func(d *defect) { // times
		d.create()
		d.must(d.append(1, ""))
		for e := range d.all() {
			if times := d.layout.Peer != esa.JS; d.offer.Capabilities.Times != times || times && e.Time.Year() != 2026 || !times && !e.Time.IsZero() {
				d.Errorf("times are claimed %v, event %d has %v", d.offer.Capabilities.Times, e.SeqNr, e.Time)
			}
		}
	},
	"D23": func(d *defect) { // numbers above 2^53
		d.create()
		c := d.commit(1, "")
		c.Events[0].Data = []byte(`{"number":9007199254740993}`)
		if _, err := d.Journal.Append(d.Context(), c); err != nil {
			d.Fatal(err)
		}
		for e := range d.all() {
			if e.SeqNr == 2 && !bytes.Contains(e.Data, []byte("9007199254740993")) {
				d.Errorf("event 2 is %s", e.Data)
			}
		}
	},
	"D24": func(d *defect) { // requests of events without a state
		d = d.reopen(esa.Snapshot{Keep: 1})
		d.create()
		d.Log()
		for range 10 {
			d.must(d.append(1, ""))
		}
		if log := d.Log(); strings.Count(log, "transaction\n") != 10 || strings.Contains(log, "query") || strings.Contains(log, "get") {
			d.Errorf("ten events:\n%s", log)
		}
	},
	"D26": func(d *defect) { // what the libraries do not have
		d.create()
		d.must(d.append(4, "state"))
		d.must(d.Journal.DeleteTo(d.Context(), d.id, 3))
		if got := numbers(slices.Collect(d.all())); !slices.Equal(got, []annals.SeqNr{4, 5}) || d.bench.last(d.id) != 5 {
			d.Errorf("after a delete: events %v", got)
		}
		if d.offer.Feed == nil {
			d.Error("the stream has no events")
		}
	},
}

// expiresOnce checks the time at which a copy expires.
func expiresOnce(d *defect) {
	d = d.reopen(esa.Snapshot{Keep: 1, Expire: time.Hour})
	d.create()
	d.must(d.append(1, "state"))
	marked := d.expiry(1)
	d.Time = d.Time.Add(time.Minute)
	d.must(d.append(1, ""))
	d.must(d.append(1, "state"))
	if again := d.expiry(1); marked == 0 || again != marked {
		d.Errorf("copy 1 expires at %d, before at %d", again, marked)
	}
}

// In each case in which a library loses or hides something, the layout does not.
func TestDefects(t *testing.T) {
	t.Parallel()
	for system, peer := range systems {
		for _, id := range recorded(t, system) {
			if defects[id] == nil && elsewhere[id] == "" {
				t.Errorf("%s: no test of %s", system, id)
			}
		}
		for id, do := range defects {
			t.Run(id+"/"+system, func(t *testing.T) {
				t.Parallel()
				do(newDefect(t, esa.Layout{Peer: peer, Shards: 64}))
			})
		}
	}
	for id, do := range defects {
		t.Run(id+"/java", func(t *testing.T) {
			t.Parallel()
			do(newDefect(t, esa.Layout{Peer: esa.Java, Shards: 64}))
		})
	}
}

// recorded returns the numbers of the defects that were looked for in a library.
func recorded(t *testing.T, system string) (all []string) {
	t.Helper()
	var file struct {
		Defects []struct{ ID string }
		NotRun  map[string]string
	}
	if err := json.Unmarshal(plantest.Archive(t, "testdata/"+system+".tar.bz2")[[2]string{system, "defects.json"}], &file); err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Defects {
		all = append(all, d.ID)
	}
	return slices.AppendSeq(all, maps.Keys(file.NotRun))
}
