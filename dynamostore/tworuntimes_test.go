package dynamostore_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/sharded"
	"github.com/annals-go/annals/internal/hosttest"
)

// onLayouts runs test with layouts whose recoveries differ. open opens another store on the same tables.
func onLayouts(t *testing.T, test func(t *testing.T, open func() *dynamostore.Store)) {
	t.Parallel()
	for name, layout := range map[string]dynamostore.Layout{
		"commit":                     newCommit(),
		"sharded, id":                newSharded(sharded.Journal{}, false)(),
		"sharded, number":            newSharded(sharded.Journal{PartitionKey: sharded.SequenceNumberBased, ShardCount: 4}, false)(),
		"sharded, number and number": newSharded(sharded.Journal{PartitionKey: sharded.SequenceNumberBased, SortKey: sharded.ByNumber, ShardCount: 4}, true)(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func() *dynamostore.Store {
				s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			})
		})
	}
}

func TestTwoRuntimes(t *testing.T) {
	onLayouts(t, func(t *testing.T, open func() *dynamostore.Store) {
		hosttest.TwoRuntimes(t, open(), open())
	})
}

func TestHostsRecover(t *testing.T) {
	onLayouts(t, func(t *testing.T, open func() *dynamostore.Store) {
		hosttest.Recovery(t, open())
	})
}

func TestHostsDeleteEvents(t *testing.T) {
	onLayouts(t, func(t *testing.T, open func() *dynamostore.Store) {
		hosttest.Retention(t, open())
	})
}
