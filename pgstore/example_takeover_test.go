package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

func Example() {
	write := func(ctx context.Context) error {
		pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
		if err != nil {
			return err
		}
		defer pool.Close()
		store, err := pgstore.Open(ctx, pool, pgstore.Options{CreateTables: true})
		if err != nil {
			return err
		}
		_, err = store.Journal().Append(ctx, annals.Commit{ID: "Order|7", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 20, Data: []byte("placed")}}}})
		return errors.Join(err, store.Close())
	}
	fmt.Println(write(context.Background()))
}

// OrderPlaced is the class annals.OrderPlaced on the JVM, in its second version.
type OrderPlaced struct {
	OrderID string   `json:"orderId"`
	Amount  int      `json:"amount"`
	Lines   []string `json:"lines"`
	Note    *string  `json:"note"`
}

// orderPlaced1 is its first version, which had one line and no note.
type orderPlaced1 struct {
	OrderID string `json:"orderId"`
	Amount  int    `json:"amount"`
	Line    string `json:"line"`
}

var orderEvents = codec.JSON[OrderPlaced]("annals.OrderPlaced#2",
	codec.Was(codec.JSON[orderPlaced1]("annals.OrderPlaced"), func(o orderPlaced1) (OrderPlaced, error) {
		return OrderPlaced{OrderID: o.OrderID, Amount: o.Amount, Lines: []string{o.Line}}, nil
	}))

var orders = behavior.EventSourced[OrderPlaced, OrderPlaced, int, int]{
	Type:          "Order",
	PersistenceID: func(id string) annals.PersistenceID { return annals.PersistenceID("order-" + id) },
	Events:        orderEvents,
	Decide:        func(_ int, o OrderPlaced) ([]OrderPlaced, error) { return []OrderPlaced{o}, nil },
	Evolve:        func(total int, o OrderPlaced) int { return total + o.Amount },
	Reply:         func(total int, _ OrderPlaced, _ []OrderPlaced) int { return total },
}

// An entity that the JVM has written goes on: its id has no type in it, its events are those of Jackson.
func TestTakeover(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), goldenDatabase(t, "snapshots")
	run(t, url, `UPDATE event_journal SET persistence_id = 'order-7', entity_type = '' WHERE persistence_id = 'Order|s-2';
		UPDATE event_journal SET event_ser_manifest = 'annals.OrderPlaced', event_payload = '{"orderId": "o-1", "amount": 100, "line": "a"}' WHERE persistence_id = 'order-7' AND seq_nr = 1`)
	store := openAt(t, url, pgstore.Options{})
	runtime, err := entity.New(store, orders, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Shutdown(ctx) }()
	if total, err := runtime.Ask(ctx, "7", OrderPlaced{OrderID: "o-7", Amount: 700}); err != nil || total != 100+200+300+400+500+600+700 {
		t.Errorf("total %d, %v", total, err)
	}
	if n := count(t, url, `SELECT count(*) FROM event_journal WHERE persistence_id = 'order-7' AND seq_nr = 7 AND event_ser_id = 31 AND event_ser_manifest = 'annals.OrderPlaced#2'`); n != 1 {
		t.Error("the new event is not stored as the JVM's class")
	}
}

// A store on tables with other names, in a schema of its own.
func TestTablesByName(t *testing.T) {
	t.Parallel()
	ctx, pool := t.Context(), pool(t, postgres.Database(t))
	store, err := pgstore.Open(ctx, pool, pgstore.Options{
		CreateTables: true,
		Tables:       pgstore.Tables{Schema: "shop", Journal: "order_journal", Snapshot: "order_snapshot", State: "order_state"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	appendOne(t, store, "T|1", 0)
	rows, err := pool.Query(ctx, "SELECT tablename FROM pg_tables WHERE schemaname = 'shop'")
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if want := []string{"akka_projection_timestamp_offset_store", "annals_projection_epoch", "order_journal", "order_snapshot", "order_state"}; !slices.Equal(names, want) {
		t.Errorf("tables %q, want %q", names, want)
	}
}
