package lease_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/servers/stores"
	"github.com/annals-go/annals/lease"
)

func TestMain(m *testing.M) { stores.Main(m, play) }

// worked is an event of an entity that the processes of these tests write to, each while it has the lease.
type worked struct {
	Pid   int
	Fence annals.SeqNr
}

const work annals.PersistenceID = "Work|1"

var events = codec.JSON[worked]("worked")

// since returns the events of work after number after.
func since(ctx context.Context, s annals.Store, after annals.SeqNr) (all []worked, err error) {
	for e, err := range s.Journal().Replay(ctx, work, after+1, annals.MaxSeqNr) {
		if err != nil {
			return nil, err
		}
		w, err := events.Decode(e.Payload)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// play writes events until one of them has a higher fence.
func play(ctx context.Context, s annals.Store) error {
	return lease.Run(ctx, s, "work", lease.Options{Lease: 300 * time.Millisecond}, func(ctx context.Context, fence annals.SeqNr) error {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for n := annals.SeqNr(0); ; {
			others, err := since(ctx, s, n)
			for _, w := range others {
				if n++; w.Fence > fence {
					return nil
				}
			}
			if err == nil {
				p, failed := events.Encode(worked{os.Getpid(), fence})
				if failed != nil {
					return failed
				}
				_, err = s.Journal().Append(ctx, annals.Commit{ID: work, After: n, Events: []annals.NewEvent{{Payload: p}}})
			}
			if err != nil && ctx.Err() == nil && !annals.SafeToRetry(err) && !errors.Is(err, annals.ErrConflict) {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
}

// Of two processes on one store one works. When it is killed, the other one goes on, with a higher fence.
func TestUnderKill(t *testing.T) {
	t.Parallel()
	for name, address := range stores.New {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			underKill(t, address(t))
		})
	}
}

func underKill(t *testing.T, address string) {
	s := stores.Open(t, address)
	kills := map[int]func(){}
	start := func() {
		pid, kill := stores.Start(t, address)
		kills[pid] = kill
	}
	start()
	start()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for fence, round := annals.SeqNr(0), 0; round < 3; round++ {
		var last worked
		// One that was killed may have got a higher fence after the look that came before its end.
		for end := time.Now().Add(time.Minute); last.Fence <= fence || kills[last.Pid] == nil; <-look.C {
			all, err := since(t.Context(), s, 0)
			if err != nil || time.Now().After(end) {
				t.Fatalf("nobody works after fence %d: %v", fence, err)
			}
			if len(all) > 0 {
				last = all[len(all)-1]
			}
		}
		kills[last.Pid]()
		delete(kills, last.Pid)
		fence = last.Fence
		start()
	}
	all, err := since(t.Context(), s, 0)
	if err != nil {
		t.Fatal(err)
	}
	pids, last := map[annals.SeqNr]int{}, annals.SeqNr(0)
	for i, w := range all {
		if pid := pids[w.Fence]; pid != 0 && pid != w.Pid || w.Fence < last {
			t.Errorf("event %d: process %d has written with fence %d, after fence %d and process %d", i+1, w.Pid, w.Fence, last, pid)
		}
		pids[w.Fence], last = w.Pid, w.Fence
	}
}
