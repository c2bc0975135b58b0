// Package readmodel is what the chat service knows across threads: the threads of an account, their members and messages, and how much
// the account has not read. It is a set of tables in a SQLite or PostgreSQL database, which is filled from the events of all threads: by a
// projection where the events can be queried, and by an updater where they are pushed (annals.Subscriber). The events may be in another store.
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
)

// Model is a read model. Its methods may be called from many goroutines at once.
type Model struct {
	inTx func(ctx context.Context, fn func(ctx context.Context, exec exec) error) error
	read func(ctx context.Context, each func(scan scan) error, text string, args ...any) error
	// runner returns the runner of a generation.
	runner func(journal annals.Store, generation int64, o projection.Options) (*projection.Runner, error)
}

// exec executes a statement in a transaction and returns how many rows it has changed.
type exec func(ctx context.Context, text string, args ...any) (int64, error)

// scan reads the columns of a row.
type scan func(into ...any) error

// Open returns the read model in the database of a store, which stays the caller's. It creates the tables that do not exist. ErrUnsupported
// when the store is neither a *sqlitestore.Store nor a *pgstore.Store.
func Open(ctx context.Context, in annals.Store) (*Model, error) {
	var m *Model
	create := tables
	switch s := in.(type) {
	case *sqlitestore.Store:
		m = newModel(s, execSQLite, readSQLite(s))
	case *pgstore.Store:
		m = newModel(s, execPostgres, readPostgres(s))
		create = append([]string{lockPostgres}, tables...)
	default:
		return nil, &annals.Error{Op: "open read model", Kind: annals.ErrUnsupported, Err: fmt.Errorf("a %T has no tables for it: use SQLite or PostgreSQL", in)}
	}
	err := m.inTx(ctx, func(ctx context.Context, exec exec) error {
		for _, text := range create {
			if _, err := exec(ctx, text); err != nil {
				return err
			}
		}
		_, err := exec(ctx, `INSERT INTO chat_subscription (id, name) VALUES (1, $1) ON CONFLICT DO NOTHING`, rand.Text())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("create the tables of the read model: %w", err)
	}
	return m, nil
}

func newModel[T any](in projection.TxStore[T], executor func(tx T) exec, read func(context.Context, func(scan) error, string, ...any) error) *Model {
	return &Model{
		inTx: func(ctx context.Context, fn func(ctx context.Context, exec exec) error) error {
			return in.InTx(ctx, func(ctx context.Context, tx T, _ annals.Store) error { return fn(ctx, executor(tx)) })
		},
		read: read,
		runner: func(journal annals.Store, generation int64, o projection.Options) (*projection.Runner, error) {
			return projection.ExactlyOnce(projectionOf(generation), source(journal), in, func(ctx context.Context, tx T, e projection.Envelope[chat.Event]) error {
				return handle(ctx, executor(tx), generation, e)
			}, o)
		},
	}
}

// generation returns the generation that is read.
func (m *Model) generation(ctx context.Context) (n int64, err error) {
	err = m.read(ctx, func(scan scan) error { return scan(&n) }, `SELECT current FROM chat_generation`)
	return n, err
}
