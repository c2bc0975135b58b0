package cleanup_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// The keys of the commands to an entity stay while its numbers do, and are forgotten with it.
func TestForgetKeys(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s annals.Store) {
		b := behavior.EventSourced[int, int, int, int]{
			Type:   "Keyed",
			Decide: func(_, n int) ([]int, error) { return []int{n}, nil },
			Evolve: func(sum, n int) int { return sum + n },
			Reply:  func(sum, _ int, _ []int) int { return sum },
		}
		r, err := aggregate.New(s, b, aggregate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ask := func(id string, want int, kind error) {
			t.Helper()
			if sum, err := r.AskOnce(t.Context(), "k", id, 5); sum != want || !errors.Is(err, kind) {
				t.Errorf("%s: %d, %v, want %d, %v", id, sum, err, want, kind)
			}
		}
		keys := func(want annals.SeqNr) {
			t.Helper()
			if state, there, err := s.States().Get(t.Context(), "annals.keys|Keyed|a"); there != (want > 0) || state.Revision != want || err != nil {
				t.Errorf("the keys have revision %d, and are there: %v, %v", state.Revision, there, err)
			}
		}
		ask("a", 5, nil)
		ask("b", 5, nil)
		c, err := cleanup.New(s, cleanup.Options{AtOnce: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.DeleteEntities(t.Context(), cleanup.IDs("Keyed|a")); err != nil {
			t.Fatal(err)
		}
		keys(1)
		ask("a", 0, annals.ErrTruncated) // was executed
		dry, err := cleanup.New(s, cleanup.Options{AtOnce: true, DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dry.ForgetDeleted(t.Context(), cleanup.IDs("Keyed|a", "Keyed|b")); err != nil {
			t.Fatal(err)
		}
		keys(1)
		for range 2 {
			if report, err := c.ForgetDeleted(t.Context(), cleanup.IDs("Keyed|a", "Keyed|b")); report.Forgotten != 1 || err != nil {
				t.Errorf("%+v, %v", report, err)
			}
			keys(0)
		}
		ask("a", 5, nil)
		ask("b", 5, nil)
	})
}

// An entity whose id is so long that it cannot have keys is forgotten like others.
func TestForgetLongID(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s annals.Store) {
		l := s.Capabilities().Limits
		id := annals.PersistenceID("Keyed|" + strings.Repeat("a", cmp.Or(l.MaxIDBytes, l.MaxIDChars, 2000)-len("Keyed|")))
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: codec.JSONSerializer, Data: []byte("1")}}}}); err != nil {
			t.Fatal(err)
		}
		c, err := cleanup.New(s, cleanup.Options{AtOnce: true})
		if err != nil {
			t.Fatal(err)
		}
		if report, err := c.ForgetEntities(t.Context(), cleanup.IDs(id)); report.Forgotten != 1 || err != nil {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// A run that fails before the keys are forgotten is continued with the ids that the store lists, and leaves no keys.
func TestForgetKeysAfterFailure(t *testing.T) {
	t.Parallel()
	memory, id := memstore.New(), annals.PersistenceID("Keyed|a")
	put(t, memory, "annals.keys|Keyed|a", 0)
	write(t, memory, id, 1)
	failed := false
	s := faulty.Able{Store: &faulty.Store{Store: memory, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if c.Op == "delete state" && !failed {
			failed = true
			return faulty.Failed(c)
		}
		return run()
	}}}
	c := cleaner(t, s, cleanup.Options{AtOnce: true})
	for _, want := range []cleanup.Report{{Entities: 1, Failed: 1, Events: 1, Last: id}, {Entities: 1, Forgotten: 1, Last: id}} {
		if got, err := c.ForgetEntities(t.Context(), s.Query().IDs(t.Context(), "Keyed", "")); got != want || (err != nil) != (want.Failed > 0) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	if state, _, err := s.States().Get(t.Context(), "annals.keys|Keyed|a"); state.Revision != 0 || err != nil {
		t.Errorf("the keys have revision %d: %v", state.Revision, err)
	}
}

// The key of a command that begins the entity again during the run stays.
func TestForgetKeysOfNewCommand(t *testing.T) {
	t.Parallel()
	memory, id := memstore.New(), annals.PersistenceID("Keyed|a")
	put(t, memory, "annals.keys|Keyed|a", 0)
	write(t, memory, id, 1)
	if _, err := cleaner(t, memory, cleanup.Options{}).DeleteEntities(t.Context(), cleanup.IDs(id)); err != nil {
		t.Fatal(err)
	}
	begun := false
	s := faulty.Able{Store: &faulty.Store{Store: memory, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
		if c.Op == "get state" && c.ID == "annals.keys|Keyed|a" && !begun {
			begun = true
			if _, err := memory.Journal().Append(ctx, annals.Commit{ID: id, After: 2, Events: []annals.NewEvent{{Payload: text}}}); err != nil {
				t.Error(err)
			}
			put(t, memory, c.ID, 1)
		}
		return run()
	}}}
	if _, err := cleaner(t, s, cleanup.Options{AtOnce: true}).ForgetDeleted(t.Context(), cleanup.IDs(id)); err != nil {
		t.Error(err)
	}
	if state, there, err := memory.States().Get(t.Context(), "annals.keys|Keyed|a"); state.Revision != 2 || !there || err != nil {
		t.Errorf("the keys have revision %d, and are there: %t, %v", state.Revision, there, err)
	}
}
