package main

import (
	"context"
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/sqlitestore"
)

// The page knows the threads and the profiles of the program, and doctor its tables.
func TestPage(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/chat.db"
	s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{
		StateTypes: map[string]annals.StateType[*sql.Tx]{profile.Behavior.Type: {Table: profiles}},
		Init: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, sqlitestore.StateTable(profiles, "name TEXT UNIQUE"))
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	threads, err := aggregate.New(s, chat.Behavior, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	users, err := aggregate.NewState(s, profile.Behavior, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []chat.Command{chat.Create{Name: "all about go", Executor: "ann"}, chat.Post{Executor: "ann", ID: "m-1", Text: "hello"}} {
		if _, err := threads.Ask(t.Context(), "go", c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := users.Ask(t.Context(), "ann", profile.SetName{Name: "Ann from Ulm"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	doctor := operate.Command(config)
	doctor.SetArgs([]string{"doctor", "--store", "sqlite:" + path})
	doctor.SetOut(io.Discard)
	if err := doctor.ExecuteContext(t.Context()); err != nil {
		t.Errorf("doctor: %v", err)
	}
	tool, err := config.Stores.Open(t.Context(), "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	page, err := operate.Handler(tool, config, operate.PageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/entity?id=Thread%7Cgo&at=2": "hello", "/entity?id=User%7Cann": "Ann from Ulm", "/entities?search=an": "User|ann", "/tail": "Thread|go"} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		if page.ServeHTTP(w, r); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
