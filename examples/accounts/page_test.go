package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/projection"
)

// lease is that of the service in tests: what a copy of its database waits for.
const lease = 300 * time.Millisecond

func TestMain(m *testing.M) { postgres.Main(m) }

// Each command of the page does what the page says.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/guide/first-hour.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`(?m)^    \$ (.*)\n((?:    [^$].*\n)*)`).FindAllStringSubmatch(string(page), -1)
	if len(steps) < 15 {
		t.Fatalf("found %d steps", len(steps))
	}
	f := &reader{}
	defer f.stop(t)
	for _, step := range steps {
		if got, want := f.take(t, step[1]), regexp.MustCompile(`(?m)^    `).ReplaceAllString(step[2], ""); got != want {
			t.Errorf("%s\n%s, the page says\n%s", step[1], got, want)
		}
	}
}

// Before the first deposit the list is empty.
func TestNobodyIsRich(t *testing.T) {
	t.Parallel()
	f := &reader{}
	defer f.stop(t)
	for _, step := range []string{"export ACCOUNTS_STORE=sqlite:", "go run . migrate", "go run . serve"} {
		f.take(t, step)
	}
	if got := f.take(t, "curl localhost:8080/richest"); got != `{"richest":[]}`+"\n" {
		t.Error(got)
	}
}

// reader is someone who takes the steps of the page.
type reader struct {
	store  string // the URL
	server string // the address of the service
	ends   context.CancelFunc
	ended  chan error
}

// take takes a step and returns what is printed.
func (f *reader) take(t *testing.T, step string) string {
	t.Helper()
	words := words(step)
	switch what, value, _ := strings.Cut(step, "="); {
	case what == "export ACCOUNTS_STORE" && strings.HasPrefix(value, "sqlite:"):
		f.store = "sqlite:" + filepath.ToSlash(filepath.Join(t.TempDir(), "accounts.db"))
	case what == "export ACCOUNTS_STORE" && strings.HasPrefix(value, "postgres:"):
		f.store = postgres.Database(t)
	case step == "go run . migrate":
		for range 2 { // also where the tables exist
			if err := migrate(t.Context(), f.store); err != nil {
				t.Fatal(err)
			}
		}
	case step == "go run . serve":
		f.serve(t)
	case words[0] == "curl":
		return f.curl(t, words[1:])
	default:
		t.Fatalf("what is %s?", step)
	}
	return ""
}

// serve stops the service that runs, and starts it.
func (f *reader) serve(t *testing.T) {
	t.Helper()
	f.stop(t)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.server, f.ends, f.ended = listener.Addr().String(), cancel, make(chan error, 1)
	go func() {
		f.ended <- serve(ctx, f.store, listener, projection.Options{Lease: lease, Logger: slog.New(slog.DiscardHandler)})
	}()
}

func (f *reader) stop(t *testing.T) {
	t.Helper()
	if f.ends == nil {
		return
	}
	f.ends()
	f.ends = nil
	if err := <-f.ended; err != nil {
		t.Error(err)
	}
}

func (f *reader) curl(t *testing.T, args []string) string {
	t.Helper()
	method, address, body, header := http.MethodGet, "", "", http.Header{}
	for len(args) > 0 {
		switch args[0] {
		case "-X":
			method, args = args[1], args[1:]
		case "-H":
			name, value, _ := strings.Cut(args[1], ": ")
			header.Set(name, value)
			args = args[1:]
		case "-d":
			body, args = args[1], args[1:]
		default:
			address = "http://" + strings.Replace(args[0], "localhost:8080", f.server, 1)
		}
		args = args[1:]
	}
	if strings.HasSuffix(address, "/richest") {
		f.catchUp(t)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// catchUp waits until the read model has all events. A reader of the page, who types the commands, takes longer than that.
func (f *reader) catchUp(t *testing.T) {
	t.Helper()
	store, err := open(t.Context(), f.store, false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	balances := projection.NewControl(store, "balances")
	for id, err := range store.Query().IDs(t.Context(), account.Type, "") {
		var last annals.SeqNr
		if err == nil {
			last, err = store.Journal().LastSeqNr(t.Context(), id)
		}
		if err == nil {
			err = balances.Await(t.Context(), store, id, last)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// words splits a command as a shell does.
func words(command string) []string {
	all := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(command, -1)
	for i := range all {
		all[i] = strings.Trim(all[i], "'")
	}
	return all
}
