package annalsotel_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	api "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/codec/cborcodec"
	"github.com/annals-go/annals/memstore"
	annalsotel "github.com/annals-go/annals/otel"
	"github.com/annals-go/annals/query"
)

// named returns the spans of that name.
func (w *workload) named(name string) (all []trace.ReadOnlySpan) {
	for _, s := range w.spans.Ended() {
		if s.Name() == name {
			all = append(all, s)
		}
	}
	return all
}

func attributes(s trace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.String()
	}
	return all
}

// A trace leads from the request through the command to what the store did; the event knows its command; the batch of the projection and what it publishes are
// linked to it; the message has it in its headers.
func TestOneTrace(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	w.check(w.ask("a", 1))
	w.check(w.outlet().CatchUp(t.Context()))
	one := func(name string) trace.ReadOnlySpan {
		t.Helper()
		all := w.named(name)
		if len(all) != 1 {
			t.Fatalf("%d spans %q", len(all), name)
		}
		return all[0]
	}
	request, ask := one("request"), one("ask Counter")
	for child, parent := range map[string]trace.ReadOnlySpan{
		"ask Counter": request, "load Counter": ask, "recover Counter": one("load Counter"), "write Counter": ask, "append Counter": one("write Counter"),
		"publish counters": one("handle outlet"),
	} {
		if s := one(child); s.Parent().SpanID() != parent.SpanContext().SpanID() || s.SpanContext().TraceID() != parent.SpanContext().TraceID() || s.EndTime().Before(s.StartTime()) {
			t.Errorf("%s is no child of %s", child, parent.Name())
		}
	}
	for _, linked := range []string{"handle outlet", "publish counters"} {
		links := one(linked).Links()
		if len(links) != 1 || links[0].SpanContext.SpanID() != ask.SpanContext().SpanID() || links[0].SpanContext.TraceID() != ask.SpanContext().TraceID() {
			t.Errorf("%s has the links %v", linked, links)
		}
	}
	if got, want := w.broker.messages[0].Metadata["traceparent"], fmt.Sprintf("00-%s-%s-01", ask.SpanContext().TraceID(), ask.SpanContext().SpanID()); got != want {
		t.Errorf("the message has the traceparent %q, want %q", got, want)
	}
	for name, want := range map[string]map[string]string{
		"append Counter": {"db.system.name": "sqlite", "db.operation.name": "append", "annals.entity.type": "Counter", "annals.entity.id": "Counter|a", "annals.events": "1"},
		"ask Counter":    {"annals.host": "entity", "annals.operation": "ask", "annals.entity.id": "Counter|a"},
		"handle outlet":  {"messaging.system": "annals", "messaging.operation.type": "process", "messaging.consumer.group.name": "outlet", "messaging.batch.message_count": "1"},
		"publish counters": {"messaging.system": "annals", "messaging.operation.type": "send", "messaging.destination.name": "counters",
			"messaging.batch.message_count": "1"},
	} {
		got := attributes(one(name))
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s has %s %q, want %q", name, key, got[key], value)
			}
		}
	}
}

// The write of a batch is linked to all callers, whose answers it gives.
func TestAllCallersAreLinked(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	var callers sync.WaitGroup
	for range 60 {
		callers.Go(func() {
			if err := w.ask("hot", 1); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	asks, linked, grouped := map[string]bool{}, map[string]bool{}, 0
	for _, s := range w.named("ask Counter") {
		asks[s.SpanContext().SpanID().String()] = true
	}
	for _, s := range w.named("write Counter") {
		if len(s.Links()) == 0 {
			linked[s.Parent().SpanID().String()] = true
		}
		for _, l := range s.Links() {
			linked[l.SpanContext.SpanID().String()] = true
		}
		if n := len(s.Links()); n > 1 {
			grouped++
			if got := attributes(s)["annals.group.size"]; got != fmt.Sprint(n) || !asks[s.Parent().SpanID().String()] {
				t.Errorf("a write with %d links says that it is for %s commands, and its parent is %v", n, got, s.Parent())
			}
		}
	}
	for ask := range asks {
		if !linked[ask] {
			t.Errorf("no write is linked to the command %s", ask)
		}
	}
	if len(asks) != 60 || grouped == 0 || len(w.named("append Counter")) != len(w.named("write Counter")) {
		t.Errorf("%d commands, %d groups, %d writes, %d appends", len(asks), grouped, len(w.named("write Counter")), len(w.named("append Counter")))
	}
}

// A projection and a live query that wait for events have no spans.
func TestPollsHaveNoSpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		telemetry, err := annalsotel.New(annalsotel.Options{TracerProvider: trace.NewTracerProvider(trace.WithSpanProcessor(spans))})
		if err != nil {
			t.Fatal(err)
		}
		s, err := memstore.Open(memstore.Options{Observer: telemetry})
		if err != nil {
			t.Fatal(err)
		}
		w := &workload{t: t, spans: spans, telemetry: telemetry, broker: &broker{}}
		running, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() { _ = outletOn(w, s).Run(running) })
		wait.Go(func() {
			for _, err := range query.Events(running, s, annals.Filter{}, query.Options{}) {
				if err != nil {
					return
				}
			}
		})
		time.Sleep(10 * time.Minute)
		if begun := spans.Started(); len(begun) > 0 {
			t.Errorf("%d spans, the first %q", len(begun), begun[0].Name())
		}
		p, err := added.Encode(1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Counter|a", Events: []annals.NewEvent{{Payload: p}}}); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute)
		names := map[string]int{}
		for _, s := range spans.Ended() {
			names[s.Name()]++
		}
		if names["append Counter"] != 1 || names["query events"] != 2 || names["handle outlet"] != 1 || len(names) > 6 {
			t.Errorf("spans: %v", names)
		}
		stop()
		wait.Wait()
	})
}

// Rejections are no errors. Errors are named by their kind, and their texts are in no span.
func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	w.run()
	rejected := 0
	for _, s := range w.named("ask Counter") {
		if attributes(s)["annals.rejected"] == "true" {
			rejected++
			if s.Status().Code != codes.Unset {
				t.Errorf("a rejection has the status %v", s.Status())
			}
		}
	}
	conflicts := 0
	for _, s := range w.spans.Ended() {
		if attributes(s)["error.type"] == "conflict" && s.Status().Code == codes.Error {
			conflicts++
		}
		if text := fmt.Sprint(s.Attributes(), s.Status(), s.Events()); strings.Contains(text, errPoor.Error()) || strings.Contains(text, "ann\"") {
			t.Errorf("span %s: %s", s.Name(), text)
		}
	}
	if rejected != 2 || conflicts < 2 {
		t.Errorf("%d rejections and %d conflicts have spans", rejected, conflicts)
	}
}

// The durations of a host are those of commands and of what is not measured elsewhere. The store measures the append of a write.
func TestDurations(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	w.run()
	operations := map[string]bool{}
	for _, p := range w.collect()["annals.host.operation.duration"].Data.(metricdata.Histogram[float64]).DataPoints {
		op, _ := p.Attributes.Value("annals.operation")
		operations[op.AsString()] = true
	}
	if !operations["ask"] || !operations["load"] || operations["write"] {
		t.Errorf("durations of %v", operations)
	}
}

// The program's own metadata stays readable, whatever it is, and the trace context is found where it can be stored.
func TestMetadata(t *testing.T) {
	t.Parallel()
	type embedded struct {
		User  string
		Trace map[string]string
	}
	cbor, object := cborcodec.Of[embedded]("embedded"), codec.JSON[embedded]("embedded")
	telemetry, err := annalsotel.New(annalsotel.Options{Headers: func(p annals.Payload) map[string]string {
		v, err := cbor.Decode(p)
		if err != nil {
			v, _ = object.Decode(p)
		}
		return v.Trace
	}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := api.ParseTraceState(`vendor="quoted"\`)
	if err != nil {
		t.Fatal(err)
	}
	remote := api.NewSpanContext(api.SpanContextConfig{TraceID: api.TraceID{7}, SpanID: api.SpanID{7}, TraceFlags: api.FlagsSampled, TraceState: state})
	ctx, span := trace.NewTracerProvider().Tracer("test").Start(api.ContextWithRemoteSpanContext(t.Context(), remote), "request")
	defer span.End()
	pairs := codec.JSON[map[string]string]("pairs")
	texts := codec.JSON[string]("text")
	none := func(context.Context) (annals.Payload, error) { return annals.Payload{}, nil }
	encoded := func(p annals.Payload, err error) func(context.Context) (annals.Payload, error) {
		return func(context.Context) (annals.Payload, error) { return p, err }
	}
	for name, c := range map[string]struct {
		own    func(context.Context) (annals.Payload, error)
		found  bool
		intact func(p annals.Payload) bool
	}{
		"alone": {nil, true, func(p annals.Payload) bool {
			return p.Manifest == "annals.trace" && p.SerializerID == codec.JSONSerializer
		}},
		"an object":   {requestMetadata, true, func(p annals.Payload) bool { r, err := requests.Decode(p); return err == nil && r.User == "ann" }},
		"empty":       {encoded(pairs.Encode(map[string]string{})), true, func(p annals.Payload) bool { _, err := pairs.Decode(p); return err == nil }},
		"its own":     {encoded(pairs.Encode(map[string]string{"TraceParent": "x"})), false, func(p annals.Payload) bool { return string(p.Data) == `{"TraceParent":"x"}` }},
		"a text":      {encoded(texts.Encode("{}")), false, func(p annals.Payload) bool { return string(p.Data) == `"{}"` }},
		"none":        {none, false, func(p annals.Payload) bool { return p.SerializerID == 0 }},
		"with spaces": {encoded(annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "request", Data: []byte(" { \"User\": \"ann\" } \n")}, nil), true, func(p annals.Payload) bool { r, err := requests.Decode(p); return err == nil && r.User == "ann" }},
		"a field":     {encoded(object.Encode(embedded{"ann", annalsotel.Headers(ctx)})), true, func(p annals.Payload) bool { v, err := object.Decode(p); return err == nil && v.User == "ann" }},
		"CBOR":        {encoded(cbor.Encode(embedded{"ann", annalsotel.Headers(ctx)})), true, func(p annals.Payload) bool { v, err := cbor.Decode(p); return err == nil && v.User == "ann" }},
	} {
		p, err := telemetry.Metadata(c.own)(ctx)
		if err != nil || !c.intact(p) {
			t.Errorf("%s: %q, %v", name, p.Data, err)
		}
		after := telemetry.Context(t.Context(), p)
		if got := annalsotel.Headers(after); c.found != maps.Equal(got, annalsotel.Headers(ctx)) || !c.found && len(got) > 0 {
			t.Errorf("%s: found %q in %q", name, got, p.Data)
		}
		if p, err = telemetry.Metadata(c.own)(t.Context()); err != nil || name == "alone" && p.SerializerID != 0 {
			t.Errorf("%s without a span: %q, %v", name, p.Data, err)
		}
	}
}

// What is off allocates nothing, and neither does a call in a trace that is not sampled, whatever its outcome.
func TestAllocations(t *testing.T) {
	traces := trace.NewTracerProvider(trace.WithSampler(trace.ParentBased(trace.NeverSample())))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	ctx, span := traces.Tracer("test").Start(t.Context(), "request")
	defer span.End()
	worked := annals.Result{Duration: time.Millisecond, Events: 5, Bytes: 100, ReadUnits: 1, WriteUnits: 2}
	conflict := annals.Result{Err: &annals.Error{Kind: annals.ErrConflict}}
	calls := map[annals.Call]annals.Result{
		{Op: "append", Store: "dynamodb/commit", ID: "Counter|a"}: worked, {Op: "append", Store: "dynamodb/commit", ID: "Cart|a"}: conflict,
		{Op: "ask", Store: "entity", ID: "Counter|a"}: worked, {Op: "ask", Store: "entity", ID: "Cart|a"}: {Err: errPoor},
		{Op: "late", Store: "projection/p", Events: 5}: worked, {Op: "park", Store: "projection/p"}: conflict,
	}
	for name, o := range map[string]annalsotel.Options{"off": {}, "not sampled": {TracerProvider: traces, MeterProvider: meters}} {
		telemetry, err := annalsotel.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() {
			for c, r := range calls {
				telemetry.End(telemetry.Start(ctx, c), c, r)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		publisher, messages := annalsotel.Publishes[*message](telemetry, &broker{}, func(*message) map[string]string { return nil }), []*message{{ctx, nil}}
		if n := testing.AllocsPerRun(100, func() { _ = publisher.Publish("orders", messages...) }); name == "off" && n != 0 {
			t.Errorf("%s: %v allocations of a publisher", name, n)
		}
	}
}

// A provider that panics disturbs no call.
func TestProvidersThatPanic(t *testing.T) {
	t.Parallel()
	telemetry, err := annalsotel.New(annalsotel.Options{TracerProvider: noop.NewTracerProvider(), Headers: func(annals.Payload) map[string]string { panic("of the test") }})
	if err != nil {
		t.Fatal(err)
	}
	w := &workload{t: t, telemetry: telemetry, broker: &broker{}}
	s, err := memstore.Open(memstore.Options{Observer: telemetry})
	w.check(err)
	p, err := cborcodec.Of[int]("m").Encode(1)
	w.check(err)
	e, err := added.Encode(1)
	w.check(err)
	_, err = s.Journal().Append(t.Context(), annals.Commit{ID: "Counter|a", Events: []annals.NewEvent{{Payload: e, Metadata: p}}})
	w.check(err)
	runner := outletOn(w, s)
	w.check(runner.CatchUp(t.Context()))
}

// The kinds of calls are bounded, whatever ids are asked for.
func TestManyTypes(t *testing.T) {
	t.Parallel()
	w := newWorkload(t)
	for i := range 5000 {
		c := annals.Call{Op: "replay", Store: "sqlite", ID: annals.NewPersistenceID(fmt.Sprint("T", i), "1")}
		w.telemetry.End(w.telemetry.Start(t.Context(), c), c, annals.Result{})
	}
	if n := len(w.collect()["db.client.operation.duration"].Data.(metricdata.Histogram[float64]).DataPoints); n > 10 {
		t.Errorf("%d time series of types that reads asked for", n)
	}
	for i := range 2000 {
		c := annals.Call{Op: "load", Store: "entity", ID: annals.NewPersistenceID(fmt.Sprint("T", i), "1")}
		w.telemetry.End(w.telemetry.Start(t.Context(), c), c, annals.Result{})
	}
	if n := len(w.collect()["annals.host.operation.duration"].Data.(metricdata.Histogram[float64]).DataPoints); n != 1001 {
		t.Errorf("%d time series of types of a host, want 1000 and that of the other ones", n)
	}
	if n := len(w.spans.Ended()); n < 7000 {
		t.Errorf("%d spans", n)
	}
}
