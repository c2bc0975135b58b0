package pgstore_test

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/pgstore"
)

// EventsSize is what the server says of the table.
func TestEventsSize(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	sizer, err := ability.Of[ability.EventSizer](s)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: annals.PersistenceID(fmt.Sprint("T|", i)), Events: []annals.NewEvent{{Payload: text("a")}, {Payload: text("b")}}}); err != nil {
			t.Fatal(err)
		}
	}
	var table, indexes int64
	if _, err := s.DB().Exec(t.Context(), "ANALYZE event_journal"); err != nil {
		t.Fatal(err)
	}
	if err := s.DB().QueryRow(t.Context(), "SELECT pg_table_size('event_journal'), pg_indexes_size('event_journal')").Scan(&table, &indexes); err != nil {
		t.Fatal(err)
	}
	size, err := sizer.EventsSize(t.Context())
	if want := (ability.Size{Items: 40, Bytes: table, IndexBytes: indexes, Fsyncs: 1}); err != nil || size != want || indexes == 0 {
		t.Errorf("%+v, %v, want %+v", size, err, want)
	}
}
