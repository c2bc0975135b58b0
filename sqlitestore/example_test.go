package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/sqlitestore"
)

// Post is a blog post. The zero Post is none.
type Post struct {
	Title     string
	Published bool
}

// The commands of a post.
type (
	Draft   struct{ Title string }
	Publish struct{}
	Remove  struct{}
)

var errNoPost = errors.New("there is no such post")

var blogPosts = codec.JSON[Post]("post")

var blog = behavior.DurableState[any, Post, Post]{
	Type:   "BlogPost",
	States: blogPosts,
	Decide: func(p Post, c any) (behavior.Effect[Post], error) {
		switch c := c.(type) {
		case Draft:
			return behavior.Save(Post{Title: c.Title}), nil
		case Publish:
			if p.Title == "" {
				return behavior.Effect[Post]{}, errNoPost
			}
			p.Published = true
			return behavior.Save(p), nil
		case Remove:
			return behavior.Delete[Post](), nil
		}
		panic(fmt.Sprintf("no case for %T", c))
	},
	Reply: func(p Post, _ any) Post { return p },
}

// blogTypes say what is special about posts in SQLite.
var blogTypes = map[string]annals.StateType[*sql.Tx]{
	"BlogPost": {
		Table:    "blog_post",
		Columns:  []string{"title"},
		Bind:     codec.Columns(blogPosts, func(p Post) annals.Columns { return annals.Columns{"title": p.Title} }),
		OnChange: codec.OnChange(blogPosts, countPublished),
	},
}

func createBlog(ctx context.Context, tx *sql.Tx) error {
	for _, text := range []string{
		sqlitestore.StateTable("blog_post", "title TEXT UNIQUE", "counted INTEGER NOT NULL DEFAULT 0"),
		`CREATE TABLE IF NOT EXISTS published (n INTEGER NOT NULL)`,
		`INSERT INTO published SELECT 0 WHERE NOT EXISTS (SELECT * FROM published)`,
	} {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// countPublished keeps the number of published posts.
func countPublished(ctx context.Context, tx *sql.Tx, c codec.Change[Post]) error {
	const count = `UPDATE published SET n = n + ?1 - (SELECT counted FROM blog_post WHERE persistence_id = ?2)`
	if _, err := tx.ExecContext(ctx, count, c.Value.Published, string(c.ID)); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE blog_post SET counted = ?1 WHERE persistence_id = ?2`, c.Value.Published, string(c.ID))
	return err
}

// Blog posts as durable states: found by their title, which no two have, and counted in the transaction of each change.
func Example_durableState() {
	if err := writeBlog(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {Annals true}
	// the title is taken
	// BlogPost|p-1 at revision 2: {Annals true}
	// published: 1
	// after Remove: revision 3, deleted true, there false; published: 0
}

func writeBlog(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "blog-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	store, err := sqlitestore.Open(ctx, filepath.Join(dir, "blog.db"), sqlitestore.Options{Init: createBlog, StateTypes: blogTypes})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	runtime, err := entity.NewState(store, blog, entity.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runtime.Shutdown(ctx)) }()

	if _, err := runtime.Ask(ctx, "p-1", Draft{Title: "Annals"}); err != nil {
		return err
	}
	post, err := runtime.Ask(ctx, "p-1", Publish{})
	if err != nil {
		return err
	}
	fmt.Println(post)

	if _, err := runtime.Ask(ctx, "p-2", Draft{Title: "Annals"}); errors.Is(err, annals.ErrConstraint) {
		fmt.Println("the title is taken")
	}

	finder, err := ability.Of[ability.StateFinder](store)
	if err != nil {
		return err
	}
	for state, err := range finder.FindStates(ctx, "BlogPost", "title", "Annals") {
		if err != nil {
			return err
		}
		post, err := blogPosts.Decode(state.Payload)
		if err != nil {
			return err
		}
		fmt.Printf("%s at revision %d: %v\n", state.ID, state.Revision, post)
	}
	fmt.Println("published:", published(ctx, store))

	if _, err := runtime.Ask(ctx, "p-1", Remove{}); err != nil {
		return err
	}
	state, there, err := store.States().Get(ctx, blog.ID("p-1"))
	if err != nil {
		return err
	}
	fmt.Printf("after Remove: revision %d, deleted %v, there %v; published: %d\n", state.Revision, state.Deleted, there, published(ctx, store))
	return nil
}

func published(ctx context.Context, store *sqlitestore.Store) (n int) {
	if err := store.DB().QueryRowContext(ctx, `SELECT n FROM published`).Scan(&n); err != nil {
		fmt.Println(err)
	}
	return n
}
