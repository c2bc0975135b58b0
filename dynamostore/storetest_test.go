package dynamostore_test

import (
	"crypto/rand"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/sharded"
	"github.com/annals-go/annals/internal/testenv"
	"github.com/annals-go/annals/storetest"
)

// bench is a store under test with the proxy in front of its server.
type bench struct {
	proxy  *testenv.FaultProxy
	layout dynamostore.Layout
}

// conformance is the suite's Config for a layout: layout makes one on new tables.
func conformance(t *testing.T, layout func() dynamostore.Layout) storetest.Config {
	t.Helper()
	endpoint := testenv.DynamoDB(t)
	var benches sync.Map // by store
	open := func(tb testing.TB, b bench) annals.Store {
		tb.Helper()
		client, err := connect(tb.Context(), b.proxy.Endpoint)
		if err != nil {
			tb.Fatal(err)
		}
		s, err := dynamostore.Open(tb.Context(), client, b.layout, dynamostore.Options{CreateTables: true})
		if err != nil {
			tb.Fatal(err)
		}
		benches.Store(annals.Store(s), b)
		return s
	}
	of := func(s annals.Store) bench {
		b, _ := benches.Load(s)
		return b.(bench)
	}
	return storetest.Config{
		Open: func(tb testing.TB) annals.Store {
			b := bench{testenv.NewFaultProxy(endpoint), layout()}
			tb.Cleanup(b.proxy.Close)
			return open(tb, b)
		},
		Reopen:     func(tb testing.TB, s annals.Store) annals.Store { return open(tb, of(s)) },
		LoseAnswer: func(_ testing.TB, s annals.Store) { of(s).proxy.LoseNextWrite() },
		Short:      true, // the server is slow beside an embedded store
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("commit", func(t *testing.T) {
		t.Parallel()
		c := conformance(t, func() dynamostore.Layout { return commit.Layout{Table: "c" + rand.Text()} })
		storetest.Run(t, c)
		storetest.RunTransactor[*dynamostore.Tx](t, c)
	})
	t.Run("commit with an index", func(t *testing.T) {
		t.Parallel()
		c := conformance(t, func() dynamostore.Layout { return commit.Layout{Table: "c" + rand.Text(), Index: "slices"} })
		storetest.Run(t, c)
		storetest.RunTransactor[*dynamostore.Tx](t, c)
	})
	// A shard count this high keeps the suite's ids apart under the plugin's default keys. What the pairs differ in are keys
	// and queries, so the volumes are the short ones.
	many := 1 << 40
	pairs := map[string]sharded.Journal{
		"id and id":         {},
		"number and plain":  {PartitionKey: sharded.SequenceNumberBased, SortKey: sharded.BySeqNr, ShardCount: 8},
		"number and padded": {PartitionKey: sharded.SequenceNumberBased, SortKey: sharded.BySeqNrPadded, ShardCount: 8},
		"number and number": {PartitionKey: sharded.SequenceNumberBased, SortKey: sharded.ByNumber, ShardCount: 8},
		"hard delete":       {PartitionKey: sharded.SequenceNumberBased, ShardCount: 4, HardDelete: true},
	}
	if testing.Short() {
		pairs = map[string]sharded.Journal{"number and id": {PartitionKey: sharded.SequenceNumberBased, ShardCount: 4}}
	}
	for name, journal := range pairs {
		t.Run("sharded, "+name, func(t *testing.T) {
			t.Parallel()
			c := conformance(t, func() dynamostore.Layout {
				prefix := "s" + rand.Text()
				journal := journal
				journal.Table, journal.TagSeparator = prefix+"j", "\x1f" // tags of the suite contain commas
				return sharded.Layout{ShardCount: many, Journal: journal,
					Snapshot: sharded.Snapshot{Table: prefix + "s", PartitionKey: journal.PartitionKey, ShardCount: journal.ShardCount, Legacy: name == "number and number"},
					State:    sharded.State{Table: prefix + "d", Tombstones: true, TagSeparator: "\x1f"}}
			})
			storetest.Run(t, c)
			storetest.RunTransactor[*dynamostore.Tx](t, c)
		})
	}
}
