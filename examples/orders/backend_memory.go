package main

import (
	"context"
	"net/url"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

// migrateMemory has nothing to do.
func migrateMemory(context.Context, *url.URL) error { return nil }

// outboxKey is where the messages are among the values of a memstore.
const outboxKey = "outbox"

func openMemory(_ context.Context, _ *url.URL, o annals.Observer) (*backend, error) {
	s, err := memstore.Open(memstore.Options{Observer: o})
	if err != nil {
		return nil, err
	}
	return &backend{
		store: s,
		inTx: func(ctx context.Context, fn func(context.Context, annals.Store, func(message) error) error) error {
			return s.InTx(ctx, func(ctx context.Context, tx memstore.Tx, in annals.Store) error {
				return fn(ctx, in, func(m message) error {
					sent, _ := tx.Value(outboxKey).([]message)
					tx.SetValue(outboxKey, append(slices.Clip(sent), m))
					return nil
				})
			})
		},
		outbox: func(context.Context) ([]message, error) {
			sent, _ := s.Value(outboxKey).([]message)
			return sent, nil
		},
	}, nil
}
