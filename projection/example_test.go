package projection_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// Posted is an event of a thread.
type Posted struct{ Author, Text string }

var posted = codec.JSON[Posted]("posted")

// countMessages counts the messages of each author in a table of the store's database.
func countMessages(ctx context.Context, store *sqlitestore.Store) (*projection.Runner, error) {
	if err := store.InTx(ctx, func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS messages (author TEXT PRIMARY KEY, n INTEGER NOT NULL)")
		return err
	}); err != nil {
		return nil, err
	}
	source := projection.Source[Posted]{Store: store, Type: "Thread", Codec: posted}
	count := func(ctx context.Context, tx *sql.Tx, e projection.Envelope[Posted]) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO messages VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1", e.Value.Author)
		return err
	}
	return projection.ExactlyOnce("messages", source, store, count, projection.Options{})
}

// post appends messages of author to a thread.
func post(ctx context.Context, store annals.Store, thread, author string, texts ...string) error {
	id := annals.NewPersistenceID("Thread", thread)
	after, err := store.Journal().LastSeqNr(ctx, id)
	if err != nil {
		return err
	}
	c := annals.Commit{ID: id, After: after}
	for _, text := range texts {
		p, err := posted.Encode(Posted{author, text})
		if err != nil {
			return err
		}
		c.Events = append(c.Events, annals.NewEvent{Payload: p})
	}
	_, err = store.Journal().Append(ctx, c)
	return err
}

// A read model in SQLite counts each event once, whatever happens to the process. A service calls Run, which handles new events until its
// context ends; CatchUp ends by itself.
func ExampleExactlyOnce() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "chat.db"), sqlitestore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	messages, err := countMessages(ctx, store)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, thread := range []string{"t-1", "t-2"} {
		if err := post(ctx, store, thread, "ann", "hello", "are you there?"); err != nil {
			fmt.Println(err)
			return
		}
		if err := messages.CatchUp(ctx); err != nil {
			fmt.Println(err)
			return
		}
	}
	_ = store.InTx(ctx, func(ctx context.Context, tx *sql.Tx, _ annals.Store) error {
		var n int
		err := tx.QueryRowContext(ctx, "SELECT n FROM messages WHERE author = 'ann'").Scan(&n)
		fmt.Println(n, "messages of ann", err)
		return err
	})
	// Output: 4 messages of ann <nil>
}

// A handler that sends mails has no transaction. It handles an event again if the process ends before the position was saved. After a Reset it
// sends nothing again.
func ExampleAtLeastOnce() {
	ctx, store := context.Background(), memstore.New()
	source := projection.Source[Posted]{Store: store, Type: "Thread", Codec: posted}
	mails, err := projection.AtLeastOnce("mails", source, store, func(_ context.Context, e projection.Envelope[Posted]) error {
		if e.Rebuilding {
			return nil // the mail was sent before a Reset
		}
		fmt.Printf("%s %d: %s wrote %q\n", e.ID, e.SeqNr, e.Value.Author, e.Value.Text)
		return nil
	}, projection.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := post(ctx, store, "t-1", "ann", "hello", "are you there?"); err != nil {
		fmt.Println(err)
		return
	}
	if err := errors.Join(mails.CatchUp(ctx), mails.Control().Reset(ctx, annals.Offset{}), post(ctx, store, "t-1", "bob", "yes"), mails.CatchUp(ctx)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Thread|t-1 1: ann wrote "hello"
	// Thread|t-1 2: ann wrote "are you there?"
	// Thread|t-1 3: bob wrote "yes"
}
