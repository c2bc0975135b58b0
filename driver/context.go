package driver

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/contexts"
)

// ContextWithTx returns the ctx for a function of the user which runs in a transaction of s, the annals.Store that users hold. Stores and
// hosts recognise by it that a write to s would wait for that transaction, which waits for the write.
func ContextWithTx(ctx context.Context, s annals.Store) context.Context {
	return contexts.WithTx(ctx, s)
}

// ContextInTx reports whether ctx comes from the function of a transaction of s. Stores are compared with ==.
func ContextInTx(ctx context.Context, s annals.Store) bool { return contexts.InTx(ctx, s) }
