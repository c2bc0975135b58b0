package behavior_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

type event interface{ event() }

// broken is a codec whose Validate returns an error.
type broken[T any] struct{ codec.Codec[T] }

var errBroken = errors.New("broken codec")

func (broken[T]) Validate() error { return errBroken }

func TestValidateReportsEverything(t *testing.T) {
	t.Parallel()
	err := behavior.EventSourced[int, event, event, int]{Type: "A|B", SnapshotEvery: 1, States: nil}.Validate()
	for _, part := range []string{"Type", "Decide", "Evolve", "Events", "States"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %s", err, part)
		}
	}
	sourced := behavior.EventSourced[int, int, int, int]{
		Type:   "Counter",
		Decide: func(int, int) ([]int, error) { return nil, nil },
		Evolve: func(s, e int) int { return s + e },
	}
	if err := sourced.Validate(); err != nil {
		t.Error(err)
	}
	library := sourced
	library.Type = "annals.counter"
	if err := library.Validate(); err == nil || !strings.Contains(err.Error(), "Type") {
		t.Errorf("a type of the library: got %v", err)
	}
	sourced.SnapshotEvery = -1
	sourced.Events = broken[int]{}
	if err := sourced.Validate(); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "SnapshotEvery") {
		t.Errorf("got %v", err)
	}
	if err := (behavior.DurableState[int, event, int]{}).Validate(); err == nil || !strings.Contains(err.Error(), "States") {
		t.Errorf("got %v", err)
	}
	durable := behavior.DurableState[int, int, int]{Type: "Profile", Decide: func(int, int) (behavior.Effect[int], error) { return behavior.Save(1), nil }}
	if err := durable.Validate(); err != nil {
		t.Error(err)
	}
	durable.Type = "annals.profile"
	if err := durable.Validate(); err == nil || !strings.Contains(err.Error(), "Type") {
		t.Errorf("a type of the library: got %v", err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	b := behavior.EventSourced[int, int, int, int]{Type: "Counter"}
	if got := b.ID("7"); got != "Counter|7" {
		t.Errorf("got %q", got)
	}
	b.PersistenceID = func(id string) annals.PersistenceID { return annals.PersistenceID("counter-" + id) }
	if got := b.ID("7"); got != "counter-7" {
		t.Errorf("got %q", got)
	}
	if got := (behavior.DurableState[int, int, int]{Type: "Profile"}).ID("7"); got != "Profile|7" {
		t.Errorf("got %q", got)
	}
}

func TestEffects(t *testing.T) {
	t.Parallel()
	if s, saves, deletes := behavior.Save(3).Outcome(); s != 3 || !saves || deletes {
		t.Error("Save")
	}
	if s, saves, deletes := behavior.Delete[int]().Outcome(); s != 0 || saves || !deletes {
		t.Error("Delete")
	}
	if _, saves, deletes := (behavior.Effect[int]{}).Outcome(); saves || deletes {
		t.Error("the zero Effect does something")
	}
}
