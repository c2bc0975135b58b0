package main

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// runtimeFigures are what entity.Runtime costs, and what its batches gain.
func runtimeFigures() []Figure {
	return []Figure{
		{
			Name:  "hot-entity-256",
			About: "commands a second of 256 callers to one entity on a store that takes 5 ms for a write, over the same with MaxBatch 1",
			Goal:  AtLeast(50),
			Run:   hotEntity,
		},
		{
			Name:  "runtime-overhead",
			About: "time of an Ask with SingleOwner on memstore above a bare Append, over one request and its reply between two goroutines on unbuffered channels",
			Goal:  AtMost(6),
			Run:   runtimeOverhead,
		},
		{
			Name:  "runtime-overhead-telemetry",
			About: "processor time of an Ask with SingleOwner on memstore above a bare Append, with the module otel on runtime and store, with all metrics and in requests of which a hundredth is traced, over the same without it",
			Goal:  AtMost(1.5),
			Run:   runtimeOverheadTelemetry,
		},
		{
			Name:  "telemetry-above-sdk",
			About: "processor time of the module otel for an operation of a host in a request that is not traced, over that of the OpenTelemetry SDK to record its duration, which is a part of it",
			Goal:  AtMost(1.4),
			Run:   telemetryAboveSDK,
		},
		{
			Name:  "runtime-overhead-allocs",
			About: "allocations of an Ask on memstore above those of a bare Append",
			Goal:  AtMost(10),
			Run:   runtimeAllocs,
		},
		{
			Name:  "runtime-memory",
			About: "bytes in memory for an idle entity that has a number as its state and has written once, of 100,000 such entities",
			Goal:  AtMost(1000),
			Run:   runtimeMemory,
		},
	}
}

var counter = behavior.EventSourced[int, int, int, int]{
	Type:   "Counter",
	Decide: func(_, add int) ([]int, error) { return []int{add}, nil },
	Evolve: func(total, added int) int { return total + added },
	Reply:  func(total, _ int, _ []int) int { return total },
}

// slowStore delays every Append.
type slowStore struct {
	annals.Store
	latency time.Duration
}

func (s slowStore) Journal() annals.Journal { return slowJournal{s.Store.Journal(), s.latency} }

type slowJournal struct {
	annals.Journal
	latency time.Duration
}

func (j slowJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	time.Sleep(j.latency)
	return j.Journal.Append(ctx, c)
}

func hotEntity(ctx context.Context) (float64, error) {
	const callers, turns = 256, 4
	var batched, single perSecond
	for range turns {
		if err := batched.add(ctx, entity.Options{}, callers, 40*callers); err != nil {
			return 0, err
		}
		if err := single.add(ctx, entity.Options{MaxBatch: 1}, callers, callers/4); err != nil {
			return 0, err
		}
	}
	return batched.rate() / single.rate(), nil
}

// perSecond counts commands and the time they took.
type perSecond struct {
	commands int
	took     time.Duration
}

func (p *perSecond) rate() float64 { return float64(p.commands) / p.took.Seconds() }

// add lets callers send that many commands in total to one entity of a new runtime.
func (p *perSecond) add(ctx context.Context, o entity.Options, callers, commands int) error {
	rt, err := entity.New(slowStore{memstore.New(), 5 * time.Millisecond}, counter, o)
	if err != nil {
		return err
	}
	if _, err := rt.Ask(ctx, "hot", 1); err != nil { // so that the recovery is not measured
		return err
	}
	todo := make(chan struct{}, commands)
	for range commands {
		todo <- struct{}{}
	}
	close(todo)
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
	)
	began := time.Now()
	for range callers {
		wg.Go(func() {
			for range todo {
				if _, err := rt.Ask(ctx, "hot", 1); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	p.took += time.Since(began)
	p.commands += commands
	return errors.Join(failed, rt.Shutdown(ctx))
}

// overhead compares a caller that sends commands to an entity with one that appends the same events.
type overhead struct {
	rt      *entity.Runtime[int, int, int]
	journal annals.Journal
	events  []annals.NewEvent
	last    annals.SeqNr
}

// newOverhead returns an overhead whose runtime and stores have an Observer, which may be nil.
func newOverhead(observer annals.Observer) (*overhead, error) {
	asked, err := memstore.Open(memstore.Options{Observer: observer})
	if err != nil {
		return nil, err
	}
	appended, err := memstore.Open(memstore.Options{Observer: observer})
	if err != nil {
		return nil, err
	}
	rt, err := entity.New(asked, counter, entity.Options{SingleOwner: true, Observer: observer})
	if err != nil {
		return nil, err
	}
	p := annals.Payload{SerializerID: 31, Manifest: counter.Type, Data: []byte("1")}
	return &overhead{rt: rt, journal: appended.Journal(), events: []annals.NewEvent{{Payload: p}}}, nil
}

func (o *overhead) ask(ctx context.Context) error {
	_, err := o.rt.Ask(ctx, "one", 1)
	return err
}

func (o *overhead) append(ctx context.Context) error {
	r, err := o.journal.Append(ctx, annals.Commit{ID: "Counter|one", After: o.last, Events: o.events})
	o.last = r.SeqNr
	return err
}

func runtimeOverhead(ctx context.Context) (float64, error) {
	const turns, each = 40, 1000
	o, err := newOverhead(nil)
	if err != nil {
		return 0, err
	}
	requests, replies := make(chan int), make(chan int)
	go func() {
		for n := range requests {
			replies <- n
		}
	}()
	defer close(requests)
	exchange := func(context.Context) error {
		requests <- 1
		<-replies
		return nil
	}
	var asks, appends, exchanges time.Duration
	for range turns {
		for _, side := range []struct {
			run  func(context.Context) error
			took *time.Duration
		}{{o.ask, &asks}, {o.append, &appends}, {exchange, &exchanges}} {
			began := time.Now()
			for range each {
				if err := side.run(ctx); err != nil {
					return 0, err
				}
			}
			*side.took += time.Since(began)
		}
	}
	return float64(asks-appends) / float64(exchanges), o.rt.Shutdown(ctx)
}

func runtimeAllocs(ctx context.Context) (float64, error) {
	o, err := newOverhead(nil)
	if err != nil {
		return 0, err
	}
	asks, err := allocs(ctx, o.ask)
	if err != nil {
		return 0, err
	}
	appends, err := allocs(ctx, o.append)
	if err != nil {
		return 0, err
	}
	return asks - appends, o.rt.Shutdown(ctx)
}

// allocs is how many allocations one call of fn makes, on all goroutines.
func allocs(ctx context.Context, fn func(context.Context) error) (float64, error) {
	const calls = 10_000
	if err := fn(ctx); err != nil {
		return 0, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		if err := fn(ctx); err != nil {
			return 0, err
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / calls, nil
}

// discard is a store that acknowledges events and keeps none, so that only the runtime needs memory.
type discard struct{ annals.Store }

func (s discard) Journal() annals.Journal { return discardJournal{s.Store.Journal()} }

type discardJournal struct{ annals.Journal }

func (discardJournal) Append(_ context.Context, c annals.Commit) (annals.Receipt, error) {
	return annals.Receipt{SeqNr: c.After + annals.SeqNr(len(c.Events))}, nil
}

func runtimeMemory(ctx context.Context) (float64, error) {
	const entities = 100_000
	rt, err := entity.New(discard{memstore.New()}, counter, entity.Options{MaxEntities: entities, IdleAfter: time.Hour})
	if err != nil {
		return 0, err
	}
	before := inUse()
	for i := range entities {
		if _, err := rt.Ask(ctx, strconv.Itoa(i), 1); err != nil {
			return 0, err
		}
	}
	return float64(inUse()-before) / entities, rt.Shutdown(ctx)
}

// inUse is the memory in use after a garbage collection, which frees what sync.Pools hold in its second cycle.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
