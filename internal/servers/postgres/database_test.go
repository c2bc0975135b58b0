package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals/internal/servers/postgres"
)

func TestMain(m *testing.M) { postgres.Main(m) }

func TestEachTestHasItsOwn(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) string{"database": postgres.Database, "schema": postgres.Schema} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second would fail if it were the first
				conn, err := pgx.Connect(t.Context(), fresh(t))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.Exec(t.Context(), "CREATE TABLE here (x int)"); err != nil {
					t.Error(err)
				}
				if err := conn.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestServerKeepsWhatItAcknowledges(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), postgres.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&value); err != nil || value != "on" {
			t.Errorf("%s is %q (%v)", setting, value, err)
		}
	}
}

// A schema is used again, empty, unless the test changed it.
func TestTablesAreUsedAgain(t *testing.T) {
	t.Parallel()
	made := 0
	key := rand.Text() // of this run alone
	create := func(url string) {
		made++
		exec(t, url, "CREATE TABLE here (x int); CREATE TABLE there (x int)")
	}
	for i, c := range []struct {
		sql  string
		made int
	}{
		{"INSERT INTO here VALUES (1); INSERT INTO there VALUES (1)", 1},
		{"ALTER TABLE here ADD COLUMN y int", 1},
		{"CREATE INDEX ON here (x)", 2},
		{"ALTER TABLE here ADD CHECK (x > 0)", 3},
		{"DROP TABLE here", 4},
		{"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", 5},
		{"INSERT INTO here SELECT * FROM generate_series(1, 3000)", 6},
		{"", 7},
		{"", 7},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			u := postgres.Tables(t, key, create)
			conn, err := pgx.Connect(t.Context(), u) // still open when the test ends
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { go conn.Close(context.Background()) })
			rows := -1
			if err := conn.QueryRow(t.Context(), "SELECT (SELECT count(*) FROM here) + (SELECT count(*) FROM there)").Scan(&rows); err != nil || rows != 0 {
				t.Errorf("%d rows in the tables (%v)", rows, err)
			}
			if made != c.made {
				t.Errorf("made %d times, want %d", made, c.made)
			}
			exec(t, u, c.sql)
		})
	}
}

// A session of a pooler may still be in a transaction of a test that has ended.
func TestTablesWaitForTransactions(t *testing.T) {
	t.Parallel()
	key := rand.Text()
	create := func(url string) { exec(t, url, "CREATE TABLE here (x int)") }
	ended := make(chan error, 1)
	t.Run("one", func(t *testing.T) {
		u := postgres.Tables(t, key, create)
		conn, err := pgx.Connect(t.Context(), strings.Replace(u, "application_name", "other.name", 1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), "BEGIN; INSERT INTO here VALUES (1)"); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, err := conn.Exec(context.Background(), "SELECT pg_sleep(0.02); COMMIT") // ends while the schema is to be emptied
			ended <- errors.Join(err, conn.Close(context.Background()))
		}()
	})
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), postgres.Tables(t, key, create))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows := -1
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM here").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows in the table (%v)", rows, err)
	}
}

func exec(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}
