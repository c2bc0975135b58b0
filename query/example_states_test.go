package query_test

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// Profile is a durable state.
type Profile struct{ Name string }

var profiles = codec.JSON[Profile]("profile")

// names keeps the name of each profile in found.
func names(store *memstore.Store, found map[string]string) (*projection.Runner, error) {
	source := projection.Source[Profile]{Store: store, Type: "Profile", Codec: profiles, States: true}
	handle := func(_ context.Context, e projection.Envelope[Profile]) error {
		if e.Deleted {
			delete(found, e.ID.EntityID())
		} else {
			found[e.ID.EntityID()] = e.Value.Name
		}
		return nil
	}
	return projection.AtLeastOnce("names", source, store, handle, projection.Options{Ranges: 1})
}

// A projection of durable states.
func Example_states() {
	if err := showNames(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: map[p-1:Ann Smith]
}

func showNames(ctx context.Context) error {
	store, found := memstore.New(), map[string]string{}
	for revision, name := range []string{"Ann", "Ann Smith"} {
		payload, err := profiles.Encode(Profile{name})
		if err != nil {
			return err
		}
		w := annals.StateWrite{ID: "Profile|p-1", After: annals.SeqNr(revision), Payload: payload}
		if _, err := store.States().Put(ctx, w); err != nil {
			return err
		}
	}
	runner, err := names(store, found)
	if err != nil {
		return err
	}
	if err := runner.CatchUp(ctx); err != nil {
		return err
	}
	fmt.Println(found)
	return nil
}
