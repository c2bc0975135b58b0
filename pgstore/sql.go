package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqltx"
)

// SQL returns s with transactions that are used as those of a SQLite store are. Its Read uses DB.
func (s *Store) SQL() sqltx.Store { return portable{s} }

type portable struct{ *Store }

func (p portable) InTx(ctx context.Context, fn func(ctx context.Context, tx sqltx.Tx, in annals.Store) error) error {
	return p.Store.InTx(ctx, func(ctx context.Context, tx pgx.Tx, in annals.Store) error { return fn(ctx, SQLTx(tx), in) })
}

func (p portable) Read(ctx context.Context, row func(func(...any) error) error, text string, args ...any) error {
	return readRows(ctx, p.DB(), row, text, args)
}

// SQLTx returns tx as a sqltx.Tx, for change handlers.
func SQLTx(tx pgx.Tx) sqltx.Tx { return portableTx{tx} }

type portableTx struct{ tx pgx.Tx }

func (p portableTx) Exec(ctx context.Context, text string, args ...any) (int64, error) {
	done, err := p.tx.Exec(ctx, text, args...)
	return done.RowsAffected(), err
}

func (p portableTx) Query(ctx context.Context, row func(func(...any) error) error, text string, args ...any) error {
	return readRows(ctx, p.tx, row, text, args)
}

// readRows reads from a pool or a transaction.
func readRows(ctx context.Context, from querier, row func(func(...any) error) error, text string, args []any) error {
	rows, err := from.Query(ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
