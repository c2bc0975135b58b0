package dynamostore_test

import (
	"fmt"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/grouped"
	"github.com/annals-go/annals/dynamostore/hashkey"
	"github.com/annals-go/annals/dynamostore/sharded"
)

// The tables of the j5ik2o plugin.
func ExampleSchema_sharded() {
	layout := sharded.Layout{
		Journal:  sharded.Journal{Table: "prod-journal", PartitionKey: sharded.SequenceNumberBased}, // written by version 1.11
		Snapshot: sharded.Snapshot{Table: "prod-snapshot", PartitionKey: sharded.SequenceNumberBased},
		State:    sharded.State{Off: true}, // there is no state table
	}
	printTables(layout)
	// Output:
	// prod-journal pkey skey
	// prod-snapshot pkey skey
}

// The tables of the Pekko plugin.
func ExampleSchema_grouped() {
	layout := grouped.Layout{
		Journal:  grouped.Journal{Table: "pekko-persistence", Name: "shop", SequenceShards: 20, IDIndex: "persistence-ids-idx"},
		Snapshot: grouped.Snapshot{Table: "pekko-persistence-snapshot"},
	}
	printTables(layout)
	// Output:
	// pekko-persistence par num
	// pekko-persistence-snapshot par seq
}

// The table of the plugin of version 0.1.
func ExampleSchema_hashkey() {
	layout := hashkey.Layout{Table: "persistence", JournalName: "shop", SequenceShards: 2000}
	printTables(layout)
	// Output:
	// persistence key
}

// printTables prints the names and keys of tables.
func printTables(layout dynamostore.Layout) {
	tables, err := dynamostore.Schema(layout, dynamostore.Options{})
	if err != nil {
		fmt.Println(err)
	}
	for _, t := range tables {
		fmt.Print(*t.TableName)
		for _, k := range t.KeySchema {
			fmt.Print(" ", *k.AttributeName)
		}
		fmt.Println()
	}
}
