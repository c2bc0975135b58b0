package projection_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

func TestRebuild(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source := memstore.New()
		old := inMemory(memstore.New())
		var next counter
		add(t, source, 1, 20, 5)
		running(t, must(t)(old.once("p", source, nil, Options{Logger: silent})))
		stop := make(chan bool)
		writer := async(func() error {
			for {
				select {
				case <-stop:
					return nil
				case <-time.After(time.Second):
					add(t, source, 1, 3, 1)
				}
			}
		})
		time.Sleep(10 * time.Second)
		var progress []Status
		rebuild := Rebuild{
			Old:      NewControl(old.store, "p"),
			Next:     next.runner(t, "p2", source, memstore.New(), func() { time.Sleep(100 * time.Millisecond) }),
			Progress: func(s Status) { progress = append(progress, s) },
		}
		failed := errors.New("failed")
		rebuild.SwitchOver = func(context.Context) error { return failed }
		if err := rebuild.Run(t.Context()); !errors.Is(err, failed) {
			t.Fatal(err)
		}
		if status(t, rebuild.Old, source).Paused {
			t.Error("the old projection is paused after a failure")
		}
		if len(progress) == 0 || progress[0].Name != "p2" || progress[0].Lag == 0 {
			t.Errorf("progress: %+v", progress)
		}
		time.Sleep(10 * time.Second)
		switched := 0
		rebuild.SwitchOver = func(context.Context) error {
			switched++
			if !status(t, rebuild.Old, source).Paused {
				t.Error("the old projection is running")
			}
			before, after := old.count(t), next.count()
			for e := range before {
				if after[e] != 1 {
					t.Errorf("the new read model has handled %s %d times", e, after[e])
				}
			}
			if len(before) < 100 {
				t.Errorf("the old read model has %d events", len(before))
			}
			return nil
		}
		if err := rebuild.Run(t.Context()); err != nil || switched != 1 {
			t.Fatal(switched, err)
		}
		if !status(t, rebuild.Old, source).Paused {
			t.Error("the old projection is running")
		}
		running(t, rebuild.Next)
		close(stop)
		if err := <-writer; err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Second)
		for e, err := range source.Query().Events(t.Context(), annals.Filter{}) {
			if k := key(envelope{Event: e}); err != nil || next.count()[k] != 1 {
				t.Errorf("%s was handled %d times, %v", k, next.count()[k], err)
			}
		}
	})
}

func TestFaultsOfRebuild(t *testing.T) {
	t.Parallel()
	in := inMemory(memstore.New())
	next := must(t)(in.once("p", in.store, nil, Options{Logger: silent}))
	nothing := func(context.Context) error { return nil }
	for _, r := range []Rebuild{
		{}, {Old: NewControl(in.store, "p"), Next: next, SwitchOver: nothing}, {Old: NewControl(in.store, "q"), Next: next}, {Next: next, SwitchOver: nothing},
	} {
		if err := r.Run(t.Context()); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	// The old projection has never run: nothing is switched over.
	switched := false
	r := Rebuild{Old: NewControl(in.store, "q"), Next: next, SwitchOver: func(context.Context) error { switched = true; return nil }}
	if err := r.Run(t.Context()); !errors.Is(err, annals.ErrInvalid) || switched {
		t.Errorf("Run returned %v", err)
	}
}

// A Progress that panics ends Run as any failure does, and nothing runs afterwards.
func TestRebuildWhoseProgressPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		source, old := memstore.New(), inMemory(memstore.New())
		add(t, source, 1, 20, 5)
		catchUp(t, must(t)(old.once("p", source, nil, Options{})))
		var next counter
		rebuild := Rebuild{
			Old: NewControl(old.store, "p"), Next: next.runner(t, "p2", source, memstore.New(), func() { time.Sleep(time.Second) }),
			SwitchOver: func(context.Context) error { return nil }, Progress: func(Status) { panic("of the test") },
		}
		if err := rebuild.Run(t.Context()); !errors.Is(err, annals.ErrPanic) {
			t.Error(err)
		}
		if runners, _, err := Holders(t.Context(), rebuild.Next.Control().Store(), "p2"); runners > 0 || err != nil {
			t.Errorf("%d runners are left, %v", runners, err)
		}
		if status(t, rebuild.Old, source).Paused {
			t.Error("the old projection is paused")
		}
	})
}
