package dynamostore_test

import (
	"context"

	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
)

// The documents of the layouts show how each is opened.
var _ = map[string]func(ctx context.Context, client dynamostore.Client, options dynamostore.Options) (*dynamostore.Store, error){
	"commit": func(ctx context.Context, client dynamostore.Client, _ dynamostore.Options) (*dynamostore.Store, error) {
		store, err := dynamostore.Open(ctx, client, commit.Layout{Table: "annals"}, dynamostore.Options{CreateTables: true})
		return store, err
	},
	"commit with an index": func(ctx context.Context, client dynamostore.Client, _ dynamostore.Options) (*dynamostore.Store, error) {
		layout := commit.Layout{Table: "annals", Index: "slices"}
		store, err := dynamostore.Open(ctx, client, layout, dynamostore.Options{CreateTables: true})
		return store, err
	},
	"akka": func(ctx context.Context, client dynamostore.Client, options dynamostore.Options) (*dynamostore.Store, error) {
		layout := akka.Layout{
			Journal:  akka.Journal{Table: "pekko-persistence"},
			Snapshot: akka.Snapshot{Table: "pekko-persistence-snapshot"},
		}
		store, err := dynamostore.Open(ctx, client, layout, options)
		return store, err
	},
	"akka0": func(ctx context.Context, client dynamostore.Client, options dynamostore.Options) (*dynamostore.Store, error) {
		layout := akka0.Layout{Table: "events"}
		store, err := dynamostore.Open(ctx, client, layout, options)
		return store, err
	},
	"esa": func(ctx context.Context, client dynamostore.Client, options dynamostore.Options) (*dynamostore.Store, error) {
		layout := esa.Layout{
			Peer:   esa.Go,
			Shards: 32,
		}
		store, err := dynamostore.Open(ctx, client, layout, options)
		return store, err
	},
	"esa with a type that has a hyphen": func(ctx context.Context, client dynamostore.Client, options dynamostore.Options) (*dynamostore.Store, error) {
		layout := esa.Layout{Peer: esa.Go, Shards: 32, Types: []string{"order-item"}}
		return dynamostore.Open(ctx, client, layout, options)
	},
	"esa, rust 5": func(ctx context.Context, client dynamostore.Client, options dynamostore.Options) (*dynamostore.Store, error) {
		store, err := dynamostore.Open(ctx, client, esa.Layout{Peer: esa.Rust5}, options)
		return store, err
	},
}
