package dynamostore_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/sharded"
	"github.com/annals-go/annals/internal/hosttest"
)

func TestTwoRuntimes(t *testing.T) {
	t.Parallel()
	for name, layout := range map[string]dynamostore.Layout{
		"commit":                     newCommit(),
		"sharded, id":                newSharded(sharded.Journal{}, false)(),
		"sharded, number":            newSharded(sharded.Journal{PartitionKey: sharded.SequenceNumberBased, ShardCount: 4}, false)(),
		"sharded, number and number": newSharded(sharded.Journal{PartitionKey: sharded.SequenceNumberBased, SortKey: sharded.ByNumber, ShardCount: 4}, true)(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func() *dynamostore.Store {
				s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s
			}
			hosttest.TwoRuntimes(t, open(), open())
		})
	}
}
