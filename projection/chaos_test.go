package projection_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// process is the store of a read model as one process has it: some requests are not executed, the answers of others are lost, and none is
// executed any more when the process was killed.
type process struct {
	faulty.TxStore[memstore.Tx]
	killed atomic.Bool
}

func newProcess(model *memstore.Store, faults bool) *process {
	p := &process{}
	p.TxStore = faulty.NewTx(model, func(_ context.Context, c *faulty.Call, run func() error) error {
		if c.InTx {
			return run()
		}
		roll := 100
		if faults {
			roll = rand.IntN(100)
		}
		if p.killed.Load() || roll < 3 {
			return faulty.Failed(c)
		}
		err := run()
		if err == nil && (p.killed.Load() || roll < 6) {
			return faulty.Lost(c)
		}
		return err
	})
	return p
}

// Events become visible late, in another order than that of their times, which step back and are often equal. Requests fail, answers are
// lost, and three processes that share the projection are killed again and again. Each event is handled once, those of an entity in order.
func TestProjectionUnderFaults(t *testing.T) {
	t.Parallel()
	seeds := uint64(12)
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { underFaults(t, seed) })
		})
	}
}

func underFaults(t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	grain := []time.Duration{time.Microsecond, time.Millisecond, 100 * time.Millisecond}[seed%3]
	events := late.New(late.Options{Seed: seed, Lateness: time.Second, Skew: 200 * time.Millisecond, Grain: grain, Fixed: seed%2 == 0, Fault: func(op string) error {
		if rand.IntN(300) == 0 {
			return &annals.Error{Op: op, Kind: annals.ErrUnavailable}
		}
		return nil
	}})
	model := memstore.New()
	handle := func(_ context.Context, tx memstore.Tx, e envelope) error {
		last, _ := tx.Value(string(e.ID)).(annals.SeqNr)
		if e.SeqNr != last+1 {
			t.Errorf("%s: handled %d after %d", e.ID, e.SeqNr, last)
		}
		tx.SetValue(string(e.ID), e.SeqNr)
		if rand.IntN(200) == 0 {
			return errBroken
		}
		return nil
	}
	runner := func(p *process) *Runner {
		return must(t)(ExactlyOnce("p", Source[int]{Store: events, Type: "T", Codec: numbers}, p, handle,
			Options{Ranges: 8, BatchSize: 7, Lease: 2 * time.Second, Poll: 200 * time.Millisecond, Logger: silent}))
	}
	ctx, end := context.WithCancel(t.Context())
	var processes sync.WaitGroup
	for range 3 {
		processes.Go(func() {
			for ctx.Err() == nil {
				p := newProcess(model, true)
				living, kill := context.WithCancel(ctx)
				time.AfterFunc(time.Duration(rand.IntN(10_000))*time.Millisecond, func() {
					p.killed.Store(rand.IntN(2) == 0) // otherwise the process ends in good order
					kill()
				})
				if err := runner(p).Run(living); err != nil {
					t.Error(err)
				}
				kill()
			}
		})
	}
	numbersOf := map[annals.PersistenceID]annals.SeqNr{}
	for range 1500 {
		id := annals.NewPersistenceID("T", fmt.Sprint(random.IntN(40)))
		c := annals.Commit{ID: id, After: numbersOf[id]}
		for range 1 + random.IntN(3) {
			payload, err := numbers.Encode(1)
			if err != nil {
				t.Fatal(err)
			}
			c.Events = append(c.Events, annals.NewEvent{Payload: payload})
		}
		r, err := events.Journal().Append(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		numbersOf[id] = r.SeqNr
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
	}
	time.Sleep(10 * time.Second) // all events are visible
	end()
	processes.Wait()
	catchUp(t, runner(newProcess(model, false)))
	for id, last := range numbersOf {
		if got, _ := model.Value(string(id)).(annals.SeqNr); got != last {
			t.Errorf("%s: handled up to %d of %d", id, got, last)
		}
	}
}
