package dynamostore_test

import (
	"encoding/json"
	"fmt"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// The tables of the j5ik2o plugin.
func ExampleSchema_j5ik2o() {
	layout := j5ik2o.Layout{
		Journal:  j5ik2o.Journal{Table: "prod-journal", PartitionKey: j5ik2o.SequenceNumberBased}, // written by version 1.11
		Snapshot: j5ik2o.Snapshot{Table: "prod-snapshot", PartitionKey: j5ik2o.SequenceNumberBased},
		State:    j5ik2o.State{Off: true}, // there is no state table
	}
	printTables(layout)
	// Output:
	// prod-journal pkey skey
	// prod-snapshot pkey skey
}

// The tables of the Pekko plugin.
func ExampleSchema_akka() {
	layout := akka.Layout{
		Journal:  akka.Journal{Table: "pekko-persistence", Name: "shop", SequenceShards: 20, IDIndex: "persistence-ids-idx"},
		Snapshot: akka.Snapshot{Table: "pekko-persistence-snapshot"},
	}
	printTables(layout)
	// Output:
	// pekko-persistence par num
	// pekko-persistence-snapshot par seq
}

// The table of the plugin of version 0.1.
func ExampleNewSetup_akka0() {
	layout := akka0.Layout{Table: "persistence", JournalName: "shop", SequenceShards: 2000}
	printTables(layout)
	// Output:
	// persistence key
}

// printTables prints the names and keys of tables.
func printTables(layout dynamostore.Layout) {
	setup, err := dynamostore.NewSetup(nil, layout, dynamostore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := setup.Schema("json")
	if err != nil {
		fmt.Println(err)
	}
	var tables []*dynamodb.CreateTableInput
	if err := json.Unmarshal([]byte(text), &tables); err != nil {
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
