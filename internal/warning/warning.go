// Package warning carries the warnings of a store to the caller of one of its operations, beside the Observer of the store.
package warning

import "context"

type key struct{}

// Context returns ctx for a call to a store, which tells of its warnings.
func Context(ctx context.Context, tell func(error)) context.Context {
	return context.WithValue(ctx, key{}, tell)
}

// Tell tells of err, an annals.Result.Warning of the call of ctx.
func Tell(ctx context.Context, err error) {
	if tell, ok := ctx.Value(key{}).(func(error)); ok {
		tell(err)
	}
}
