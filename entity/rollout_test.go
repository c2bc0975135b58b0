package entity_test

import (
	"context"
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// An event of the test, in two versions.
type (
	namedV1 struct{ Name string }
	namedV2 struct{ First, Last string }
)

func lift(v namedV1) (namedV2, error)  { return namedV2{First: v.Name}, nil }
func lower(v namedV2) (namedV1, error) { return namedV1{v.First + v.Last}, nil }

// naming gives a command to a runtime of one release.
type naming func(ctx context.Context, name string) (string, error)

// release starts a release of a program. A command is a new name. The state is the last one.
func release[E any](t *testing.T, s annals.Store, c codec.Codec[E], event func(name string) E, name func(E) string) naming {
	t.Helper()
	rt, err := entity.New(s, behavior.EventSourced[string, E, string, string]{
		Type:   "Person",
		Events: c,
		Init:   func(string) string { return "" },
		Decide: func(_, name string) ([]E, error) { return []E{event(name)}, nil },
		Evolve: func(_ string, e E) string { return name(e) },
		Reply:  func(name, _ string, _ []E) string { return name },
	}, entity.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, name string) (string, error) { return rt.Ask(ctx, "a", name) }
}

// While a release is rolled out, the one before it runs beside it on the same entity. With an intermediate release, which reads the new version of
// an event and writes the old one, each reads what the other writes. Without it the old release fails.
func TestRolloutOfAnEvent(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), memstore.New()
	newV1, nameV1 := func(name string) namedV1 { return namedV1{name} }, func(e namedV1) string { return e.Name }
	old := release(t, s, codec.JSON[namedV1]("named"), newV1, nameV1)
	both := release(t, s, codec.JSON("named", codec.Was(codec.JSON[namedV2]("named#2"), lower)), newV1, nameV1)
	latest := release(t, s, codec.JSON("named#2", codec.Was(codec.JSON[namedV1]("named"), lift)),
		func(name string) namedV2 { return namedV2{First: name} }, func(e namedV2) string { return e.First })
	for _, rollout := range [][]naming{{old, both}, {both, latest}} {
		for range 10 {
			for _, ask := range rollout {
				if name, err := ask(ctx, "Ada"); err != nil || name != "Ada" {
					t.Fatalf("%q, %v", name, err)
				}
			}
		}
	}
	if _, err := old(ctx, "Ada"); !errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("the old release reads the new version: %v", err)
	}
}
