package hosttest

import (
	"context"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	Retention(t, memstore.New())
}

// Each mutant breaks what the hosts ask of a store before they delete events.
func TestRetentionFindsMutants(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]annals.Store{
		"deletes do nothing":                      noDeletes{memstore.New()},
		"a projection has the offsets of another": sharedOffsets{memstore.New()},
		"all events are handled":                  allHandled{memstore.New()},
		"no event is handled":                     noneHandled{memstore.New()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for host := range deleters {
				if retention(t.Context(), s, host) == nil {
					t.Errorf("it is not found with the host %s", host)
				}
			}
		})
	}
}

type sharedOffsets struct{ annals.Store }

func (s sharedOffsets) Offsets() annals.OffsetStore { return ofOneProjection{s.Store.Offsets()} }

type ofOneProjection struct{ annals.OffsetStore }

func (o ofOneProjection) Save(ctx context.Context, p annals.Progress) error {
	p.Projection = "any"
	return o.OffsetStore.Save(ctx, p)
}

func (o ofOneProjection) Handled(ctx context.Context, _ string, ids ...annals.PersistenceID) ([]annals.Offset, error) {
	return o.OffsetStore.Handled(ctx, "any", ids...)
}

type allHandled struct{ annals.Store }

func (s allHandled) Offsets() annals.OffsetStore {
	return handledTo{s.Store.Offsets(), annals.MaxSeqNr}
}

type noneHandled struct{ annals.Store }

func (s noneHandled) Offsets() annals.OffsetStore { return handledTo{s.Store.Offsets(), 0} }

type handledTo struct {
	annals.OffsetStore
	n annals.SeqNr
}

func (o handledTo) Handled(_ context.Context, _ string, ids ...annals.PersistenceID) ([]annals.Offset, error) {
	return []annals.Offset{{ID: ids[0], SeqNr: o.n}}, nil
}
