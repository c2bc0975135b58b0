package ability_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
)

// plain hides the abilities of a store, wrapper hands them on, and poor is without one of them.
type (
	plain   struct{ annals.Store }
	wrapper struct{ annals.Store }
	poor    struct{ *memstore.Store }
)

func (w wrapper) Unwrap() annals.Store { return w.Store }

func (p poor) Lacks(want any) error {
	if _, ok := want.(*ability.Skipper); ok {
		return errors.New("no room for numbers")
	}
	return p.Store.Lacks(want)
}

func TestOf(t *testing.T) {
	t.Parallel()
	mem := memstore.New()
	for name, c := range map[string]struct {
		s    annals.Store
		want []string // "" is an ability, another text is in the error of one that is lacking
	}{
		"store":           {mem, []string{"", "", ""}},
		"wrapper":         {wrapper{wrapper{mem}}, []string{"", "", ""}},
		"plain":           {plain{mem}, []string{"ability.Skipper: ability_test.plain has no such method", "ability.Watcher", "ability.Transactor[github.com/annals-go/annals/memstore.Tx]"}},
		"poor":            {poor{mem}, []string{"no room for numbers", "", ""}},
		"wrapper of poor": {wrapper{poor{mem}}, []string{"no room for numbers", "", ""}},
		"nil":             {nil, []string{"ability.Skipper", "ability.Watcher", "ability.Transactor"}},
	} {
		_, skips := ability.Of[ability.Skipper](c.s)
		_, watches := ability.Of[ability.Watcher](c.s)
		_, transacts := ability.Of[ability.Transactor[memstore.Tx]](c.s)
		for i, err := range []error{skips, watches, transacts} {
			if want := c.want[i]; (want == "") != (err == nil) || err != nil && (!errors.Is(err, annals.ErrUnsupported) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, ability %d: %v, want %q", name, i, err, want)
			}
		}
	}
}

// A store of package driver has an ability when its driver has it: in a transaction memstore pushes no events.
func TestOfInTransaction(t *testing.T) {
	t.Parallel()
	err := memstore.New().InTx(t.Context(), func(_ context.Context, _ memstore.Tx, in annals.Store) error {
		if _, err := ability.Of[ability.Skipper](in); err != nil {
			t.Error(err)
		}
		if _, err := ability.Of[ability.Subscriber](in); !errors.Is(err, annals.ErrUnsupported) {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
