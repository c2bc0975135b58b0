package process_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
)

// weak is a store that does not claim all that it has.
type weak struct {
	*faulty.Store
	caps annals.Capabilities
}

func (w weak) Capabilities() annals.Capabilities { return w.caps }

// New reports what is wrong, all at once, and what a store lacks.
func TestNew(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	to := func(projection.Envelope[int]) string { return "" }
	numbers := projection.Source[int]{Store: store, Type: "N", Codec: codec.JSON[int]("n")}
	states := numbers
	states.States = true
	own := numbers
	own.Type = "Listing"
	bad := listing
	bad.React, bad.SnapshotEvery = nil, -1
	_, err := process.New(store, bad, []process.Source{
		process.From(projection.Source[int]{}, to), process.From(states, to), process.From(numbers, to), process.From(own, to),
	}, []process.Recipients{{}, process.To[string, int](toBoxes, nil)}, process.Options{Parallel: -1, SendTimeout: -1})
	if !errors.Is(err, annals.ErrInvalid) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"React is missing", "SnapshotEvery is negative", "From needs a Source", "has durable states", `two sources "N"`, `two sources "Listing"`,
		"To needs", "Parallel is -1", "SendTimeout is -1",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if _, err := process.New(store, listing, nil, nil, process.Options{}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("without sources: %v", err)
	}
	for name, without := range map[string]func(*annals.Capabilities){
		"events":  func(c *annals.Capabilities) { c.Events = false },
		"times":   func(c *annals.Capabilities) { c.Times = false },
		"queries": func(c *annals.Capabilities) { c.EventQueries = false },
		"offsets": func(c *annals.Capabilities) { c.Offsets = false },
		"states":  func(c *annals.Capabilities) { c.States = false },
	} {
		lacking := weak{&faulty.Store{Store: store}, store.Capabilities()}
		without(&lacking.caps)
		if _, err := process.New(lacking, listing, []process.Source{process.From(numbers, to)}, nil, process.Options{}); !errors.Is(err, annals.ErrUnsupported) {
			t.Errorf("a store without %s: %v", name, err)
		}
	}
}
