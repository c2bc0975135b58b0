package annalsotel_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/entity"
	annalsotel "github.com/annals-go/annals/otel"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/query"
	"github.com/annals-go/annals/sqlitestore"
)

// request is the program's own metadata.
type request struct{ User string }

var (
	requests = codec.JSON[request]("request")
	added    = codec.JSON[int]("added")
	errPoor  = errors.New("not enough")
	silent   = slog.New(slog.DiscardHandler)
)

// counter adds up, and refuses to go below zero.
var counter = behavior.EventSourced[int, int, int, int]{
	Type: "Counter",
	Decide: func(total, add int) ([]int, error) {
		if total+add < 0 {
			return nil, errPoor
		}
		return []int{add}, nil
	},
	Evolve:        func(total, added int) int { return total + added },
	Reply:         func(total, _ int, _ []int) int { return total },
	Events:        added,
	SnapshotEvery: 5,
}

// message is one of a broker, as Watermill has it.
type message struct {
	ctx      context.Context
	Metadata map[string]string
}

func (m *message) Context() context.Context { return m.ctx }

// broker keeps what is published.
type broker struct {
	mu       sync.Mutex
	messages []*message
	fails    bool
}

func (b *broker) Publish(_ string, ms ...*message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fails {
		return errors.New("the broker is down")
	}
	b.messages = append(b.messages, ms...)
	return nil
}

func (b *broker) Close() error { return nil }

// workload is a program on SQLite whose Telemetry goes to an SDK.
type workload struct {
	t         *testing.T
	spans     *tracetest.SpanRecorder
	traces    *trace.TracerProvider
	reader    *metric.ManualReader
	telemetry *annalsotel.Telemetry
	store     *sqlitestore.Store
	counters  *entity.Runtime[int, int, int]
	broker    *broker
}

func newWorkload(t *testing.T) *workload {
	t.Helper()
	w := &workload{t: t, spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader(), broker: &broker{}}
	w.traces = trace.NewTracerProvider(trace.WithSpanProcessor(w.spans))
	var err error
	w.telemetry, err = annalsotel.New(annalsotel.Options{TracerProvider: w.traces, MeterProvider: metric.NewMeterProvider(metric.WithReader(w.reader))})
	w.check(err)
	w.store, err = sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "annals.db"), sqlitestore.Options{Observer: w.telemetry})
	w.check(err)
	w.counters, err = entity.New(w.store, counter, entity.Options{Observer: w.telemetry, Metadata: w.telemetry.Metadata(requestMetadata), Logger: silent})
	w.check(err)
	t.Cleanup(func() {
		w.check(w.counters.Shutdown(context.Background()))
		w.check(w.store.Close())
	})
	return w
}

// requestMetadata is the metadata of the program.
func requestMetadata(context.Context) (annals.Payload, error) { return requests.Encode(request{"ann"}) }

func (w *workload) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// ask sends a command within the span of a request.
func (w *workload) ask(id string, add int) error {
	ctx, span := w.traces.Tracer("test").Start(w.t.Context(), "request")
	defer span.End()
	_, err := w.counters.Ask(ctx, id, add)
	return err
}

// outlet is a projection that publishes the events. An event of 13 cannot be handled.
func (w *workload) outlet() *projection.Runner { return outletOn(w, w.store) }

func outletOn(w *workload, s annals.Store) *projection.Runner {
	w.t.Helper()
	publisher := annalsotel.Publishes(w.telemetry, w.broker, func(m *message) map[string]string { return m.Metadata })
	source := projection.Source[int]{Store: s, Type: "Counter", Codec: added}
	r, err := projection.AtLeastOnceGrouped("outlet", source, s, func(ctx context.Context, es []projection.Envelope[int]) error {
		var ms []*message
		for _, e := range es {
			if e.Value == 13 {
				return errPoor
			}
			m := &message{ctx, map[string]string{"id": string(e.ID)}}
			w.telemetry.Carry(e.Metadata, m.Metadata)
			ms = append(ms, m)
		}
		return publisher.Publish("counters", ms...)
	}, projection.Options{Ranges: 2, Observer: w.telemetry, Logger: silent, OnError: func(_ context.Context, f projection.Failure) projection.Verdict {
		if f.Try == 1 {
			return projection.Retry
		}
		return projection.Park
	}})
	w.check(err)
	return r
}

// run does everything that SQLite can do, and tells of what other stores do.
func (w *workload) run() {
	ctx := w.t.Context()
	for i := range 12 { // with snapshots, and replays of the aggregate
		w.check(w.ask("a", i))
	}
	if err := w.ask("a", -1000); !errors.Is(err, errPoor) {
		w.t.Fatal(err)
	}
	w.check(w.ask("b", 13))
	repository, err := aggregate.New(w.store, counter, aggregate.Options{Observer: w.telemetry, Metadata: w.telemetry.Metadata(nil), Logger: silent})
	w.check(err)
	_, err = repository.Ask(ctx, "a", 1) // so that the next command of the Runtime meets a conflict
	w.check(err)
	w.check(repository.Wait(ctx))
	w.check(w.ask("a", 1))
	if err := w.ask("a", -1000); !errors.Is(err, errPoor) { // confirmed
		w.t.Fatal(err)
	}
	var together sync.WaitGroup
	for range 60 {
		together.Go(func() {
			if err := w.ask("hot", 1); err != nil {
				w.t.Error(err)
			}
		})
	}
	together.Wait()
	for e, err := range w.store.Journal().Replay(ctx, "Counter|b", 1, annals.MaxSeqNr) {
		w.check(err)
		if r, err := requests.Decode(e.Metadata); err != nil || r.User != "ann" {
			w.t.Errorf("the program's own metadata is %+v, %v", r, err)
		}
	}
	for _, err := range query.Events(ctx, w.store, annals.Filter{Type: "Counter"}, query.Options{Current: true}) {
		w.check(err)
	}
	w.check(w.counters.Evict(ctx, "b", nil))
	_, err = w.telemetry.Runtime("Counter", w.counters)
	w.check(err)
	out := w.outlet()
	w.check(out.CatchUp(ctx))
	_, err = w.telemetry.Projection("outlet", projection.NewHealth(out.Control(), w.store, projection.HealthOptions{Logger: silent}))
	w.check(err)
	w.broker.fails = true
	publisher := annalsotel.Publishes(w.telemetry, w.broker, func(m *message) map[string]string { return m.Metadata })
	if err := publisher.Publish("counters", &message{ctx, map[string]string{}}); err == nil {
		w.t.Error("a broker that is down publishes")
	}
	// What SQLite does not do.
	for c, r := range map[annals.Call]annals.Result{
		{Op: "append", Store: "dynamodb/commit", ID: "Counter|a"}: {Requests: 3, Retries: 2, Throttles: 1, ReadUnits: 1, WriteUnits: 2, Unused: 1, Warning: errPoor},
		{Op: "write", Store: "entity", ID: "Counter|a"}:           {Retries: 1},
		{Op: "late", Store: "projection/outlet", Events: 1}:       {},
		{Op: "stuck", Store: "projection/outlet"}:                 {Warning: errPoor},
		{Op: "warning", Store: "projection/outlet"}:               {Warning: errPoor},
	} {
		w.telemetry.End(w.telemetry.Start(ctx, c), c, r)
	}
}

// collect returns the metrics by name.
func (w *workload) collect() map[string]metricdata.Metrics {
	w.t.Helper()
	var all metricdata.ResourceMetrics
	w.check(w.reader.Collect(w.t.Context(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}
