package entity_test

import (
	"context"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// User is who sends a command. It is stored with each event as metadata.
type User struct{ Name string }

var users = codec.JSON[User]("user")

type userKey struct{}

// userOf is for Options.Metadata: the user in the context of a command.
func userOf(ctx context.Context) (annals.Payload, error) {
	user, ok := ctx.Value(userKey{}).(User)
	if !ok {
		return annals.Payload{}, nil
	}
	return users.Encode(user)
}

// Door is who opened a door last, and when.
type Door struct {
	Opened time.Time
	By     string
}

var doors = behavior.EventSourced[string, string, Door, Door]{
	Type:     "Door",
	Events:   codec.JSON[string]("door-opened"),
	Metadata: codec.Union[any](users),
	Decide: func(d Door, how string) ([]string, error) {
		if how == "" {
			return nil, nil // only reads
		}
		return []string{how}, nil
	},
	EvolveStored: func(d Door, how string, info behavior.Info) Door {
		user, _ := info.Metadata.(User)
		return Door{Opened: info.Time, By: user.Name}
	},
	Reply: func(d Door, how string, done []string) Door { return d },
}

func ExampleNew_evolveStored() {
	ctx, store := context.WithValue(context.Background(), userKey{}, User{"ann"}), memstore.New()
	runtime, err := entity.New(store, doors, entity.Options{Metadata: userOf})
	if err != nil {
		panic(err)
	}
	opened, err := runtime.Ask(ctx, "d-1", "by key")
	fmt.Println(opened.By, err)

	restarted, err := entity.New(store, doors, entity.Options{Metadata: userOf})
	if err != nil {
		panic(err)
	}
	recovered, err := restarted.Ask(ctx, "d-1", "")
	fmt.Println(recovered == opened, err)
	// Output:
	// ann <nil>
	// true <nil>
}

// Page is a wiki page.
type Page struct {
	Text    string
	Version annals.SeqNr `json:"-"`
	By      string       `json:"-"`
}

var wiki = behavior.DurableState[string, Page, Page]{
	Type:     "Page",
	States:   codec.JSON[Page]("page"),
	Metadata: codec.Union[any](users),
	Decide: func(p Page, text string) (behavior.Effect[Page], error) {
		return behavior.Save(Page{Text: text}), nil
	},
	Stored: func(p Page, info behavior.Info) Page {
		user, _ := info.Metadata.(User)
		p.Version, p.By = info.SeqNr, user.Name
		return p
	},
	Reply: func(p Page, text string) Page { return p },
}

func ExampleNewState_stored() {
	runtime, err := entity.NewState(memstore.New(), wiki, entity.Options{Metadata: userOf})
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"ann", "bob"} {
		ctx := context.WithValue(context.Background(), userKey{}, User{name})
		page, err := runtime.Ask(ctx, "home", "written by "+name)
		fmt.Println(page.Version, page.By, err)
	}
	// Output:
	// 1 ann <nil>
	// 2 bob <nil>
}
