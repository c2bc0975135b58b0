package j5ik2o_test

import (
	"context"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	host "github.com/annals-go/annals/entity"
)

func openProduction(ctx context.Context, client dynamostore.Client, options dynamostore.Options) (*dynamostore.Store, error) {
	layout := j5ik2o.Layout{
		Journal:  j5ik2o.Journal{Table: "prod-journal", ShardCount: 64},
		Snapshot: j5ik2o.Snapshot{Table: "prod-snapshot"},
		State:    j5ik2o.State{Off: true}, // there is no state table
	}
	store, err := dynamostore.Open(ctx, client, layout, options)
	return store, err
}

// ValueAdded is the class com.example.Counter$ValueAdded of the JVM.
type ValueAdded struct {
	N int `json:"n"`
}

// According to Jackson's migration the field was called value in version 1.
type valueAddedV1 struct {
	Value int `json:"value"`
}

var counters = behavior.EventSourced[int, ValueAdded, int, int]{
	Type: "Counter",
	PersistenceID: func(id string) annals.PersistenceID {
		return annals.PersistenceID("counter-" + id)
	},
	Events: codec.JSON("com.example.Counter$ValueAdded#2",
		codec.Was(codec.JSON[valueAddedV1]("com.example.Counter$ValueAdded"), func(e valueAddedV1) (ValueAdded, error) { return ValueAdded{e.Value}, nil })),
	Decide: func(_, add int) ([]ValueAdded, error) { return []ValueAdded{{add}}, nil },
	Evolve: func(sum int, e ValueAdded) int { return sum + e.N },
	Reply:  func(sum, _ int, _ []ValueAdded) int { return sum },
}

// An entity of the JVM continues in Go.
func TestEntityOfTheJVM(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, err := openProduction(ctx, connect(t), dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	jvm := func(manifest, data string) annals.NewEvent {
		return annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: manifest, Data: []byte(data)}}
	}
	if _, err := store.Journal().Append(ctx, annals.Commit{ID: "counter-7", Events: []annals.NewEvent{
		jvm("com.example.Counter$ValueAdded", `{"value":3}`), jvm("com.example.Counter$ValueAdded#2", `{"n":4}`)}}); err != nil {
		t.Fatal(err)
	}
	runtime, err := host.New(store, counters, host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Shutdown(ctx) }()
	if sum, err := runtime.Ask(ctx, "7", 5); sum != 12 || err != nil {
		t.Errorf("got %d, %v, want 12", sum, err)
	}
	if last, err := store.Journal().LastSeqNr(ctx, "counter-7"); last != 3 || err != nil {
		t.Errorf("got %d events, %v, want 3", last, err)
	}
	spread, err := dynamostore.Open(ctx, connect(t), spreadLayout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = spread.Close()
}

var spreadLayout = j5ik2o.Layout{
	ShardCount: 16,
	NoIndex:    true,
	Journal:    j5ik2o.Journal{Table: "busy-journal", PartitionKey: j5ik2o.SequenceNumberBased},
	Snapshot:   j5ik2o.Snapshot{Table: "busy-snapshot"},
	State:      j5ik2o.State{Off: true},
}
