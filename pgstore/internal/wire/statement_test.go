package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore/internal/wire"
)

func TestMain(m *testing.M) { postgres.Main(m) }

func connect(t *testing.T) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), postgres.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// Parameters arrive as they were added: nil bytes are empty and not NULL.
func TestSend(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	statement, err := conn.Prepare(t.Context(), "all", `SELECT $1::int, $2::bigint, $3::text, $4::bytea IS NULL, length($4::bytea), $5::int IS NULL, '2020-01-02 03:04:05.000006Z'::timestamptz`)
	if err != nil {
		t.Fatal(err)
	}
	for _, number := range []int64{-1 << 31, -1, 0, 1<<31 - 1} {
		var p wire.Parameters
		p.Int32(int32(number))
		p.Int64(number << 32)
		p.Text("é")
		p.Bytes(nil)
		p.Null()
		rows := 0
		err := wire.Send(t.Context(), conn.PgConn(), statement, &p, func(row [][]byte) error {
			rows++
			small, err := wire.Int32(row[0])
			large, err2 := wire.Int(row[1])
			at, err3 := wire.Time(row[6])
			if err := errors.Join(err, err2, err3); err != nil {
				return err
			}
			got := fmt.Sprintf("%d %d %s %x %x %x %s", small, large, row[2], row[3], row[4], row[5], at.Format(time.RFC3339Nano))
			if want := fmt.Sprintf("%d %d é 00 00000000 01 2020-01-02T03:04:05.000006Z", number, number<<32); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			return nil
		})
		if rows != 1 || err != nil {
			t.Errorf("%d rows, %v", rows, err)
		}
	}
}

// Arrays arrive as they were added, with NULLs, and those without any value are NULL, which concat_ws leaves out.
func TestArrays(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	statement, err := conn.Prepare(t.Context(), "arrays", `SELECT concat_ws(' ', $1::int[], $2::bigint[], $3::text[], $4::bytea[], $5::text[], cardinality($5::text[]))`)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []string{"", `{-1} {-4294967296} {é} {"\\x"}`, `{-1,1} {-4294967296,4294967296} {é,"{\"a,b\"}"} {"\\x","\\x00ff"} {NULL,""} 2`} {
		a := wire.NewArrays(n, pgtype.Int4OID, pgtype.Int8OID, pgtype.TextOID, pgtype.ByteaOID, pgtype.TextOID)
		var p wire.Parameters
		if n > 0 {
			p.Int32(-1)
			p.Int64(-1 << 32)
			p.Text("é")
			p.Bytes(nil)
			p.Null()
			a.Add(&p)
		}
		if n > 1 {
			p.Int32(1)
			p.Int64(1 << 32)
			p.Text(`{"a,b"}`)
			p.Bytes([]byte{0, 255})
			p.Text("")
			a.Add(&p)
		}
		if err := wire.Send(t.Context(), conn.PgConn(), statement, a.Parameters(), func(row [][]byte) error {
			if string(row[0]) != want {
				t.Errorf("got %s, want %s", row[0], want)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// An error of the server after a row is the answer, also when the row could not be read. The connection can be used again.
func TestSendFails(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	statement, err := conn.Prepare(t.Context(), "fails", `SELECT 1 / (3 - n) FROM generate_series(1, $1::int) n`)
	if err != nil {
		t.Fatal(err)
	}
	unreadable := errors.New("of the test")
	for n, want := range map[int32]string{2: "of the test", 3: "22012"} {
		var p wire.Parameters
		p.Int32(n)
		rows := 0
		err := wire.Send(t.Context(), conn.PgConn(), statement, &p, func([][]byte) error { rows++; return unreadable })
		server := (*pgconn.PgError)(nil)
		if isServer := errors.As(err, &server); rows != 1 || isServer != (want == "22012") || isServer && server.Code != want || !isServer && !errors.Is(err, unreadable) {
			t.Errorf("%d: %d rows, %v, want %s", n, rows, err, want)
		}
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	row, err := wire.Ask(t.Context(), conn.PgConn(), "SELECT 0; SELECT 1, 'a', true")
	if fmt.Sprint(row) != "[1 a t]" || err != nil {
		t.Errorf("%q, %v", row, err)
	}
	for _, sql := range []string{"SELECT 1 WHERE FALSE", "SELECT 1 / 0", "SELECT generate_series(1, 2)"} {
		if row, err := wire.Ask(t.Context(), conn.PgConn(), sql); err == nil {
			t.Errorf("%s: %q", sql, row)
		}
	}
}

// Statements are sent directly unless a tracer has to see them, or the pool avoids prepared statements.
func TestDirect(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]bool{"postgres:///db": true, "postgres:///db?default_query_exec_mode=exec": false} {
		config, err := pgxpool.ParseConfig(url)
		if err != nil || wire.Direct(config) != want {
			t.Errorf("%s: direct is %v, %v", url, !want, err)
		}
	}
}

// What TextArray writes is the array that Texts reads, for the server.
func TestTexts(t *testing.T) {
	t.Parallel()
	conn := connect(t)
	for _, texts := range [][]string{{"a"}, {`"`, `\`, "{,}", "NULL", " ", "é"}, {""}, make([]string, 300)} {
		rows, err := conn.Query(t.Context(), "SELECT $1::text::text[]", pgx.QueryResultFormats{pgx.BinaryFormatCode}, wire.TextArray(texts))
		if err != nil {
			t.Fatal(err)
		}
		var binary []byte
		for rows.Next() {
			binary = bytes.Clone(rows.RawValues()[0])
		}
		if rows.Err() != nil {
			t.Fatal(rows.Err())
		}
		if got, err := wire.Texts(binary); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", texts) || err != nil {
			t.Errorf("%q: got %q, %v", texts, got, err)
		}
	}
	if wire.TextArray(nil) != nil {
		t.Error("no texts are an array")
	}
}
