// Package dynamostore keeps events, snapshots and durable states in Amazon DynamoDB.
//
//	client, err := dynamostore.NewClient(ctx, dynamostore.ClientOptions{})
//	store, err := dynamostore.Open(ctx, client, commit.Layout{}, dynamostore.Options{CreateTables: true})
//
// A layout says where records live. Package commit is the one for new tables; package sharded is for the tables of the
// j5ik2o Akka plugin. A layout only plans requests: everything that talks to DynamoDB is here, once. All pages are read, what a
// batch leaves over is sent again, throttled partition keys are paced one by one, an answer that got lost is found out by
// the WriteID in the item that stands, and an item or transaction that the service would refuse for its size is refused
// before it is sent.
//
// The commit layout answers queries across entities where its table has an index:
//
//	store, err := dynamostore.Open(ctx, client, commit.Layout{Index: "slices"}, dynamostore.Options{CreateTables: true})
//
// # Caveats
//
// Queries read an index, which lags behind the table: a follower has to look back by the lag, by the difference between
// the clocks of all who write and read, and by what one exchange with the service takes. docs/layouts/commit.md says what it
// costs.
//
// Retrying is this package's alone, so the SDK's own retries are switched off for every call. Requests go on through throttling
// until the context ends: give contexts deadlines. In a global table conditions hold within one region only, and a restore
// from a backup takes numbers back: both end the promise that numbers never come back. Items that something else writes to a
// table void its promises. docs/stores/dynamodb.md says what to allow, to switch on and to expect.
package dynamostore
