package entity_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
)

// A snapshot that cannot be decoded is not saved, and no events are deleted for it.
func TestUnreadableSnapshotIsNotSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		s.save = func(context.Context, annals.Snapshot, func() error) error { t.Error("saved"); return nil }
		s.deleteTo = func(annals.PersistenceID, annals.SeqNr) { t.Error("deleted") }
		b := journaled(1)
		json := codec.JSON[*total]("total")
		b.States = codec.Of(31, "total", func(s *total) ([]byte, error) { p, err := json.Encode(s); return p.Data, err },
			func([]byte) (*total, error) { return nil, codec.Fault("lost") })
		var log bytes.Buffer
		rt, _ := entity.New(s, b, entity.Options{DeleteEvents: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		mustAsk(t, rt, 1, 1)
		synctest.Wait()
		if !strings.Contains(log.String(), "lost") {
			t.Errorf("not reported: %s", log.String())
		}
	})
}

// Events stay when the snapshot that covers them cannot be read back from the store.
func TestDamagedSnapshotDeletesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		s.save = func(ctx context.Context, snap annals.Snapshot, _ func() error) error {
			snap.Data = snap.Data[:len(snap.Data)-1]
			return s.mem.Snapshots().Save(ctx, snap)
		}
		s.deleteTo = func(annals.PersistenceID, annals.SeqNr) { t.Error("deleted") }
		var log bytes.Buffer
		rt, _ := entity.New(s, journaled(1), entity.Options{DeleteEvents: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		mustAsk(t, rt, 1, 1)
		synctest.Wait()
		if !strings.Contains(log.String(), "broken JSON") {
			t.Errorf("not reported: %s", log.String())
		}
	})
}

// Faults of the options that delete.
func TestRetentionFaults(t *testing.T) {
	t.Parallel()
	s := newHooked()
	_, err := entity.New(s, journaled(1), entity.Options{Projections: []string{"list"}})
	if !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), "without DeleteEvents") {
		t.Errorf("projections that hold up nothing: %v", err)
	}
	_, err = entity.New(s, journaled(1), entity.Options{DeleteEvents: true, Projections: []string{""}})
	if !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("a projection without a name: %v", err)
	}
	s.caps.Offsets = false
	_, err = entity.New(s, journaled(1), entity.Options{DeleteEvents: true, Projections: []string{"list"}})
	if !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("a store without offsets: %v", err)
	}
}

// named knows the id of its entity, which is not part of what is stored.
type named struct {
	id  string
	Sum int
}

// Guards Restore after a snapshot and after a stored state.
func TestRestore(t *testing.T) {
	t.Parallel()
	restore := func(id string, n named) named { n.id = id; return n }
	sourced := behavior.EventSourced[int, int, named, string]{
		Type: "Named", Init: func(id string) named { return named{id: id} }, Restore: restore, SnapshotEvery: 1,
		Decide: func(_ named, n int) ([]int, error) { return []int{n}, nil },
		Evolve: func(s named, n int) named { s.Sum += n; return s },
		Reply:  func(s named, _ int, _ []int) string { return s.id },
	}
	durable := behavior.DurableState[int, named, string]{
		Type: "Named", Init: func(id string) named { return named{id: id} }, Restore: restore,
		Decide: func(s named, n int) (behavior.Effect[named], error) { s.Sum += n; return behavior.Save(s), nil },
		Reply:  func(s named, _ int) string { return s.id },
	}
	for name, start := range map[string]func(s annals.Store) (*entity.Runtime[int, named, string], error){
		"snapshot": func(s annals.Store) (*entity.Runtime[int, named, string], error) {
			return entity.New(s, sourced, entity.Options{})
		},
		"state": func(s annals.Store) (*entity.Runtime[int, named, string], error) {
			return entity.NewState(s, durable, entity.Options{})
		},
	} {
		s := newHooked()
		for range 2 {
			rt, err := start(s)
			if err != nil {
				t.Fatal(err)
			}
			if id, err := rt.Ask(t.Context(), "a", 1); id != "a" || err != nil {
				t.Errorf("%s: the id is %q, %v", name, id, err)
			}
			if err := rt.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
