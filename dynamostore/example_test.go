package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/entity"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Post is a blog post. The zero Post stands for no post.
type Post struct {
	Title     string
	Published bool
}

var blogPosts = codec.JSON[Post]("post")

// blog saves the given post, and deletes the post when given the zero Post.
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

func blogOptions(items string) dynamostore.Options {
	return dynamostore.Options{
		CreateTables: true,
		StateTypes: map[string]annals.StateType[*dynamostore.Tx]{
			"BlogPost": {
				Table:    "blog-post",
				Columns:  []string{"title"},
				Bind:     codec.Columns(blogPosts, func(p Post) annals.Columns { return annals.Columns{"title": p.Title} }),
				OnChange: codec.OnChange(blogPosts, blogItems(items).change),
			},
		},
		Findable: map[string][]dynamostore.Findable{"BlogPost": {{Column: "title"}}},
	}
}

// blogItems is a table of the program with the hash key "what". It has an item for each title, and one that counts posts.
type blogItems string

func (table blogItems) change(ctx context.Context, tx *dynamostore.Tx, c codec.Change[Post]) error {
	var before Post
	if s, ok, err := tx.Before(ctx); err != nil {
		return err
	} else if ok {
		if before, err = blogPosts.Decode(s.Payload); err != nil {
			return err
		}
	}
	if c.Value.Title != before.Title {
		if before.Title != "" {
			tx.Add(types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String(string(table)), Key: what("title " + before.Title)}})
		}
		if c.Value.Title != "" {
			tx.Add(types.TransactWriteItem{Put: &types.Put{TableName: aws.String(string(table)), Item: what("title " + c.Value.Title),
				ConditionExpression: aws.String("attribute_not_exists(what)")}})
		}
	}
	if c.Value.Published != before.Published {
		n := "1"
		if before.Published {
			n = "-1"
		}
		tx.Add(types.TransactWriteItem{Update: &types.Update{TableName: aws.String(string(table)), Key: what("published"),
			UpdateExpression:          aws.String("ADD n :n"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: n}}}})
	}
	return nil
}

func what(name string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"what": &types.AttributeValueMemberS{Value: name}}
}

// Blog posts are durable states. They are found by their titles, which are unique, and counted in the transaction of each change.
func TestBlog(t *testing.T) {
	t.Parallel()
	ctx, o := t.Context(), newOwn(t)
	store, err := dynamostore.Open(ctx, client(t), commit.Layout{Table: "t" + rand.Text()}, blogOptions(o.table))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
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
	if published := o.count(t, "published"); n != 1 || published != 2 {
		t.Errorf("found %d, %d published", n, published)
	}
	if err := errors.Join(ask("p-1", Post{}), ask("p-3", Post{Title: "Chronicles"})); err != nil {
		t.Error(err)
	}
	if published := o.count(t, "published"); published != 1 {
		t.Errorf("%d published after a delete", published)
	}
}
