package pgstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/pgstore"
)

// The tables of the Pekko r2dbc plugin, which JVM programs write, too.
func ExampleOpen_pekko() {
	open := func(ctx context.Context) (*pgstore.Store, error) {
		config, err := pgxpool.ParseConfig("postgres://akka:secret@db:5432/akka?sslmode=verify-full&pool_max_conns=20&pool_max_conn_lifetime=60m")
		if err != nil {
			return nil, err
		}
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		return pgstore.Open(ctx, pool, pgstore.Options{
			Tables:   pgstore.PekkoTables(), // zero Tables are Akka's
			Lateness: 30 * time.Second,      // JVM programs write to the tables, too
		})
	}
	_ = open
}

// unread loads orders and returns what is wrong with those that cannot be read.
func unread(ctx context.Context, store annals.Store, ids []string) error {
	repository, err := aggregate.New(store, orders, aggregate.Options{})
	if err != nil {
		return err
	}
	var faults []error
	for _, id := range ids {
		_, _, err := repository.Load(ctx, id)
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

func TestUnread(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for id, manifest := range map[annals.PersistenceID]string{"order-1": "annals.OrderPlaced#2", "order-2": "annals.OrderCancelled"} {
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 31, Manifest: manifest, Data: []byte("{}")}}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := unread(t.Context(), s, []string{"1"}); err != nil {
		t.Error(err)
	}
	if err := unread(t.Context(), s, []string{"1", "2"}); !errors.Is(err, annals.ErrCorrupt) {
		t.Error(err)
	}
}
