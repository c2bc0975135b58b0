package esa_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/annals-go/annals"
	host "github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// Renamed is the event "UserAccountRenamed" of a program with the library for Go. The members that it does not have, such as the number, are
// added by esa.JSON.
type Renamed struct {
	Body struct {
		Name string `json:"name"`
	} `json:"body"`
}

// User is what this program needs of the state of that program.
type User struct {
	Body struct {
		Name string `json:"name"`
	} `json:"body"`
}

// users keep the members of a state that User does not have. Three members are of the state as it was stored: esa.JSON adds new ones.
var users = behavior.EventSourced[string, Renamed, codec.Kept[User], string]{
	Type: "UserAccount",
	Decide: func(_ codec.Kept[User], name string) ([]Renamed, error) {
		var e Renamed
		e.Body.Name = name
		return []Renamed{e}, nil
	},
	Evolve: func(s codec.Kept[User], e Renamed) codec.Kept[User] {
		s.Value.Body.Name = e.Body.Name
		return s
	},
	Reply:         func(s codec.Kept[User], _ string, _ []Renamed) string { return s.Value.Body.Name },
	Events:        codec.JSON[Renamed]("UserAccountRenamed"),
	States:        codec.Keeping[User]("UserAccount", "seq_nr", "version", "last_updated_at"),
	SnapshotEvery: 10,
}

// The tables of the library for Go, whose program has 64 shards and keeps two copies of snapshots.
func Example() {
	ctx := context.Background()
	client, err := dynamostore.NewClient(ctx, dynamostore.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	store, err := dynamostore.Open(ctx, client, esa.Layout{Peer: esa.Go, Shards: 64, Snapshot: esa.Snapshot{Keep: 2}}, dynamostore.Options{})
	if err != nil {
		log.Fatal(err)
	}
	repository, err := host.New(store, users, host.Options{})
	if err != nil {
		log.Fatal(err)
	}
	name, err := repository.Ask(ctx, "01H42K4ABWQ5V2XQEP3A48VE0Z", "Taro")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(name)
	// An account that is no longer written keeps the copies that it has. Retain removes those that Keep does not keep.
	if err := esa.Retain(ctx, store, "UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z"); err != nil {
		log.Fatal(err)
	}
}

// What the example's types do not know of is in the state that they write.
func TestUnknownMembersAreKept(t *testing.T) {
	t.Parallel()
	offer, err := esa.Layout{Shards: 64}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	c := offer.On(plantest.New(offer.Tables))
	stored := `{"id":{"type":"UserAccount","value":"7"},"seq_nr":1,"version":1,"last_updated_at":"2026-03-01T09:00:05.185Z","body":{"name":"Taro"},"flags":[1.50,9007199254740993]}`
	s := annals.Snapshot{ID: "UserAccount|7", SeqNr: 1, Payload: payloadOf("UserAccount", stored)}
	if err := c.Snapshots.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	latest := func() annals.Snapshot {
		t.Helper()
		found, ok, err := c.Snapshots.Latest(t.Context(), s.ID, annals.SnapshotCriteria{})
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return found
	}
	state, err := users.States.Decode(latest().Payload)
	if err != nil {
		t.Fatal(err)
	}
	state.Value.Body.Name = "Hanako"
	s.SeqNr, s.Time = 2, plantest.New([]plan.Table{}).Now()
	if s.Payload, err = users.States.Encode(state); err != nil {
		t.Fatal(err)
	}
	if err := c.Snapshots.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	want := `{"seq_nr":2,"version":1,"last_updated_at":"2026-07-28T12:00:01.000Z","body":{"name":"Hanako"},"flags":[1.50,9007199254740993],"id":{"type":"UserAccount","value":"7"}}`
	if got := string(latest().Data); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
