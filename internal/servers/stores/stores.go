// Package stores has new stores for tests, which processes that a test starts and kills open, too.
package stores

import (
	"context"
	"crypto/rand"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/internal/servers/process"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

// playOn is the URL of the store of a process that Start has started.
const playOn = "STORES_TEST_PLAY"

// Main is the TestMain of a package. In a process that Start has started it calls play until the test ends; the error that play returns then does not count.
func Main(m *testing.M, play func(ctx context.Context, store annals.Store) error) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		_ = os.Setenv(name, "test") // for the server that tests start
	}
	if address := os.Getenv(playOn); address != "" {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
		store, err := openers.Open(ctx, address)
		if err == nil {
			defer store.Close()
			err = play(ctx, store)
		}
		if err != nil && ctx.Err() == nil {
			panic(err)
		}
		return
	}
	defer postgres.Stop()
	dynamo.Main(m)
}

var openers = annals.Openers{
	"sqlite": sqlitestore.Options{}.OpenURL, "postgres": pgstore.Options{CreateTables: true}.OpenURL, "dynamodb": dynamostore.Options{}.OpenURL,
}

// New has the URLs of new stores, by the names of their servers.
var New = map[string]func(t *testing.T) string{
	"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "annals.db") },
	"postgres": func(t *testing.T) string { return postgres.Schema(t) },
	"dynamodb": func(t *testing.T) string {
		return "dynamodb:?region=us-east-1&create=true&index=slices&table=t" + rand.Text() + "&endpoint=" + url.QueryEscape(dynamo.Endpoint(t))
	},
}

// Open opens a store that is closed at the end of the test.
func Open(t *testing.T, address string) annals.Store {
	t.Helper()
	store, err := openers.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// Start starts a process that plays on the store at address, and returns its id and what kills it. It is killed at the end of the test at the latest.
func Start(t *testing.T, address string) (pid int, kill func()) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(context.WithoutCancel(t.Context()), program)
	child.Env = append(os.Environ(), playOn+"="+address)
	child.Stderr = os.Stderr
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(child, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	kill = func() {
		p.Stop()
		_ = stdin.Close()
	}
	t.Cleanup(kill)
	return child.Process.Pid, kill
}
