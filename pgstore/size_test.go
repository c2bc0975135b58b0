package pgstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/pgstore"
)

// Sizes are what the server says of the tables.
func TestSizes(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	sizer, err := ability.Of[ability.Sizer](s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: annals.PersistenceID(fmt.Sprint("T|", i)), Events: []annals.NewEvent{{Payload: text("a")}, {Payload: text("b")}}}); err != nil {
			t.Fatal(err)
		}
	}
	var want []ability.Size
	for i, table := range []string{"event_journal", "snapshot", "akka_projection_timestamp_offset_store", "annals_projection_epoch", "durable_state"} {
		if _, err := s.DB().Exec(t.Context(), "ANALYZE "+table); err != nil {
			t.Fatal(err)
		}
		size := ability.Size{Table: table}
		if i == 0 {
			size.Items, size.Fsyncs = 40, 1
		}
		if err := s.DB().QueryRow(t.Context(), "SELECT pg_table_size($1::regclass), pg_indexes_size($1::regclass)", table).Scan(&size.Bytes, &size.IndexBytes); err != nil || size.IndexBytes == 0 {
			t.Fatal(size, err)
		}
		want = append(want, size)
	}
	if sizes, err := sizer.Sizes(t.Context()); err != nil || !slices.Equal(sizes, want) {
		t.Errorf("%+v, %v, want %+v", sizes, err, want)
	}
}
