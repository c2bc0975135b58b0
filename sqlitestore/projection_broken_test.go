package sqlitestore_test

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// A handler ends its transaction in a way that database/sql does not see, or commits it, and returns nil. The event reaches OnError alone, and the others
// are handled once. followtest has the transaction that tx.Rollback ends.
func TestHandlerThatBreaksItsTransaction(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(ctx context.Context, tx *sql.Tx){
		"by a statement that fails": func(ctx context.Context, tx *sql.Tx) {
			_, _ = tx.ExecContext(ctx, "INSERT OR ROLLBACK INTO one VALUES (0)")
		},
		"by ROLLBACK": func(ctx context.Context, tx *sql.Tx) { _, _ = tx.ExecContext(ctx, "ROLLBACK") },
		"by Commit":   func(_ context.Context, tx *sql.Tx) { _ = tx.Commit() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "annals.db")
			s := openAt(t, path, sqlitestore.Options{Init: executing("CREATE TABLE handled (n INTEGER); CREATE TABLE one (n INTEGER PRIMARY KEY); INSERT INTO one VALUES (0)")})
			for n := range annals.SeqNr(20) {
				e := annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "n", Data: []byte("1")}}
				if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: n, Events: []annals.NewEvent{e}}); err != nil {
					t.Fatal(err)
				}
			}
			asked := 0
			r, err := projection.ExactlyOnce("p", projection.Source[int]{Store: s, Type: "T", Codec: codec.JSON[int]("n")}, s,
				func(ctx context.Context, tx *sql.Tx, e projection.Envelope[int]) error {
					if e.SeqNr == 13 {
						end(ctx, tx)
						return nil
					}
					_, err := tx.ExecContext(ctx, "INSERT INTO handled VALUES (?)", int64(e.SeqNr))
					return err
				}, projection.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), OnError: func(_ context.Context, f projection.Failure) projection.Verdict {
					if asked++; f.Event.SeqNr != 13 {
						t.Errorf("asked about event %d: %v", f.Event.SeqNr, f.Err)
					}
					return projection.Skip
				}})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.CatchUp(t.Context()); err != nil {
				t.Fatal(err)
			}
			var n int
			if err := raw(t, path).QueryRowContext(t.Context(), "SELECT count(*) FROM handled").Scan(&n); err != nil || n != 19 || asked != 1 {
				t.Errorf("%d rows, want 19, asked %d times, %v", n, asked, err)
			}
		})
	}
}
