package projection_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	. "github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// The record of the runners is a state like others: queries without a type yield it, and it can have a table of its own.
func TestRecordIsAState(t *testing.T) {
	t.Parallel()
	const record = annals.PersistenceID("annals.projection|p")
	for table, want := range map[string]int{"": 0, "leases": 1} {
		t.Run(table, func(t *testing.T) {
			t.Parallel()
			s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "annals.db"), sqlitestore.Options{
				Init: func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, sqlitestore.StateTable("leases"))
					return err
				},
				StateTypes: map[string]annals.StateType[*sql.Tx]{record.Type(): {Table: table}},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			add(t, s, 1, 3, 1)
			catchUp(t, must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s,
				func(context.Context, envelope) error { return nil }, Options{})))
			var ids []annals.PersistenceID
			for id, err := range s.Query().IDs(t.Context(), record.Type(), "") {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, id)
			}
			if !slices.Contains(ids, record) {
				t.Errorf("the ids are %v", ids)
			}
			n := 0
			if err := s.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM leases").Scan(&n); err != nil || n != want {
				t.Errorf("%d states in the table leases (%v), want %d", n, err, want)
			}
		})
	}
}
