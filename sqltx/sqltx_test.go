package sqltx_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/sqltx"
)

func TestMain(m *testing.M) { postgres.Main(m) }

// databases runs a test on each database.
func databases(t *testing.T, test func(t *testing.T, s sqltx.Store)) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "annals.db"), sqlitestore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		test(t, s.SQL())
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		u, err := url.Parse(postgres.Schema(t))
		if err != nil {
			t.Fatal(err)
		}
		s, err := pgstore.Options{CreateTables: true}.OpenURL(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if err := s.(*pgstore.Store).DB().Ping(t.Context()); err != nil {
			t.Error(err)
		}
		test(t, s.(*pgstore.Store).SQL())
	})
}

// row is a row of the table of the test.
type row struct {
	name   string
	n      int
	rate   float64
	data   []byte
	marked bool
}

func create(t *testing.T, s sqltx.Store) {
	t.Helper()
	types := map[string]string{"sqlite": "REAL, data BLOB, marked BOOLEAN", "postgres": "DOUBLE PRECISION, data BYTEA, marked BOOLEAN"}
	err := s.InTx(t.Context(), func(ctx context.Context, tx sqltx.Tx, _ annals.Store) error {
		_, err := tx.Exec(ctx, `CREATE TABLE own (name TEXT PRIMARY KEY, n BIGINT, rate `+types[filepath.Base(t.Name())]+`)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

const all = `SELECT name, n, rate, data, marked FROM own WHERE n >= $1 ORDER BY name`

// into collects rows.
func into(rows *[]row) func(func(...any) error) error {
	return func(scan func(...any) error) error {
		var r row
		err := scan(&r.name, &r.n, &r.rate, &r.data, &r.marked)
		*rows = append(*rows, r)
		return err
	}
}

// The same statements work in both databases. What a transaction wrote is seen within it, and by others when it is committed.
func TestStatements(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, s sqltx.Store) {
		ctx := t.Context()
		create(t, s)
		fails := errors.New("of the test")
		want := []row{{"a", 2, 1.5, []byte{0, 255}, true}, {"b", 3, -2, []byte{}, false}}
		for _, end := range []error{fails, nil} {
			err := s.InTx(ctx, func(ctx context.Context, tx sqltx.Tx, in annals.Store) error {
				for _, r := range want {
					n, err := tx.Exec(ctx, `INSERT INTO own (marked, data, rate, n, name) VALUES ($5, $4, $3, $2, $1)`, r.name, r.n-1, r.rate, r.data, r.marked)
					if err != nil || n != 1 {
						t.Errorf("insert: %d rows, %v", n, err)
					}
				}
				if n, err := tx.Exec(ctx, `UPDATE own SET n = n + $1 WHERE n >= $1`, 1); err != nil || n != 2 {
					t.Errorf("update: %d rows, %v", n, err)
				}
				var own, others []row
				err := errors.Join(tx.Query(ctx, into(&own), all, 2), s.Read(ctx, into(&others), all, 2))
				if fmt.Sprint(own) != fmt.Sprint(want) || len(others) > 0 || err != nil {
					t.Errorf("within the transaction %v, outside %v, %v", own, others, err)
				}
				if _, err := in.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 20, Data: []byte("x")}}}}); err != nil {
					t.Error(err)
				}
				return end
			})
			if !errors.Is(err, end) {
				t.Errorf("got %v, want %v", err, end)
			}
		}
		var got []row
		if err := s.Read(ctx, into(&got), all, 0); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after the commit: %v, %v", got, err)
		}
		if n, err := s.Journal().LastSeqNr(ctx, "T|1"); n != 1 || err != nil {
			t.Errorf("the entity is at %d, %v", n, err)
		}
		n := 0
		err := s.Read(ctx, func(func(...any) error) error { n++; return fails }, all, 0)
		if !errors.Is(err, fails) || n != 1 {
			t.Errorf("a row that fails: %v, after %d rows", err, n)
		}
		if err := s.Read(ctx, into(&got), `SELECT nothing FROM own`); err == nil {
			t.Error("a statement that fails has no error")
		}
		if _, err := ability.Of[ability.Recoverer](s); err != nil {
			t.Error(err)
		}
	})
}

// One handler of a projection works on both databases.
func TestHandler(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, s sqltx.Store) {
		ctx := t.Context()
		create(t, s)
		texts := codec.JSON[string]("text")
		p, err := texts.Encode("x")
		if err != nil {
			t.Fatal(err)
		}
		for n := range annals.SeqNr(3) {
			if _, err := s.Journal().Append(ctx, annals.Commit{ID: "T|1", After: n, Events: []annals.NewEvent{{Payload: p}}}); err != nil {
				t.Fatal(err)
			}
		}
		count := func(ctx context.Context, tx sqltx.Tx, e projection.Envelope[string]) error {
			_, err := tx.Exec(ctx, `INSERT INTO own (name, n, rate, data, marked) VALUES ($1, 1, 0, $2, TRUE) ON CONFLICT (name) DO UPDATE SET n = own.n + 1`, e.Value, []byte{})
			return err
		}
		runner, err := projection.ExactlyOnce("own", projection.Source[string]{Store: s, Type: "T", Codec: texts}, s, count, projection.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := runner.CatchUp(ctx); err != nil {
			t.Fatal(err)
		}
		var got []row
		if err := s.Read(ctx, into(&got), all, 0); err != nil || len(got) != 1 || got[0].n != 3 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}
