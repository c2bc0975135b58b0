package annalsotel_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	annalsotel "github.com/annals-go/annals/otel"
	"github.com/annals-go/annals/projection"
)

// recordOnly is a sampler whose spans are recorded and not sampled.
type recordOnly struct{}

func (recordOnly) ShouldSample(trace.SamplingParameters) trace.SamplingResult {
	return trace.SamplingResult{Decision: trace.RecordOnly}
}
func (recordOnly) Description() string { return "RecordOnly" }

// What is recorded ends, also when it is not sampled.
func TestSpansThatAreOnlyRecordedEnd(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	telemetry, err := annalsotel.New(annalsotel.Options{TracerProvider: trace.NewTracerProvider(trace.WithSampler(recordOnly{}), trace.WithSpanProcessor(spans))})
	if err != nil {
		t.Fatal(err)
	}
	c := annals.Call{Op: "append", Store: "sqlite", ID: "Counter|a"}
	telemetry.End(telemetry.Start(t.Context(), c), c, annals.Result{Events: 1})
	if begun, ended := len(spans.Started()), len(spans.Ended()); begun != 1 || ended != 1 {
		t.Errorf("%d spans began, %d ended", begun, ended)
	}
}

// The context of Run lives as long as the program: its span is no parent of batches, and does not decide whether they are sampled.
func TestBatchesHaveNoParent(t *testing.T) {
	t.Parallel()
	for name, sampler := range map[string]trace.Sampler{"sampled": trace.AlwaysSample(), "not sampled": trace.NeverSample()} {
		w := newWorkload(t)
		w.check(w.ask("a", 1))
		ctx, span := trace.NewTracerProvider(trace.WithSampler(sampler)).Tracer("test").Start(t.Context(), "start of the program")
		w.check(w.outlet().CatchUp(ctx))
		span.End()
		if all := w.named("handle outlet"); len(all) != 1 || all[0].Parent().IsValid() || len(w.named("publish counters")) != 1 {
			t.Errorf("%s: spans %v", name, all)
		}
	}
}

// A caller that gives up does not make a store unavailable.
func TestCanceledCallsAreNoFailures(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.store.Journal().Append(ctx, annals.Commit{ID: "Counter|a", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1}}}}); !errors.Is(err, annals.ErrUnavailable) {
		t.Error(err)
	}
	if all := w.named("append Counter"); len(all) != 1 || attributes(all[0])["error.type"] != "canceled" {
		t.Errorf("spans %v", all)
	}
}

// hanging is a store that does not answer who asks for events.
type hanging struct{ annals.Store }

func (h hanging) Query() annals.Query { return silence{h.Store.Query()} }

type silence struct{ annals.Query }

func (silence) Events(ctx context.Context, _ annals.Filter) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		<-ctx.Done()
		yield(annals.Event{}, ctx.Err())
	}
}

// The other metrics are collected, and soon, when the store of a projection does not answer. What reads it for metrics has no spans.
func TestCollectionWhileTheStoreHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &workload{t: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder(), broker: &broker{}}
		var err error
		w.telemetry, err = annalsotel.New(annalsotel.Options{
			MeterProvider: metric.NewMeterProvider(metric.WithReader(w.reader)), TracerProvider: trace.NewTracerProvider(trace.WithSpanProcessor(w.spans)),
		})
		w.check(err)
		s, err := memstore.Open(memstore.Options{Observer: w.telemetry})
		w.check(err)
		control := outletOn(w, s).Control()
		p, err := added.Encode(1)
		w.check(err)
		_, err = s.Journal().Append(t.Context(), annals.Commit{ID: "Counter|a", Events: []annals.NewEvent{{Payload: p}}})
		w.check(err)
		before := len(w.spans.Started())
		for source, want := range map[annals.Store]bool{s: true, hanging{s}: false} {
			r, err := w.telemetry.Projection("outlet", projection.NewHealth(control, source, projection.HealthOptions{Logger: silent}))
			w.check(err)
			began := time.Now()
			all := w.collect()
			if _, measured := all["annals.projection.lag"]; measured != want || len(all["db.client.operation.duration"].Name) == 0 || time.Since(began) > 10*time.Second {
				t.Errorf("measured: %v, want %v; %d metrics, after %v", measured, want, len(all), time.Since(began))
			}
			w.check(r.Unregister())
		}
		if begun := w.spans.Started()[before:]; len(begun) > 0 {
			t.Errorf("%d spans, the first %q", len(begun), begun[0].Name())
		}
	})
}

// A publisher that panics has a span and metrics too.
func TestPublisherThatPanics(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	publisher := annalsotel.Publishes[*message](w.telemetry, nil, func(m *message) map[string]string { return m.Metadata })
	func() {
		defer func() { _ = recover() }()
		_ = publisher.Publish("counters", &message{t.Context(), map[string]string{}})
	}()
	if all := w.named("publish counters"); len(all) != 1 || attributes(all[0])["error.type"] != "panic" || len(w.collect()["messaging.client.sent.messages"].Name) == 0 {
		t.Errorf("spans %v", all)
	}
}

// Measurements name the span of their call as an exemplar, when it is sampled.
func TestExemplars(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	w.check(w.ask("a", 1))
	spans := map[string]bool{}
	for _, s := range w.spans.Ended() {
		spans[s.SpanContext().SpanID().String()] = true
	}
	for _, name := range []string{"db.client.operation.duration", "annals.host.operation.duration"} {
		found := 0
		for _, p := range w.collect()[name].Data.(metricdata.Histogram[float64]).DataPoints {
			for _, e := range p.Exemplars {
				if found++; !spans[hex.EncodeToString(e.SpanID)] {
					t.Errorf("%s has the exemplar %x", name, e.SpanID)
				}
			}
		}
		if found == 0 {
			t.Errorf("%s has no exemplars", name)
		}
	}
}

// Types of entities come from outside. Of those that were first, also when they were used by many at once, the metrics have the names; of too many, they do not.
func TestTypesOfEntities(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	call := func(i int) {
		c := annals.Call{Op: "load", Store: "entity", ID: annals.NewPersistenceID(fmt.Sprint("Type", i), "a")}
		w.telemetry.End(t.Context(), c, annals.Result{Duration: time.Millisecond})
	}
	const most = 1000
	for i := range most {
		var all sync.WaitGroup
		begin := make(chan struct{})
		for range 8 {
			all.Go(func() { <-begin; call(i) })
		}
		close(begin)
		all.Wait()
	}
	for i := range 2 * most {
		call(i)
	}
	counts := map[string]uint64{}
	for _, p := range w.collect()["annals.host.operation.duration"].Data.(metricdata.Histogram[float64]).DataPoints {
		of, _ := p.Attributes.Value("annals.entity.type")
		counts[of.AsString()] = p.Count
	}
	if len(counts) != most+1 || counts["_OTHER"] != most || counts["Type999"] != 9 {
		t.Errorf("%d types, %d calls of others", len(counts), counts["_OTHER"])
	}
}

// Several Telemetries may have the same MeterProvider, which may have several readers: the events of all are counted once for each reader.
func TestEventsOfStoresAreCountedOnce(t *testing.T) {
	t.Parallel()
	total := metric.NewManualReader()
	since := metric.NewManualReader(metric.WithTemporalitySelector(func(metric.InstrumentKind) metricdata.Temporality { return metricdata.DeltaTemporality }))
	meters := metric.NewMeterProvider(metric.WithReader(total), metric.WithReader(since))
	var telemetries [2]*annalsotel.Telemetry
	for i := range telemetries {
		var err error
		if telemetries[i], err = annalsotel.New(annalsotel.Options{MeterProvider: meters}); err != nil {
			t.Fatal(err)
		}
	}
	for round, want := range []map[*metric.ManualReader]int64{{total: 5, since: 5}, {total: 10, since: 5}} {
		for i, id := range []annals.PersistenceID{"Counter|a", "Cart|a"} {
			c := annals.Call{Op: "append", Store: "sqlite", ID: id}
			telemetries[i].End(t.Context(), c, annals.Result{Events: 2 + i})
		}
		for r, n := range want {
			w := &workload{t: t, reader: r}
			if got := w.collect()["annals.store.events"].Data.(metricdata.Sum[int64]); len(got.DataPoints) != 1 || got.DataPoints[0].Value != n || !got.IsMonotonic {
				t.Errorf("round %d: %v, want %d", round, got.DataPoints, n)
			}
		}
	}
}
