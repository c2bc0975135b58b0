package entity_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
)

// journaled is account with a state that Evolve changes in place, and snapshots.
type total struct{ Sum int }

func journaled(every int) behavior.EventSourced[int, int, *total, int] {
	return behavior.EventSourced[int, int, *total, int]{
		Type: "Account",
		Init: func(string) *total { return &total{} },
		Decide: func(_ *total, amount int) ([]int, error) {
			if amount == 0 {
				return nil, nil
			}
			return []int{amount}, nil
		},
		Evolve:        func(s *total, amount int) *total { s.Sum += amount; return s },
		Reply:         func(s *total, _ int, _ []int) int { return s.Sum },
		Events:        codec.JSON[int]("moved"),
		States:        codec.JSON[*total]("total"),
		SnapshotEvery: every,
	}
}

// latest is the newest snapshot's number and its state.
func latest(t *testing.T, s annals.Store) (annals.SeqNr, int) {
	t.Helper()
	snap, ok, err := s.Snapshots().Latest(t.Context(), "Account|a", annals.SnapshotCriteria{})
	if err != nil || !ok {
		return 0, 0
	}
	state, err := codec.JSON[*total]("total").Decode(snap.Payload)
	if err != nil {
		t.Fatal(err)
	}
	return snap.SeqNr, state.Sum
}

// A snapshot has the state after an acknowledged write, however far the entity has got since.
func TestSnapshotIsOfAnAcknowledgedWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		g := gated(s)
		rt, _ := entity.New(s, journaled(2), entity.Options{})
		first := ask(t.Context(), rt, 1)
		synctest.Wait()
		second, third := ask(t.Context(), rt, 1), ask(t.Context(), rt, 1)
		synctest.Wait()
		g.pass()
		last := ask(t.Context(), rt, 100) // changes the state while the write with the snapshot is in flight
		synctest.Wait()
		if n, _ := latest(t, s); n != 0 {
			t.Errorf("snapshot %d before its events were acknowledged", n)
		}
		g.pass()
		if n, sum := latest(t, s); n != 3 || sum != 3 {
			t.Errorf("snapshot %d has %d, want 3 and 3", n, sum)
		}
		g.pass()
		answered(t, first, 1, nil)
		for _, ch := range []<-chan answer{second, third} {
			if a := <-ch; a.err != nil {
				t.Error(a.err)
			}
		}
		answered(t, last, 103, nil)
	})
}

// Guards the same for a write that fails.
func TestNoSnapshotOfAFailedWrite(t *testing.T) {
	t.Parallel()
	s := newHooked()
	s.write = func(context.Context, written, func() error) error {
		return &annals.Error{Op: "test", Kind: annals.ErrFenced}
	}
	s.save = func(context.Context, annals.Snapshot, func() error) error {
		t.Error("a snapshot was saved")
		return nil
	}
	rt, _ := entity.New(s, journaled(1), entity.Options{})
	if _, err := rt.Ask(t.Context(), "a", 1); !errors.Is(err, annals.ErrFenced) {
		t.Error(err)
	}
	if err := rt.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// A snapshot that cannot be encoded or saved is reported, and fails no command.
func TestFailedSnapshotFailsNoCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		s := newHooked()
		s.save = func(context.Context, annals.Snapshot, func() error) error { return errors.New("disk full") }
		s.deleteTo = func(annals.PersistenceID, annals.SeqNr) { t.Error("events were deleted without a snapshot") }
		rt, _ := entity.New(s, journaled(1), entity.Options{DeleteEvents: true, Logger: logger})
		for i := range 5 {
			mustAsk(t, rt, 1, i+1)
			synctest.Wait()
		}
		if !bytes.Contains(log.Bytes(), []byte("disk full")) {
			t.Errorf("not reported: %s", log.String())
		}
		b := journaled(1)
		b.States = codec.Of(31, "total", func(*total) ([]byte, error) { panic("sprung") }, func([]byte) (*total, error) { return nil, nil })
		rt, _ = entity.New(s, b, entity.Options{Logger: logger})
		mustAsk(t, rt, 1, 6)
		if !bytes.Contains(log.Bytes(), []byte("sprung")) {
			t.Errorf("not reported: %s", log.String())
		}
	})
}

// Snapshots are saved one at a time, while commands go on.
func TestSlowSnapshotBlocksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		release := make(chan struct{})
		var saving, saved atomic.Int64
		s.save = func(_ context.Context, _ annals.Snapshot, next func() error) error {
			if saving.Add(1) > 1 {
				t.Error("two snapshots at once")
			}
			defer saving.Add(-1)
			<-release
			saved.Add(1)
			return next()
		}
		rt, _ := entity.New(s, journaled(1), entity.Options{})
		for i := range 5 {
			mustAsk(t, rt, 1, i+1)
		}
		close(release)
		synctest.Wait()
		mustAsk(t, rt, 1, 6)
		synctest.Wait()
		if n, sum := latest(t, s); n != 6 || sum != 6 || saved.Load() != 2 {
			t.Errorf("snapshot %d has %d after %d saves, want 6, 6, 2", n, sum, saved.Load())
		}
		if err := rt.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The newest snapshots are kept. Events are deleted after the save, up to the oldest snapshot that is kept.
func TestRetention(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o         entity.Options
		one       bool // the store keeps one snapshot
		snapshots []annals.SeqNr
		first     annals.SeqNr // event
	}{
		"newest":      {entity.Options{}, false, []annals.SeqNr{9}, 1},
		"two":         {entity.Options{KeepSnapshots: 2}, false, []annals.SeqNr{6, 9}, 1},
		"events":      {entity.Options{DeleteEvents: true}, false, []annals.SeqNr{9}, 10},
		"two, events": {entity.Options{KeepSnapshots: 2, DeleteEvents: true}, false, []annals.SeqNr{6, 9}, 7},
		"store keeps": {entity.Options{DeleteEvents: true}, true, []annals.SeqNr{3, 6, 9}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newHooked()
				s.caps.ManySnapshots = !c.one
				s.deleteTo = func(_ annals.PersistenceID, to annals.SeqNr) {
					if n, _ := latest(t, s); n < to {
						t.Errorf("events deleted to %d, the newest snapshot is %d", to, n)
					}
				}
				rt, _ := entity.New(s, journaled(3), c.o)
				for i := range 10 {
					mustAsk(t, rt, 1, i+1)
					synctest.Wait()
				}
				var left []annals.SeqNr
				for n := annals.SeqNr(1); n <= 10; n++ {
					if _, ok, err := s.Snapshots().Latest(t.Context(), "Account|a", annals.SnapshotCriteria{MinSeqNr: n, MaxSeqNr: n}); ok || err != nil {
						left = append(left, n)
					}
				}
				if !slices.Equal(left, c.snapshots) {
					t.Errorf("snapshots %v left, want %v", left, c.snapshots)
				}
				for e, err := range s.Journal().Replay(t.Context(), "Account|a", 1, annals.MaxSeqNr) {
					if e.SeqNr != c.first || err != nil {
						t.Errorf("first event %d, %v, want %d", e.SeqNr, err, c.first)
					}
					break
				}
				rt, _ = entity.New(s, journaled(3), c.o)
				mustAsk(t, rt, 1, 11)
			})
		})
	}
}

// On stores that require a snapshot with the first commit, the first commit has one.
func TestFirstCommitCarriesASnapshotWhereItMust(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newHooked()
		s.caps.Limits.FirstSnapshot = true
		var commits []annals.Commit
		s.write = func(_ context.Context, w written, next func() error) error {
			commits = append(commits, w.commit)
			return next()
		}
		rt, _ := entity.New(s, journaled(0), entity.Options{})
		s.read = func(context.Context, annals.PersistenceID) error { synctest.Wait(); return nil }
		one, two := ask(t.Context(), rt, 1), ask(t.Context(), rt, 1)
		if a, b := <-one, <-two; a.err != nil || b.err != nil || a.reply+b.reply != 3 {
			t.Errorf("answered %v and %v", a, b)
		}
		if len(commits) != 2 || commits[0].Snapshot == nil || commits[0].Snapshot.SeqNr != 1 || commits[1].Snapshot != nil {
			t.Errorf("commits %+v, want two, the first with a snapshot of its event", commits)
		}
	})
}
