package process_test

import (
	"crypto/rand"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// playRunner is the URL of the store of a process that is a runner.
const playRunner = "PROCESS_TEST_RUNNER"

func TestMain(m *testing.M) {
	if address := os.Getenv(playRunner); address != "" {
		if err := playTheRunner(address); err != nil {
			panic(err)
		}
		return
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		_ = os.Setenv(name, "test") // for the server that tests start, also in the processes that are killed
	}
	defer postgres.Stop()
	dynamo.Main(m)
}

// openers open the stores of these tests, also in a process that is killed.
var openers = annals.Openers{
	"sqlite": sqlitestore.Options{}.OpenURL, "postgres": pgstore.Options{CreateTables: true}.OpenURL, "dynamodb": dynamostore.Options{}.OpenURL,
}

// addresses are the URLs of new stores.
var addresses = map[string]func(t *testing.T) string{
	"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "process.db") },
	"postgres": func(t *testing.T) string { return postgres.Schema(t) },
	"dynamodb": func(t *testing.T) string {
		return "dynamodb:?region=us-east-1&create=true&index=slices&table=t" + rand.Text() + "&endpoint=" + url.QueryEscape(dynamo.Endpoint(t))
	},
}

// openStore opens a store that is closed at the end of the test.
func openStore(t *testing.T, address string) annals.Store {
	t.Helper()
	store, err := openers.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}
