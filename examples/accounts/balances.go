package main

import (
	"context"

	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqltx"
)

// The read model: the balances of all accounts, in a table beside the journal.
const (
	createBalances = `CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, cents BIGINT NOT NULL)`
	addToBalance   = `INSERT INTO balances VALUES ($1, $2) ON CONFLICT (account) DO UPDATE SET cents = balances.cents + excluded.cents`
	selectRichest  = `SELECT account, cents FROM balances ORDER BY cents DESC, account LIMIT 3`
)

// newBalances keeps the table up to date while it runs. Each event has its effect once.
func newBalances(store sqltx.Store, o projection.Options) (*projection.Runner, error) {
	source := projection.Source[Event]{Store: store, Type: account.Type, Codec: events}
	return projection.ExactlyOnce("balances", source, store,
		func(ctx context.Context, tx sqltx.Tx, e projection.Envelope[Event]) error {
			_, err := tx.Exec(ctx, addToBalance, e.ID.EntityID(), e.Value.change())
			return err
		}, o)
}

// richest lists the accounts that have most.
func richest(ctx context.Context, store sqltx.Store) (names []string, err error) {
	names = []string{} // not nil, which is null in JSON
	err = store.Read(ctx, func(scan func(...any) error) error {
		var name string
		var cents int64
		err := scan(&name, &cents)
		names = append(names, name)
		return err
	}, selectRichest)
	return names, err
}
