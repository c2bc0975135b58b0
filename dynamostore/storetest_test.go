package dynamostore_test

import (
	"cmp"
	"crypto/rand"
	"flag"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/storetest"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// bench is the layout of a store under test, and a client with a route of its own.
type bench struct {
	layout        dynamostore.Layout
	route         *route
	client        *dynamodb.Client
	subscriptions string // their table; "" is none
}

// benches opens stores of a layout for the suite, each with its own bench.
type benches struct {
	layout    func() dynamostore.Layout                   // on new tables
	client    func(dynamostore.Client) dynamostore.Client // nil: as it is
	options   dynamostore.Options
	subscribe bool // the stores have subscriptions, where the layout has a stream of events
	streams   dynamostore.StreamsClient
	byStore   sync.Map
	throttled sync.Map // operations that fail refused for their rate
}

func (bs *benches) config(t *testing.T) storetest.Config {
	t.Helper()
	endpoint := dynamo.NewEndpoint(t)
	c, err := connect(t.Context(), endpoint)
	if err != nil {
		t.Fatal(err)
	}
	connections := &http.Transport{MaxIdleConnsPerHost: 256} // of all stores
	bs.options.CreateTables = true
	bs.streams = streamsClient(t, endpoint)
	openObserved := func(tb testing.TB, o annals.Observer) annals.Store {
		b := bench{layout: bs.layout(), route: newRoute(tb, connections, endpoint)}
		b.client = dynamodb.New(c.Options(), func(o *dynamodb.Options) {
			o.HTTPClient = dynamostore.Steady(&http.Client{Transport: b.route})
		})
		if offer, err := b.layout.Plan(); bs.subscribe && err == nil && offer.Feed != nil {
			b.subscriptions = "subscriptions" + rand.Text()
		}
		return bs.openObserved(tb, b, o)
	}
	return storetest.Config{
		Open:         func(tb testing.TB) annals.Store { return openObserved(tb, bs.options.Observer) },
		OpenObserved: openObserved,
		Reopen:       func(tb testing.TB, s annals.Store) annals.Store { return bs.open(tb, bs.of(s)) },
		SlowClock: func(tb testing.TB, s annals.Store) annals.Store {
			slow := bs.open(tb, bs.of(s)).(*dynamostore.Store)
			dynamostore.SetBack(slow, time.Hour)
			return slow
		},
		LoseAnswer: func(_ testing.TB, s annals.Store) func() {
			bs.of(s).route.proxy().LoseNextWrite()
			return func() { bs.of(s).route.proxy().SetRule(nil) }
		},
		LoseEvent: func(tb testing.TB, s annals.Store, id annals.PersistenceID, n annals.SeqNr) {
			bs.of(s).loseEvent(tb, id, n)
		},
		Damage:   damageOf(bs.layout()),
		Short:    !soaking(), // the server is slow beside an embedded store
		TimeUnit: timeUnit(bs.layout()),
		Except:   exceptions(bs.layout()),
	}
}

// timeUnit is the unit in which a layout keeps NewEvent.Time; 0 is a microsecond.
func timeUnit(l dynamostore.Layout) time.Duration {
	switch l := l.(type) {
	case esa.Layout:
		if l.Peer == esa.Rust3 || l.Peer == esa.Rust5 {
			return time.Nanosecond
		}
		return cmp.Or(l.Journal.OccurredAt, time.Millisecond)
	}
	return 0
}

// exceptions are the cases that stores of a layout fail.
func exceptions(l dynamostore.Layout) map[string]string {
	except := map[string]string{"REFUSE-9": "a put is on condition that its own number is free, not that the number before is in use (TestAfterAboveTheLast)"}
	switch l := l.(type) {
	case commit.Layout:
		except["LOSS-3"] = "a first commit may follow a Forget (TestLostItems)"
	case j5ik2o.Layout:
		except["LOSS-3"] = "the plugin may have left the first number unused (TestLostRows)"
	case akka0.Layout:
		except["LOSS-1"] = "an event that was lost cannot be told from one that was deleted alone"
		except["LOSS-3"] = except["LOSS-1"]
	case esa.Layout:
		delete(except, "REFUSE-9") // the head has the last number
		if l.Peer == esa.Rust5 && l.WriteIDs {
			except["RETRY-3"] = "a delete removes the WriteIDs with the events: a commit that is sent again after that is ErrConflict"
		}
	}
	return except
}

func (bs *benches) open(tb testing.TB, b bench) annals.Store {
	tb.Helper()
	return bs.openObserved(tb, b, bs.options.Observer)
}

func (bs *benches) openObserved(tb testing.TB, b bench, o annals.Observer) annals.Store {
	tb.Helper()
	client := dynamostore.Client(b.client)
	if bs.client != nil {
		client = bs.client(client)
	}
	options := bs.options
	options.Lean = (len(tb.Name())%2 == 0) != testing.Short() // make test sends the requests of one half of the cases so, make race those of the other
	if b.subscriptions != "" {
		options.Subscriptions = dynamostore.Subscriptions{Table: b.subscriptions, Lease: 3 * time.Second, Streams: bs.streams}
	}
	options.Observer = o
	s, err := dynamostore.Open(tb.Context(), client, b.layout, options)
	if err != nil {
		tb.Fatal(err)
	}
	bs.byStore.Store(annals.Store(s), b)
	return s
}

func (bs *benches) of(s annals.Store) bench {
	b, _ := bs.byStore.Load(s)
	return b.(bench)
}

// loseEvent deletes the item of event n, the only one of its commit, without the store. The layout itself says where that item is: it writes events
// to a table in memory, and the first new item is that of the last event.
func (b bench) loseEvent(tb testing.TB, id annals.PersistenceID, n annals.SeqNr) {
	tb.Helper()
	offer, err := b.layout.Plan()
	if err != nil {
		tb.Fatal(err)
	}
	x, table := plantest.New(offer.Tables), offer.Tables[0]
	var before, items []plan.Item // of event n
	for after := range n {
		c := annals.Commit{ID: id, After: after, WriteID: annals.NewWriteID(), Events: texts("lost")}
		if offer.Capabilities.Limits.FirstSnapshot && after == 0 {
			c.Snapshot = &annals.Snapshot{ID: id, SeqNr: 1, Payload: c.Events[0].Payload}
		}
		if _, err := offer.On(x).Journal.Append(tb.Context(), c); err != nil {
			tb.Fatal(err)
		}
		before, items = items, x.Items(table.Name)
	}
	lost := slices.IndexFunc(items, func(it plan.Item) bool {
		return !slices.ContainsFunc(before, func(b plan.Item) bool { return plan.SameKey(table.KeyOf(b), table.KeyOf(it)) })
	})
	gone, err := b.client.DeleteItem(tb.Context(), &dynamodb.DeleteItemInput{TableName: &table.Name, Key: table.KeyOf(items[lost]), ReturnValues: types.ReturnValueAllOld})
	if err != nil || gone.Attributes == nil {
		tb.Fatalf("event %d of %q has no item, %v", n, id, err)
	}
}

// route sends requests to the server, and through a proxy once proxy was called. Most cases need no proxy, and a request through it takes
// much longer.
type route struct {
	http.RoundTripper
	proxy   func() *dynamo.FaultProxy
	through atomic.Pointer[dynamo.FaultProxy]
}

func newRoute(tb testing.TB, connections http.RoundTripper, endpoint string) *route {
	r := &route{RoundTripper: connections}
	r.proxy = sync.OnceValue(func() *dynamo.FaultProxy {
		p := dynamo.NewFaultProxy(endpoint)
		r.through.Store(p)
		return p
	})
	tb.Cleanup(func() { // after the stores are closed
		if p := r.through.Load(); p != nil {
			p.Close()
		}
	})
	return r
}

// RoundTrip implements http.RoundTripper.
func (r *route) RoundTrip(request *http.Request) (*http.Response, error) {
	if p := r.through.Load(); p != nil {
		request = request.Clone(request.Context())
		request.URL.Host = strings.TrimPrefix(p.Endpoint, "http://")
	}
	return r.RoundTripper.RoundTrip(request)
}

// soaking reports whether more random histories than usual are to be run. Then volumes are larger, too.
func soaking() bool {
	f := flag.Lookup("rapid.checks")
	return f.Value.String() != f.DefValue
}

func newCommit() dynamostore.Layout { return commit.Layout{Table: "c" + rand.Text()} }

func newIndexed() dynamostore.Layout { return commit.Layout{Table: "c" + rand.Text(), Index: "slices"} }

// newJ5ik2o has a shard count that keeps the suite's ids apart under the plugin's default keys.
func newJ5ik2o(j j5ik2o.Journal, legacy bool) func() dynamostore.Layout {
	return func() dynamostore.Layout {
		prefix := "s" + rand.Text()
		j := j
		j.Table, j.TagSeparator = prefix+"j", "\x1f" // tags of the suite contain commas
		return j5ik2o.Layout{ShardCount: 1 << 40, Journal: j,
			Snapshot: j5ik2o.Snapshot{Table: prefix + "s", PartitionKey: j.PartitionKey, ShardCount: j.ShardCount, Legacy: legacy},
			State:    j5ik2o.State{Table: prefix + "d", Tombstones: true, TagSeparator: "\x1f"}}
	}
}

func newAkka(old bool) func() dynamostore.Layout {
	return func() dynamostore.Layout {
		prefix := "g" + rand.Text()
		return akka.Layout{Journal: akka.Journal{Table: prefix + "j", IDIndex: "ids", Old: old}, Snapshot: akka.Snapshot{Table: prefix + "s", Old: old}}
	}
}

func newUnindexed() dynamostore.Layout {
	l := newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.BySeqNrPadded, ShardCount: 3}, false)().(j5ik2o.Layout)
	l.NoIndex = true
	return l
}

// newAkka0 has few sequence shards, because most calls read all of them.
func newAkka0(permanent bool) func() dynamostore.Layout {
	return func() dynamostore.Layout {
		return akka0.Layout{Table: "h" + rand.Text(), SequenceShards: 20, Permanent: permanent}
	}
}

// newESA has tables in which only Annals writes, since the payloads of the suite are not those of a library.
func newESA(l esa.Layout) func() dynamostore.Layout {
	return func() dynamostore.Layout {
		l, prefix := l, "e"+rand.Text()
		l.Format = esa.Plain()
		l.Journal.Table, l.Snapshot.Table = prefix+"j", prefix+"s"
		return l
	}
}

func newRust5(keep int, writeIDs bool) func() dynamostore.Layout {
	return func() dynamostore.Layout {
		prefix := "t" + rand.Text()
		return esa.Layout{Peer: esa.Rust5, Journal: esa.Journal{Table: prefix + "j"}, Snapshot: esa.Snapshot{Table: prefix + "s", Keep: keep}, Head: prefix + "h", WriteIDs: writeIDs}
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	all, keys := storetest.Parts{}, storetest.Parts{Journal: true, Snapshots: true} // what other settings of keys change
	type variant struct {
		layout func() dynamostore.Layout
		only   storetest.Parts
	}
	layouts := map[string]variant{
		"commit with an index":     {newIndexed, all},
		"j5ik2o, id and id":        {newJ5ik2o(j5ik2o.Journal{}, false), all},
		"j5ik2o, number and plain": {newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.BySeqNr, ShardCount: 3}, false), keys},
		"akka":                     {newAkka(false), all},
		"akka0, permanent":         {newAkka0(true), all},
		"esa":                      {newESA(esa.Layout{Shards: 3, WriteIDs: true}), all},
		"esa, rust 5":              {newRust5(2, true), keys},
	}
	if testing.Short() { // make race and make soak run the layouts with other settings than make test
		layouts = map[string]variant{
			"commit":                                 {newCommit, all},
			"j5ik2o, number and number, hard delete": {newJ5ik2o(j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.ByNumber, ShardCount: 3, HardDelete: true}, true), all},
			"j5ik2o, number and padded, no index":    {newUnindexed, keys},
			"akka, old format":                       {newAkka(true), keys},
			"esa, copies":                            {newESA(esa.Layout{Peer: esa.JS3, Shards: 64, WriteIDs: true, Snapshot: esa.Snapshot{Keep: 1000}}), keys},
			"akka0":                                  {newAkka0(false), keys},
		}
	}
	for name, v := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := (&benches{layout: v.layout}).config(t)
			c.Only = v.only
			c.Short = c.Short || v.only != all // the layout has run with more data under other settings
			storetest.Run(t, c)
		})
	}
}

// The server is several times slower for tables with a stream.
func TestSubscribe(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]func() dynamostore.Layout{
		"commit":               newCommit,
		"commit with an index": newIndexed,
		"esa":                  newESA(esa.Layout{Shards: 3, WriteIDs: true}),
		"esa, rust 5":          newRust5(2, true),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := (&benches{layout: layout, subscribe: true}).config(t)
			c.Topics = []string{"SUBSCRIBE"}
			storetest.Run(t, c)
		})
	}
}
