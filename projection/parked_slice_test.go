package projection

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// Between any two requests of one that parks the first entity of a slice another takes the slice off the list, and the other way round. The
// list leads to the entity, or it was not stored.
func TestListOfParkedSlices(t *testing.T) {
	t.Parallel()
	const id = annals.PersistenceID("T|1")
	slice := id.Slice()
	park := func(s annals.Store) error {
		p, err := loadParked(t.Context(), s, "p", slice)
		if err == nil && len(p.entities) == 0 {
			err = listParked(t.Context(), s, "p", slice)
		}
		if err == nil {
			p.entities[id] = ParkedEntity{ID: id, From: 1}
			err = p.save(t.Context(), s)
		}
		return err
	}
	unlist := func(s annals.Store) error { return unlistParked(t.Context(), s, "p", []int{slice}) }
	for _, listed := range []bool{false, true} {
		for _, acts := range [][]func(annals.Store) error{{park, unlist}, {unlist, park}} {
			for at, tripped := 1, true; tripped; at++ {
				store := memstore.New()
				if listed {
					if err := listParked(t.Context(), store, "p", slice); err != nil {
						t.Fatal(err)
					}
				}
				tripped = false
				calls := 0
				in := &faulty.Store{Store: store, Around: func(_ context.Context, _ *faulty.Call, run func() error) error {
					if calls++; calls == at {
						tripped = true
						if err := acts[1](store); err != nil && !errors.Is(err, annals.ErrConflict) {
							t.Error(err)
						}
					}
					return run()
				}}
				if err := acts[0](in); err != nil && !errors.Is(err, annals.ErrConflict) {
					t.Error(err)
				}
				p, err := loadParked(t.Context(), store, "p", slice)
				list, _, listErr := parkedSlicesOf("p").Load(t.Context(), store)
				if err := errors.Join(err, listErr); err != nil {
					t.Fatal(err)
				}
				if len(p.entities) > 0 && !slices.Contains(list, slice) {
					t.Errorf("listed %v, interrupted before call %d: the list is %v, and the slice has an entity", listed, at, list)
				}
			}
		}
	}
}

// What is damaged is an error with a kind, for those who run the projection and those who look at it.
func TestDamagedDocuments(t *testing.T) {
	t.Parallel()
	const id = annals.PersistenceID("T|1")
	entity := `{"T|1":{"id":"T|1","from":1,"time":"2026-01-01T00:00:00Z","error":"","since":"2026-01-01T00:00:00Z","tries":0}}`
	for name, c := range map[string]struct {
		id     annals.PersistenceID
		data   string
		listed bool
	}{
		"no JSON":                {recordOf("p").ID, `{`, false},
		"ten slices":             {recordOf("p").ID, `{"epoch":1,"ranges":[{"from":0,"to":10}],"runners":{}}`, false},
		"a gap":                  {recordOf("p").ID, `{"epoch":1,"ranges":[{"from":0,"to":10},{"from":11,"to":1024}],"runners":{}}`, false},
		"backwards":              {recordOf("p").ID, `{"epoch":1,"ranges":[{"from":0,"to":0},{"from":0,"to":1024}],"runners":{}}`, false},
		"no lease":               {recordOf("p").ID, `{"epoch":1,"ranges":[{"from":0,"to":1024}],"runners":{"x":{}}}`, false},
		"a list out of order":    {parkedSlicesOf("p").ID, `[5,5]`, false},
		"a list of other slices": {parkedSlicesOf("p").ID, `[1024]`, false},
		"entities":               {parkedOf("p", id.Slice()).ID, `[]`, true},
		"another slice":          {parkedOf("p", id.Slice()+1).ID, entity, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memstore.New()
			if c.listed {
				if err := errors.Join(listParked(t.Context(), store, "p", id.Slice()), listParked(t.Context(), store, "p", id.Slice()+1)); err != nil {
					t.Fatal(err)
				}
			}
			p := annals.Payload{SerializerID: 31, Manifest: map[annals.PersistenceID]string{recordOf("p").ID: "annals.projection", parkedSlicesOf("p").ID: "annals.parked-slices"}[c.id], Data: []byte(c.data)}
			if p.Manifest == "" {
				p.Manifest = "annals.parked"
			}
			if _, err := store.States().Put(t.Context(), annals.StateWrite{ID: c.id, Payload: p}); err != nil {
				t.Fatal(err)
			}
			damaged := func(what string, err error) {
				t.Helper()
				if e := (*annals.Error)(nil); !errors.Is(err, annals.ErrCorrupt) || !errors.As(err, &e) {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err := NewControl(store, "p").Status(t.Context(), store)
			damaged("Status", err)
			if c.id == recordOf("p").ID {
				synctest.Test(t, func(t *testing.T) { // it goes on when the record is right again
					ctx, stop := context.WithTimeout(t.Context(), time.Minute)
					defer stop()
					var log bytes.Buffer
					g := &group{store: store, projection: "p", ranges: 4, lease: time.Second, log: slog.New(slog.NewTextHandler(&log, nil)), now: time.Now, steps: func(annals.SliceRange) int64 { return 0 }}
					err := g.run(ctx, func(context.Context, annals.SliceRange, int64) error { return nil })
					if err != nil || !strings.Contains(log.String(), annals.ErrCorrupt.Error()) {
						t.Errorf("run: %v, logged %s", err, &log)
					}
				})
			}
		})
	}
}
