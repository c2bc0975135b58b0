package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/annals-go/annals"
)

// backend is a store with a table of the program's own, the outbox. There is a file for each kind of store: nothing else in this
// program differs between stores.
type backend struct {
	store annals.Store
	// inTx runs fn in one transaction. What fn does with in, and the messages that it sends, are stored together or not at all.
	inTx func(ctx context.Context, fn func(ctx context.Context, in annals.Store, send func(message) error) error) error
	// outbox is the messages that were sent, in any order.
	outbox func(ctx context.Context) ([]message, error)
}

// message is a row of the outbox.
type message struct {
	Order string
	SeqNr annals.SeqNr
	Text  string
}

// kind is what the program does with a URL of one scheme.
type kind struct {
	schema  func() (string, error)                      // the statements that create the tables; "" if there are none
	migrate func(ctx context.Context, u *url.URL) error // creates the tables, or upgrades them
	open    func(ctx context.Context, u *url.URL, o annals.Observer) (*backend, error)
}

// kinds are the stores that this program links, by the scheme of their URLs.
var kinds = map[string]kind{
	"mem":      {noSchema, migrateMemory, openMemory},
	"sqlite":   {schemaOfSQLite, migrateSQLite, openSQLite},
	"postgres": {schemaOfPostgres, migratePostgres, openPostgres},
	"dynamodb": {noSchema, migrateDynamoDB, openDynamoDB},
}

func noSchema() (string, error) { return "", nil }

// parse returns what to do with rawURL. Its errors do not repeat the URL, which may contain a password.
func parse(rawURL string) (*url.URL, kind, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, kind{}, errors.New("the URL of the store cannot be parsed")
	}
	k, ok := kinds[u.Scheme]
	if !ok {
		return nil, kind{}, errors.New("the URL of the store begins with mem:, sqlite:, postgres: or dynamodb:")
	}
	return u, k, nil
}
