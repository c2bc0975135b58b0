package testpg_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals/internal/testpg"
)

func TestMain(m *testing.M) { testpg.Main(m) }

func TestEachTestHasItsOwn(t *testing.T) {
	t.Parallel()
	for name, fresh := range map[string]func(testing.TB) string{"database": testpg.Database, "schema": testpg.Schema} {
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
	conn, err := pgx.Connect(t.Context(), testpg.Schema(t))
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
