package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/readmodel"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// The read model, request by request. It is in SQLite, and the events are in memory.
func TestReadAPI(t *testing.T) {
	t.Parallel()
	journal := memstore.New()
	threads, err := entity.New(journal, chat.Behavior, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	model, done, err := openReads(t.Context(), journal, "mem:", "")
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(newAPI(threads, nil, model, slog.New(slog.DiscardHandler)))
	t.Cleanup(func() {
		service.Close()
		ctx := context.WithoutCancel(t.Context())
		if err := threads.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := done(); err != nil {
			t.Error(err)
		}
	})
	const none = `{"error":"no-thread","message":"there is no such thread"}`
	for _, c := range []struct {
		request, body string
		status        int
		answer        string // "" is any; "…" in it is anything
	}{
		{"GET /accounts/ann/threads", ``, 200, `{"threads":[]}`},
		{"GET /accounts/ann/unread", ``, 200, `{"threads":0,"messages":0}`},
		{"POST /threads", `{"id":"t","executor":"ann","name":"go"}`, 201, ``},
		{"POST /threads", `{"id":"a/b","executor":"ann","name":"slash"}`, 201, ``},
		{"POST /threads/t/members", `{"executor":"ann","account":"bob","role":"member"}`, 201, ``},
		{"POST /threads/t/messages", `{"executor":"ann","id":"m-1","text":"hi"}`, 201, ``},
		{"POST /threads/t/messages", `{"executor":"ann","id":"m-2","text":"ho"}`, 201, ``},
		{"GET /accounts/bob/unread", ``, 200, `{"threads":1,"messages":2}`},
		{"GET /accounts/bob/threads", ``, 200, `{"threads":[{"thread":"t","name":"go","members":2,"messages":2,"role":"member","read_to":0,"unread":2}]}`},
		{"POST /threads/t/read", `{"executor":"bob","position":1}`, 200, `{"thread":"t","name":"go","members":2,"messages":2}`},
		{"POST /threads/t/read", `{"executor":"bob","position":0}`, 400, `{"error":"bad-position","message":"the first message has position 1"}`},
		{"POST /threads/t/read", `{"executor":"bob","position":3}`, 404, `{"error":"no-message","message":"there is no such message"}`},
		{"GET /accounts/bob/threads/t", ``, 200, `{"thread":"t","name":"go","members":2,"messages":2,"role":"member","read_to":1,"unread":1}`},
		{"GET /accounts/ann/threads?limit=1", ``, 200, `{"more":"a/b","threads":[{"thread":"a/b",…}]}`},
		{"GET /accounts/ann/threads?limit=1&after=a%2Fb", ``, 200, `{"threads":[{"thread":"t",…}]}`},
		{"GET /accounts/ann/threads/a%2Fb", ``, 200, `{"thread":"a/b",…}`},
		{"GET /accounts/bob/threads/t/members?limit=1", ``, 200, `{"members":[{"account":"ann","role":"admin","read_to":0,"unread":0}],"more":"ann"}`},
		{"GET /accounts/bob/threads/t/members?after=ann", ``, 200, `{"members":[{"account":"bob","role":"member","read_to":1,"unread":1}]}`},
		{"GET /accounts/bob/threads/t/messages?limit=1", ``, 200, `{"messages":[{"position":1,"id":"m-1","sender":"ann","text":"hi","at":"2…Z"}],"more":1}`},
		{"GET /accounts/bob/threads/t/messages?after=1&limit=1", ``, 200, `{"messages":[{"position":2,"id":"m-2",…}]}`},
		{"GET /accounts/bob/threads/t/messages?after=2", ``, 200, `{"messages":[]}`},
		{"GET /accounts/eve/threads", ``, 200, `{"threads":[]}`},
		{"GET /accounts/eve/threads/t", ``, 404, none},
		{"GET /accounts/eve/threads/t/members", ``, 404, none},
		{"GET /accounts/eve/threads/t/messages", ``, 404, none},
		{"GET /accounts/%00/threads", ``, 400, ``},
		{"GET /accounts/ann/threads?limit=0", ``, 400, ``},
		{"GET /accounts/ann/threads?limit=many", ``, 400, ``},
		{"GET /accounts/ann/threads?after=%00", ``, 400, ``},
		{"GET /accounts/ann/threads/%00", ``, 400, ``},
		{"GET /accounts/ann/threads/t/messages?after=-1", ``, 400, ``},
	} {
		status, answer, _ := ask(t, service, c.request, c.body)
		if status != c.status || !like(answer, c.answer) {
			t.Errorf("%s %s\n got %d %s\nwant %d %s", c.request, c.body, status, answer, c.status, c.answer)
		}
		if c.body != "" {
			if err := model.CatchUp(t.Context(), journal, projection.Options{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// like reports whether text is pattern, where one "…" stands for anything and "" for any text.
func like(text, pattern string) bool {
	before, after, open := strings.Cut(pattern, "…")
	return text == pattern || pattern == "" || open && strings.HasPrefix(text, before) && strings.HasSuffix(text, after)
}

// Without a read model the rest is served.
func TestNoReadModel(t *testing.T) {
	t.Parallel()
	service := serveMemory(t)
	for _, request := range []string{"GET /accounts/ann/threads", "GET /accounts/ann/unread", "GET /accounts/ann/threads/t/messages"} {
		if status, text, _ := ask(t, service, request, ""); status != 501 || !strings.Contains(text, `"no-read-model"`) {
			t.Errorf("%s: %d %s", request, status, text)
		}
	}
}

// The events and the read model may be in different databases. What a server has not handled, the next one handles.
func TestReadModelElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ store, reads string }{
		"sqlite":             {sqliteIn(t.TempDir()), ""},
		"postgres":           {postgres.Schema(t), ""},
		"memory, temporary":  {"mem:", ""},
		"memory in sqlite":   {"mem:", sqliteIn(t.TempDir())},
		"dynamodb in sqlite": {dynamoDB(t) + "&index=slices", sqliteIn(t.TempDir())},
		"sqlite in postgres": {sqliteIn(t.TempDir()), postgres.Schema(t)},
		"postgres in sqlite": {postgres.Schema(t), sqliteIn(t.TempDir())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, stop := serving(t, c.store, "-readmodel", c.reads)
			service := newClient(url, 1)
			if err := service.create(t.Context(), "t", "ann", "go"); err != nil {
				t.Error(err)
			}
			awaitThreads(t, service, 1)
			service.close()
			if err := stop(); err != nil {
				t.Error(err)
			}
			if c.store == "mem:" {
				return
			}
			url, stop = serving(t, c.store, "-readmodel", c.reads)
			service = newClient(url, 1)
			awaitThreads(t, service, 1)
			if err := service.create(t.Context(), "t-2", "ann", "go on"); err != nil {
				t.Error(err)
			}
			awaitThreads(t, service, 2)
			service.close()
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A rebuild while a server runs repairs what is wrong.
func TestRebuildWhileServing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ store, reads string }{
		"sqlite":             {sqliteIn(t.TempDir()), ""},
		"dynamodb in sqlite": {dynamoDB(t) + "&index=slices", sqliteIn(t.TempDir())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, stop := serving(t, c.store, "-readmodel", c.reads)
			service := newClient(url, 1)
			for n := range 3 {
				if err := service.create(t.Context(), fmt.Sprint("t-", n), "ann", "go"); err != nil {
					t.Error(err)
				}
			}
			awaitThreads(t, service, 3)
			database, err := readStores.Open(t.Context(), cmp.Or(c.reads, c.store))
			if err != nil {
				t.Fatal(err)
			}
			defer database.Close()
			err = database.(*sqlitestore.Store).InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
				_, err := tx.ExecContext(ctx, `DELETE FROM chat_member`)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			awaitThreads(t, service, 0)
			var out strings.Builder
			if err := run(t.Context(), []string{"rebuild", "-store", c.store, "-readmodel", c.reads}, &out, io.Discard); err != nil || out.String() != "the read model is rebuilt\n" {
				t.Errorf("%v, %s", err, out.String())
			}
			awaitThreads(t, service, 3)
			if err := service.create(t.Context(), "t-3", "ann", "go on"); err != nil {
				t.Error(err)
			}
			awaitThreads(t, service, 4)
			service.close()
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
	if err := run(t.Context(), []string{"rebuild", "-store", "mem:"}, io.Discard, io.Discard); err == nil {
		t.Error("a temporary read model was rebuilt")
	}
}

// awaitThreads waits until ann has that many threads.
func awaitThreads(t *testing.T, c *client, n int) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); ; <-look.C {
		threads, err := c.threads(t.Context(), "ann")
		if err != nil || time.Now().After(end) {
			t.Fatalf("%d threads, %v, want %d", len(threads), err, n)
		}
		if len(threads) == n {
			return
		}
	}
}

// A read model in a store without tables for it is refused.
func TestReadModelRefused(t *testing.T) {
	t.Parallel()
	for _, reads := range []string{"mem:", "paper:", "sqlite:" + filepath.Join(t.TempDir(), "no", "folder")} {
		if _, _, err := openReads(t.Context(), memstore.New(), "mem:", reads); err == nil {
			t.Errorf("%s was taken", reads)
		}
	}
	if _, err := readmodel.Open(t.Context(), memstore.New()); err == nil {
		t.Error("a read model in memory was opened")
	}
}
