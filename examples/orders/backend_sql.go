package main

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqltx"
)

// inSQL is the backend of SQLite and of PostgreSQL.
func inSQL(s sqltx.Store) *backend {
	return &backend{
		store: s,
		inTx: func(ctx context.Context, fn func(context.Context, annals.Store, func(message) error) error) error {
			return s.InTx(ctx, func(ctx context.Context, tx sqltx.Tx, in annals.Store) error {
				return fn(ctx, in, func(m message) error {
					_, err := tx.Exec(ctx, `INSERT INTO outbox VALUES ($1, $2, $3)`, m.Order, int64(m.SeqNr), m.Text)
					return err
				})
			})
		},
		outbox: func(ctx context.Context) (all []message, err error) {
			err = s.Read(ctx, func(scan func(...any) error) error {
				var m message
				err := scan(&m.Order, &m.SeqNr, &m.Text)
				all = append(all, m)
				return err
			}, `SELECT order_id, seq_nr, text FROM outbox`)
			return all, err
		},
	}
}
