package sqlitestore_test

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// A query with a small limit reads no more rows than it yields.
func TestLimitBoundsReading(t *testing.T) {
	ctx, s := t.Context(), open(t, sqlitestore.Options{})
	payload := annals.Payload{SerializerID: 20, Data: []byte("x")}
	for n := range 500 {
		id := annals.NewPersistenceID("T", fmt.Sprint(n))
		if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: payload}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	for name, read := range map[string]func(f annals.Filter) (n int){
		"events": func(f annals.Filter) (n int) {
			for _, err := range s.Query().Events(ctx, f) {
				if n++; err != nil {
					t.Fatal(err)
				}
			}
			return n
		},
		"states": func(f annals.Filter) (n int) {
			for _, err := range s.Query().States(ctx, f) {
				if n++; err != nil {
					t.Fatal(err)
				}
			}
			return n
		},
	} {
		allocations := func(limit int) float64 {
			return testing.AllocsPerRun(10, func() {
				if n := read(annals.Filter{Limit: limit}); n != limit {
					t.Errorf("%s: %d with the limit %d", name, n, limit)
				}
			})
		}
		if one, all := allocations(1), allocations(500); one > all/10 {
			t.Errorf("%s: one costs %.0f allocations, and 500 cost %.0f", name, one, all)
		}
	}
}
