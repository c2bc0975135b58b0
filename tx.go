package annals

import "context"

type txKey struct{}

// txMark says that a context is that of a function in a transaction of store.
type txMark struct {
	store Store
	outer *txMark // of a transaction around it, of another store
}

// ContextWithTx returns the ctx that a Transactor gives to the function which runs in a transaction of s. Stores and hosts recognise by
// it that a write to s would wait for that transaction, which waits for the write.
func ContextWithTx(ctx context.Context, s Store) context.Context {
	outer, _ := ctx.Value(txKey{}).(*txMark)
	return context.WithValue(ctx, txKey{}, &txMark{s, outer})
}

// ContextInTx reports whether ctx comes from the function of a transaction of s, or of any store when s is nil. Stores are compared
// with ==.
func ContextInTx(ctx context.Context, s Store) bool {
	mark, _ := ctx.Value(txKey{}).(*txMark)
	for ; mark != nil; mark = mark.outer {
		if s == nil || mark.store == s {
			return true
		}
	}
	return false
}
