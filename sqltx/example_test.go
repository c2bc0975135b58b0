package sqltx_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/annals-go/annals/sqltx"
)

var words = codec.JSON[string]("word")

// count is a handler for SQLite and PostgreSQL.
func count(ctx context.Context, tx sqltx.Tx, e projection.Envelope[string]) error {
	_, err := tx.Exec(ctx, `INSERT INTO words (word, n) VALUES ($1, 1) ON CONFLICT (word) DO UPDATE SET n = words.n + 1`, e.Value)
	return err
}

// total counts the events of all texts, then returns how often a word was said.
func total(ctx context.Context, store sqltx.Store, word string) (n int, err error) {
	err = store.InTx(ctx, func(ctx context.Context, tx sqltx.Tx, _ annals.Store) error {
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY, n BIGINT NOT NULL)`)
		return err
	})
	if err != nil {
		return 0, err
	}
	runner, err := projection.ExactlyOnce("words", projection.Source[string]{Store: store, Type: "Text", Codec: words}, store, count, projection.Options{})
	if err != nil {
		return 0, err
	}
	if err := runner.CatchUp(ctx); err != nil {
		return 0, err
	}
	err = store.Read(ctx, func(scan func(...any) error) error { return scan(&n) }, `SELECT n FROM words WHERE word = $1`, word)
	return n, err
}

func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "annals")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "annals.db"), sqlitestore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	for n, word := range []string{"hello", "world", "hello"} {
		p, err := words.Encode(word)
		if err != nil {
			fmt.Println(err)
			return
		}
		c := annals.Commit{ID: "Text|1", After: annals.SeqNr(n), Events: []annals.NewEvent{{Payload: p}}}
		if _, err := store.Journal().Append(ctx, c); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(total(ctx, store.SQL(), "hello"))
	// Output: 2 <nil>
}
