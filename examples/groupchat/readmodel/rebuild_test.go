package readmodel

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqltx"
)

// meddled is a database in which another program does something before each read that is in no transaction.
type meddled struct {
	sqltx.Store
	before func()
}

func (d meddled) Read(ctx context.Context, row func(func(...any) error) error, text string, args ...any) error {
	d.before()
	return d.Store.Read(ctx, row, text, args...)
}

// Two rebuilds that begin at the same time write different generations.
func TestGenerations(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m := open(t, in)
		seen := map[int64]bool{}
		begin := func(m *Model) {
			n, err := m.newGeneration(t.Context())
			if err != nil || seen[n] {
				t.Errorf("generation %d, %v, after %v", n, err, seen)
			}
			seen[n] = true
		}
		begin(&Model{meddled{m.in, func() { begin(m) }}})
		begin(m)
	})
}

// Rows that are wrong are right after a rebuild, also when a server runs and events are written meanwhile. The server goes on with the new
// rows, and the old ones are deleted.
func TestRebuild(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m := open(t, in)
		options := projection.Options{Lease: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
		catchUp := func() {
			t.Helper()
			if err := m.CatchUp(t.Context(), in, options); err != nil {
				t.Fatal(err)
			}
		}
		equal := func(want bool) {
			t.Helper()
			if _, err := m.Compare(t.Context(), in); (err == nil) != want {
				t.Fatalf("equal is not %v: %v", want, err)
			}
		}
		chatter(t, in, 200)
		catchUp()
		equal(true)
		execute(t, m, `UPDATE chat_member SET unread = unread + 1`)
		execute(t, m, `INSERT INTO chat_thread (generation, thread, name, members, posted, messages) VALUES (1, 'invented', 'x', 0, 0, 0)`)
		equal(false)

		ctx, stop := context.WithCancel(t.Context())
		var server sync.WaitGroup
		defer server.Wait()
		defer stop()
		server.Go(func() {
			if err := m.Run(ctx, in, options); err != nil {
				t.Error(err)
			}
		})
		for generation := int64(2); generation <= 3; generation++ {
			server.Go(func() { post(t, in, generation) })
			if err := m.Rebuild(t.Context(), in, options, nil); err != nil {
				t.Fatal(err)
			}
			if now, err := m.generation(t.Context()); err != nil || now != generation {
				t.Errorf("generation %d, %v", now, err)
			}
		}
		post(t, in, 9)
		awaitMessage(t, m, 9) // the server handles it
		stop()
		server.Wait()
		catchUp()
		equal(true)
		for _, table := range []string{"chat_thread", "chat_member", "chat_message"} {
			old := 0
			err := m.in.Read(t.Context(), func(scan func(...any) error) error { return scan(&old) }, `SELECT count(*) FROM `+table+` WHERE generation < 3`)
			if err != nil || old > 0 {
				t.Errorf("%s has %d old rows, %v", table, old, err)
			}
		}
	})
}

// A read model that has not been run yet is rebuilt, too.
func TestRebuildFirst(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m := open(t, in)
		chatter(t, in, 200)
		if err := m.Rebuild(t.Context(), in, projection.Options{}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Compare(t.Context(), in); err != nil {
			t.Error(err)
		}
	})
}

// When a rebuild fails, the generation before it is used and kept up to date.
func TestRebuildFails(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m := open(t, in)
		chatter(t, in, 200)
		if err := m.CatchUp(t.Context(), in, projection.Options{}); err != nil {
			t.Fatal(err)
		}
		execute(t, m, `UPDATE chat_generation SET current = 7`)
		if err := m.switchOver(t.Context(), 1, 2); err == nil {
			t.Error("the rows of another rebuild were replaced")
		}
		execute(t, m, `UPDATE chat_generation SET current = 1`)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.Rebuild(ctx, in, projection.Options{}, nil); err == nil {
			t.Error("a rebuild ended well after its context")
		}
		post(t, in, 1)
		if err := m.CatchUp(t.Context(), in, projection.Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Compare(t.Context(), in); err != nil {
			t.Error(err)
		}
	})
}

// post posts a message to the thread "sure" of chatter.
func post(t *testing.T, journal annals.Store, n int64) {
	t.Helper()
	threads, err := aggregate.New(journal, chat.Behavior, aggregate.Options{})
	if err == nil {
		_, err = threads.Ask(t.Context(), "sure", chat.Post{Executor: "ann", ID: fmt.Sprint("posted-", n), Text: "hi"})
	}
	if err != nil {
		t.Error(err)
	}
}

// awaitMessage waits until the read model has the nth message of post.
func awaitMessage(t *testing.T, m *Model, n int64) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); ; <-look.C {
		page, _, err := m.Messages(t.Context(), "sure", 0, 1000)
		if err != nil || time.Now().After(end) {
			t.Fatalf("the message is not there: %v", err)
		}
		if slices.ContainsFunc(page, func(m Message) bool { return m.ID == fmt.Sprint("posted-", n) }) {
			return
		}
	}
}
