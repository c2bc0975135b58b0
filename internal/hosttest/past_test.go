package hosttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/memstore"
)

func TestPast(t *testing.T) {
	t.Parallel()
	Past(t, memstore.New())
}

// mutantLoader is a host whose past is changed.
type mutantLoader struct {
	loader
	at   func(l loader, id string, n annals.SeqNr) ([]int, annals.SeqNr, error)
	asOf func(t time.Time) time.Time
}

func (m mutantLoader) LoadAt(ctx context.Context, id string, n annals.SeqNr) ([]int, annals.SeqNr, error) {
	if m.at != nil {
		return m.at(m.loader, id, n)
	}
	return m.loader.LoadAt(ctx, id, n)
}

func (m mutantLoader) LoadAsOf(ctx context.Context, id string, t time.Time) ([]int, annals.SeqNr, error) {
	if m.asOf != nil {
		t = m.asOf(t)
	}
	return m.loader.LoadAsOf(ctx, id, t)
}

func TestPastFindsMutants(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, m := range map[string]mutantLoader{
		"has the newest state at any number": {at: func(l loader, id string, _ annals.SeqNr) ([]int, annals.SeqNr, error) { return l.Load(ctx, id) }},
		"has no state where one is deleted": {at: func(l loader, id string, n annals.SeqNr) ([]int, annals.SeqNr, error) {
			state, at, err := l.LoadAt(ctx, id, n)
			if errors.Is(err, annals.ErrTruncated) {
				return nil, 0, nil
			}
			return state, at, err
		}},
		"leaves out what was stored at the time": {asOf: func(t time.Time) time.Time { return t.Add(-time.Microsecond) }},
	} {
		found := false
		for r := range random.Rounds(t, 30) {
			if found = past(ctx, memstore.New(), r, func(l loader) loader { return mutantLoader{l, m.at, m.asOf} }) != nil; found {
				break
			}
		}
		if !found {
			t.Errorf("a host that %s is not found", name)
		}
	}
}
