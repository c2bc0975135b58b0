package memstore

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
)

// Tx is the transaction of a store that has none to show.
type Tx struct{}

var _ annals.Transactor[Tx] = (*Store)(nil)

var (
	errTxDone  = errors.New("the transaction has ended")
	errOutside = errors.New("the outer store was written to with the context of a transaction: use the store that InTx handed over")
)

// InTx is annals.Transactor. The store is locked while fn runs.
func (s *Store) InTx(ctx context.Context, fn func(ctx context.Context, tx Tx, in annals.Store) error) error {
	d, unlock, err := view{s: s}.beginWrite(ctx, "transaction", "")
	if err != nil {
		return err
	}
	defer unlock()
	before, tx, committed := d.clone(), &transaction{}, false
	s.before.Store(&before)
	defer func() {
		tx.done = true
		s.before.Store(nil)
		if !committed { // an error, or a panic in fn
			s.data = before.clone()
		}
	}()
	if err := fn(annals.ContextWithTx(ctx, s), Tx{}, inTx{s: s, tx: tx}); err != nil {
		return &annals.Error{Op: "transaction", Err: err}
	}
	committed = true
	return nil
}

type transaction struct{ done bool }

// inTx is a store inside a transaction.
type inTx struct {
	annals.Unsupported
	s  *Store
	tx *transaction
}

func (t inTx) view() view                        { return view{t.s, t.tx} }
func (t inTx) Journal() annals.Journal           { return t.view() }
func (t inTx) Snapshots() annals.SnapshotStore   { return snapshots{t.view()} }
func (t inTx) States() annals.StateStore         { return states{t.view()} }
func (t inTx) Query() annals.Query               { return query{t.view()} }
func (t inTx) Offsets() annals.OffsetStore       { return offsets{t.view()} }
func (t inTx) Capabilities() annals.Capabilities { return t.s.Capabilities() }
