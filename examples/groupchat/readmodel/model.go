// Package readmodel is what the chat service knows across threads: the threads of an account, their members and messages, and how much
// the account has not read. It is a set of tables in a SQLite or PostgreSQL database, which is filled from the events of all threads: by a
// projection where the events can be queried, and by an updater where they are pushed (ability.Subscriber). The events may be in another store.
//
// Reads show what was handled. That is a moment behind what commands have stored.
package readmodel

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/sqltx"
)

// Model is a read model. Its methods may be called from many goroutines at once.
type Model struct{ in sqltx.Store }

// lockPostgres lets one server after the other create the tables: CREATE TABLE IF NOT EXISTS fails when two do so at once.
const lockPostgres = `SELECT pg_advisory_xact_lock(hashtextextended('groupchat create tables', 0))`

// Open returns the read model in the database of a store, which stays the caller's. It creates the tables that do not exist. ErrUnsupported
// when the store is neither a *sqlitestore.Store nor a *pgstore.Store.
func Open(ctx context.Context, in annals.Store) (*Model, error) {
	var m *Model
	create := tables
	switch s := in.(type) {
	case *sqlitestore.Store:
		m = &Model{s.SQL()}
	case *pgstore.Store:
		m = &Model{s.SQL()}
		create = append([]string{lockPostgres}, tables...)
	default:
		return nil, &annals.Error{Op: "open read model", Kind: annals.ErrUnsupported, Err: fmt.Errorf("a %T has no tables for it: use SQLite or PostgreSQL", in)}
	}
	err := m.inTx(ctx, func(ctx context.Context, tx sqltx.Tx) error {
		for _, text := range create {
			if _, err := tx.Exec(ctx, text); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO chat_subscription (id, name) VALUES (1, $1) ON CONFLICT DO NOTHING`, rand.Text())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create the tables of the read model: %w", err)
	}
	return m, nil
}

func (m *Model) inTx(ctx context.Context, fn func(ctx context.Context, tx sqltx.Tx) error) error {
	return m.in.InTx(ctx, func(ctx context.Context, tx sqltx.Tx, _ annals.Store) error { return fn(ctx, tx) })
}

// runner returns the runner of a generation.
func (m *Model) runner(journal annals.Store, generation int64, o projection.Options) (*projection.Runner, error) {
	return projection.ExactlyOnce(projectionOf(generation), source(journal), m.in, func(ctx context.Context, tx sqltx.Tx, e projection.Envelope[chat.Event]) error {
		return handle(ctx, tx, generation, e)
	}, o)
}

// generation returns the generation that is read.
func (m *Model) generation(ctx context.Context) (n int64, err error) {
	err = m.in.Read(ctx, func(scan func(...any) error) error { return scan(&n) }, `SELECT current FROM chat_generation`)
	return n, err
}
