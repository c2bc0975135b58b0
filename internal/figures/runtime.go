package main

import (
	"context"
	"runtime"
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

// runtimeFigures are what entity.Runtime costs, and what its batches gain.
func runtimeFigures() []Figure {
	return []Figure{
		{Name: "hot-entity-256", Goal: AtLeast(50), Run: hotEntity,
			About: "commands a second of 256 callers to one entity on a store that takes 5 ms for a write, over the same with MaxBatch 1"},
		{Name: "runtime-overhead", Goal: AtMost(6), Run: runtimeOverhead,
			About: "time of an Ask with SingleOwner on memstore above a bare Append, over one request and its reply between two goroutines on unbuffered channels"},
		{Name: "runtime-overhead-telemetry", Goal: AtMost(1.5), Run: runtimeOverheadTelemetry,
			About: "processor time of an Ask with SingleOwner on memstore above a bare Append, with the module otel on runtime and store, with all metrics and in requests of which a hundredth is traced, over the same without it"},
		{Name: "telemetry-above-sdk", Goal: AtMost(1.4), Run: telemetryAboveSDK,
			About: "processor time of the module otel for an operation of a host in a request that is not traced, over that of the OpenTelemetry SDK to record its duration, which is a part of it"},
		{Name: "runtime-overhead-allocs", Goal: AtMost(10), Run: runtimeAllocs,
			About: "allocations of an Ask on memstore above those of a bare Append"},
		{Name: "runtime-memory", Goal: AtMost(1000), Run: runtimeMemory,
			About: "bytes in memory for an idle entity that has a number as its state and has written once, of 100,000 such entities"},
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
	return askers(ctx, slowStore{memstore.New(), 5 * time.Millisecond}, counter, 256, 300*time.Millisecond, entity.Options{}, entity.Options{MaxBatch: 1})
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
	ask, write := func() error { return o.ask(ctx) }, func() error { return o.append(ctx) }
	exchange := func() error {
		requests <- 1
		<-replies
		return nil
	}
	took, err := medians(turns, clock, times(each, ask), times(each, write), times(each, exchange))
	if err != nil {
		return 0, err
	}
	return (took[0] - took[1]) / took[2], o.rt.Shutdown(ctx)
}

func runtimeAllocs(ctx context.Context) (float64, error) {
	o, err := newOverhead(nil)
	if err != nil {
		return 0, err
	}
	const calls = 10_000
	made, err := medians(1, allocations, times(calls, func() error { return o.ask(ctx) }), times(calls, func() error { return o.append(ctx) }))
	if err != nil {
		return 0, err
	}
	return (made[0] - made[1]) / calls, o.rt.Shutdown(ctx)
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
