package process_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// playRunner names the file of a process that is a runner.
const playRunner = "PROCESS_TEST_RUNNER"

func TestMain(m *testing.M) {
	if file := os.Getenv(playRunner); file != "" {
		if err := playTheRunner(file); err != nil {
			panic(err)
		}
		return
	}
	defer postgres.Stop()
	dynamo.Main(m)
}

func openSQLite(t *testing.T) annals.Store {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "process.db"), sqlitestore.Options{})
	return closing(t, store, err)
}

func openPostgres(t *testing.T) annals.Store {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), postgres.Schema(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := pgstore.Open(t.Context(), pool, pgstore.Options{CreateTables: true})
	return closing(t, store, err)
}

func openDynamo(t *testing.T) annals.Store {
	t.Helper()
	client, err := dynamostore.NewClient(t.Context(), dynamostore.ClientOptions{Endpoint: dynamo.Endpoint(t), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err != nil {
		t.Fatal(err)
	}
	store, err := dynamostore.Open(t.Context(), client, commit.Layout{Table: "t" + rand.Text(), Index: "slices"}, dynamostore.Options{CreateTables: true})
	return closing(t, store, err)
}

func closing(t *testing.T, store annals.Store, err error) annals.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}
