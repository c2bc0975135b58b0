// Package dynamostore keeps events, snapshots, durable states and the offsets of projections in Amazon DynamoDB.
//
//	client, err := dynamostore.NewClient(ctx, dynamostore.ClientOptions{})
//	store, err := dynamostore.Open(ctx, client, commit.Layout{}, dynamostore.Options{CreateTables: true})
//
// A layout decides how records become items. Package commit is the layout for new tables. Package akka is the layout of the tables of
// the Akka 1.x and Pekko plugins, package akka0 that of the tables of the Akka 0.1 plugin, package j5ik2o that of the tables of the
// j5ik2o Akka plugin, package esa that of the tables of the event-store-adapter libraries.
//
// The commit layout answers queries across entities if its table has an index:
//
//	store, err := dynamostore.Open(ctx, client, commit.Layout{Index: "slices"}, dynamostore.Options{CreateTables: true})
//
// A layout only plans requests; this package sends them. It reads all pages, sends the unprocessed rest of a batch again, limits the
// rate of requests to each throttled partition key, finds out by the WriteID in the stored item whether a write whose answer was lost
// has succeeded, and refuses an item or transaction that is too large for the service before sending it.
//
// # Caveats
//
// Queries read an index that lags behind the table, and clocks of writers differ. So follow events with package projection, or with query.Feed:
// both look back by Options.Lateness. docs/layouts/commit.md says what that costs.
//
// This package repeats requests itself, so the SDK's own retries are off for every call. A throttled request is repeated until the
// context ends: give contexts a deadline.
//
// In a global table conditions hold within one region only, and a restored backup has lower numbers. Both can make numbers repeat. The
// promises do not hold for a table that other programs write to. docs/stores/dynamodb.md says which rights are needed and which settings
// are recommended.
package dynamostore
