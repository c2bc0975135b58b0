package hosttest

import (
	"context"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
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
		"deletes do nothing":                      around(memstore.New(), noDeletes),
		"a projection has the offsets of another": sharedOffsets{memstore.New()},
		"all events are handled":                  around(memstore.New(), handledTo(annals.MaxSeqNr)),
		"no event is handled":                     around(memstore.New(), handledTo(0)),
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

// handledTo has projections that have handled everything up to number n.
func handledTo(n annals.SeqNr) faulty.Around {
	return func(_ context.Context, c *faulty.Call, run func() error) error {
		if all, ok := c.Result.(*[]annals.Offset); ok {
			*all = []annals.Offset{{ID: c.ID, SeqNr: n}}
			return nil
		}
		return run()
	}
}
