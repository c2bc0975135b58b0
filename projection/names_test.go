package projection_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// unlisted is a store that cannot list ids.
type unlisted struct{ annals.Store }

func (u unlisted) Capabilities() annals.Capabilities {
	c := u.Store.Capabilities()
	c.IDQueries = false
	return c
}

// The names are those of projections that have been run, also with a "|" in it.
func TestNames(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	if names, err := projection.Names(t.Context(), s); len(names) > 0 || err != nil {
		t.Errorf("%q, %v", names, err)
	}
	want := []string{"a", "a|b"}
	for _, name := range want {
		if err := projection.NewControl(s, name).Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	names, err := projection.Names(t.Context(), s)
	slices.Sort(names)
	if !slices.Equal(names, want) || err != nil {
		t.Errorf("%q, %v", names, err)
	}
	if _, err := projection.Names(t.Context(), unlisted{s}); !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("a store that cannot list ids: %v", err)
	}
}
