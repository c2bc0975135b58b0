package host_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/host"
)

type event interface{ event() }

// broken is a codec whose Validate returns an error.
type broken[T any] struct{ codec.Codec[T] }

var errBroken = errors.New("broken codec")

func (broken[T]) Validate() error { return errBroken }

func TestFaults(t *testing.T) {
	t.Parallel()
	err := host.Faults(behavior.EventSourced[int, event, event, int]{Type: "A|B", SnapshotEvery: 1, States: nil})
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
	if err := host.Faults(sourced); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"annals.counter", "\xff", "a\x00"} {
		wrong := sourced
		wrong.Type = name
		if err := host.Faults(wrong); err == nil || !strings.Contains(err.Error(), "Type") {
			t.Errorf("the type %q: got %v", name, err)
		}
	}
	sourced.SnapshotEvery = -1
	sourced.Events = broken[int]{}
	if err := host.Faults(sourced); !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "SnapshotEvery") {
		t.Errorf("got %v", err)
	}
	if err := host.StateFaults(behavior.DurableState[int, event, int]{}); err == nil || !strings.Contains(err.Error(), "States") {
		t.Errorf("got %v", err)
	}
	durable := behavior.DurableState[int, int, int]{Type: "Profile", Decide: func(int, int) (behavior.Effect[int], error) { return behavior.Save(1), nil }}
	if err := host.StateFaults(durable); err != nil {
		t.Error(err)
	}
	durable.Type = "annals.profile"
	if err := host.StateFaults(durable); err == nil || !strings.Contains(err.Error(), "Type") {
		t.Errorf("a type of the library: got %v", err)
	}
}
