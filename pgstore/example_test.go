package pgstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// Post is a blog post. The zero Post is none.
type Post struct {
	Title     string
	Published bool
}

var blogPosts = codec.JSON[Post]("post")

// blog saves the post that it is asked to, and deletes it for the zero Post.
var blog = behavior.DurableState[Post, Post, Post]{
	Type:   "BlogPost",
	States: blogPosts,
	Decide: func(_, p Post) (behavior.Effect[Post], error) {
		if p == (Post{}) {
			return behavior.Delete[Post](), nil
		}
		return behavior.Save(p), nil
	},
	Reply: func(p Post, _ Post) Post { return p },
}

const createBlog = `
	CREATE TABLE blog_post (LIKE durable_state INCLUDING ALL, title TEXT UNIQUE, counted BOOLEAN NOT NULL DEFAULT FALSE);
	CREATE TABLE published (n BIGINT NOT NULL);
	INSERT INTO published VALUES (0)`

var blogTypes = map[string]annals.StateType[pgx.Tx]{
	"BlogPost": {
		Table:    "blog_post",
		Columns:  []string{"title"},
		Bind:     codec.Columns(blogPosts, func(p Post) annals.Columns { return annals.Columns{"title": p.Title} }),
		OnChange: codec.OnChange(blogPosts, countPublished),
	},
}

// countPublished keeps the number of published posts. A deleted one gives its title back.
func countPublished(ctx context.Context, tx pgx.Tx, c codec.Change[Post]) error {
	const count = `UPDATE published SET n = n + $1::int - (SELECT counted::int FROM blog_post WHERE persistence_id = $2)`
	published := 0
	if c.Value.Published {
		published = 1
	}
	if _, err := tx.Exec(ctx, count, published, string(c.ID)); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `UPDATE blog_post SET counted = $1, title = CASE WHEN $2 THEN NULL ELSE title END WHERE persistence_id = $3`,
		c.Value.Published, c.Deleted, string(c.ID))
	return err
}

// Blog posts as durable states: found by their title, which no two have, and counted in the transaction of each change.
func TestBlog(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), postgres.Schema(t)
	openAt(t, url, pgstore.Options{CreateTables: true})
	run(t, url, createBlog)
	store := openAt(t, url, pgstore.Options{StateTypes: blogTypes})
	runtime, err := entity.NewState(store, blog, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = runtime.Shutdown(ctx) }()
	ask := func(id string, p Post) error {
		_, err := runtime.Ask(ctx, id, p)
		return err
	}
	if err := errors.Join(ask("p-1", Post{Title: "Annals"}), ask("p-1", Post{"Annals", true})); err != nil {
		t.Error(err)
	}
	if err := ask("p-2", Post{Title: "Annals"}); !errors.Is(err, annals.ErrConstraint) || errors.Is(err, annals.ErrConflict) {
		t.Errorf("a title that is taken: %v", err)
	}
	if err := errors.Join(ask("p-1", Post{"Chronicles", true}), ask("p-2", Post{"Annals", true})); err != nil {
		t.Error(err)
	}
	n := 0
	finder, err := ability.Of[ability.StateFinder](store)
	if err != nil {
		t.Fatal(err)
	}
	for state, err := range finder.FindStates(ctx, "BlogPost", "title", "Annals") {
		if n++; err != nil || state.ID != blog.ID("p-2") {
			t.Errorf("found %+v, %v", state, err)
		}
	}
	if published := count(t, url, "SELECT n FROM published"); n != 1 || published != 2 {
		t.Errorf("found %d, %d published", n, published)
	}
	if err := errors.Join(ask("p-1", Post{}), ask("p-3", Post{Title: "Chronicles"})); err != nil {
		t.Error(err)
	}
	if published := count(t, url, "SELECT n FROM published"); published != 1 {
		t.Errorf("%d published after a delete", published)
	}
}
