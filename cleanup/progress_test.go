package cleanup_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/memstore"
)

// Forgetting removes an entity from the positions of the projections that have run on the store, and of those that are named.
func TestForgetRemovesOffsets(t *testing.T) {
	t.Parallel()
	ctx, s := context.Background(), memstore.New()
	id := annals.PersistenceID("T|1")
	save := func(projection string) {
		t.Helper()
		o := annals.Offset{ID: id, SeqNr: 3}
		if err := s.Offsets().Save(ctx, annals.Progress{Projection: projection, Offsets: []annals.Offset{o}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"ran", "named", "other"} {
		save(name)
	}
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: "annals.projection|ran", Payload: annals.Payload{SerializerID: 1, Data: []byte(`{"epoch":7}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: annals.NewPersistenceID("annals.parked", strconv.Itoa(id.Slice())+"/ran"),
		Payload: annals.Payload{SerializerID: 1, Data: []byte(`{"T|1":{"id":"T|1","from":1},"T|x":{"from":2}}`)}}); err != nil {
		t.Fatal(err)
	}
	run := func(o cleanup.Options) {
		t.Helper()
		c, err := cleanup.New(s, o)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := c.ForgetEntities(ctx, cleanup.IDs(id)); err != nil || r.Forgotten != 1 {
			t.Fatal(r, err)
		}
	}
	run(cleanup.Options{AtOnce: true, DryRun: true, Projections: []string{"named"}})
	left := func() (names []string) {
		for _, name := range []string{"ran", "named", "other"} {
			handled, err := s.Offsets().Handled(ctx, name, id)
			if err != nil {
				t.Fatal(err)
			}
			if handled[0].ID == id {
				names = append(names, name)
			}
		}
		return names
	}
	if got := left(); len(got) != 3 {
		t.Errorf("after a dry run: %v", got)
	}
	run(cleanup.Options{AtOnce: true, Projections: []string{"named"}})
	if got := left(); len(got) != 1 || got[0] != "other" {
		t.Errorf("offsets left in %v, want in other", got)
	}
	for at, want := range map[annals.PersistenceID]string{
		annals.NewPersistenceID("annals.parked", strconv.Itoa(id.Slice())+"/ran"): `{"T|x":{"from":2}}`,
		"annals.projection|ran": `{"epoch":7,"orders":1}`,
	} {
		state, _, err := s.States().Get(ctx, at)
		if err != nil || string(state.Data) != want {
			t.Errorf("%s: %s, %v, want %s", at, state.Data, err, want)
		}
	}
}
