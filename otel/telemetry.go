// Package annalsotel tells OpenTelemetry what Annals does: spans and metrics of stores, hosts, projections and outlets. It is an annals.Observer, and carries
// trace contexts in the metadata of events.
//
//	t, err := annalsotel.New(annalsotel.Options{TracerProvider: traces, MeterProvider: meters})
//	store, err := sqlitestore.Open(ctx, "orders.db", sqlitestore.Options{Observer: t})
//	orders, err := entity.New(store, order, entity.Options{Observer: t, Metadata: t.Metadata(nil)})
//
// The guide docs/guide/telemetry.md lists the spans and the metrics. Nothing is global: what is not in the Options is not used. Payloads, and texts of errors, are in no
// span and no metric; the ids of entities are in spans.
//
// Package annalsotel is a module of its own, so that programs without OpenTelemetry do not depend on it.
package annalsotel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/annals-go/annals"
)

// scope is the name of the instrumentation.
const scope = "github.com/annals-go/annals/otel"

// Options of New. The zero Options record nothing.
type Options struct {
	TracerProvider trace.TracerProvider // nil: no spans
	MeterProvider  metric.MeterProvider // nil: no metrics
	// Headers returns the trace context (traceparent and tracestate) in the metadata of an event, where that is no JSON object with a member traceparent:
	// see Telemetry.Metadata. It is called from many goroutines at once. nil: only such an object has one.
	Headers func(metadata annals.Payload) map[string]string
}

// Telemetry is an annals.Observer. One may be given to all stores, hosts and projections of a program. Its methods may be called from many goroutines at once. A
// type that embeds it makes the promise of AlwaysReturns too.
type Telemetry struct {
	o      Options
	tracer trace.Tracer // nil: no spans
	meter  metric.Meter
	instruments
	known   sync.Map                 // *kind by kindKey
	adding  sync.Mutex               // to known
	kinds   [3]int                   // in known, by part
	recent  [32]atomic.Pointer[kind] // some of known, which are found without a hash
	events  sync.Map                 // *events of stores, by attribute.Distinct
	failure sync.Once
}

// New returns a Telemetry. The error is that of an instrument which the MeterProvider does not make.
func New(o Options) (*Telemetry, error) {
	t := &Telemetry{o: o}
	if o.TracerProvider != nil {
		t.tracer = o.TracerProvider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	}
	if o.MeterProvider == nil {
		o.MeterProvider = noop.NewMeterProvider()
	}
	t.meter = o.MeterProvider.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	var err error
	if t.instruments, err = newInstruments(t.meter); err == nil {
		err = t.countEvents()
	}
	if err != nil {
		return nil, &annals.Error{Op: "annalsotel.New", Kind: annals.ErrInvalid, Err: err}
	}
	return t, nil
}

// AlwaysReturns is the promise of annals.Observer: a panic of a provider ends in Start and End.
func (t *Telemetry) AlwaysReturns() {}

// Start implements annals.Observer.
func (t *Telemetry) Start(ctx context.Context, c annals.Call) (started context.Context) {
	if t.tracer == nil {
		return ctx
	}
	started = ctx
	defer t.contain()
	outer := trace.SpanContextFromContext(ctx)
	if !outer.IsSampled() && outer.IsValid() && !strings.HasPrefix(c.Store, projections) {
		return ctx // a span within this one would not be sampled either, as long as the sampler looks at parents
	}
	if k := t.kind(&c); k.spans(outer, &c) {
		started = t.begin(ctx, k, outer)
	}
	return started
}

// End implements annals.Observer.
func (t *Telemetry) End(ctx context.Context, c annals.Call, r annals.Result) {
	if t.tracer == nil && t.o.MeterProvider == nil {
		return
	}
	defer t.contain()
	k, span := t.kind(&c), trace.SpanFromContext(ctx)
	if t.tracer != nil && (k.poll || span.IsRecording()) {
		t.end(ctx, k, span, &c, &r)
	}
	if t.o.MeterProvider == nil {
		return
	}
	group := 0
	if k.write {
		if group = len(annals.Callers(ctx)); group == 0 && r.Err == nil && r.Retries == 0 {
			return // the store measures the append, and "ask" all of it
		}
	}
	if !span.SpanContext().IsSampled() {
		ctx = context.Background() // each instrument looks for a span that is sampled, in a context that may be deep
	}
	t.measure(ctx, k, &c, &r, group)
}

// contain ends a panic, of which the first is logged.
func (t *Telemetry) contain() {
	if p := recover(); p != nil {
		t.failure.Do(func() {
			slog.Default().Error("annals: OpenTelemetry panicked, which is said once", "panic", fmt.Sprint(p))
		})
	}
}

// part is what makes a call.
type part int8

const (
	ofStore part = iota
	ofHost
	ofProjection
)

// kind is what the calls of one operation of one store, host or projection have in common.
type kind struct {
	key     kindKey
	part    part
	op      string
	poll    bool // a query, of which many find nothing: the span is made at the end
	own     bool // about what projections and leases store for themselves
	write   bool // of a host
	name    string
	start   []trace.SpanStartOption
	set     attribute.Set // of metrics
	measure measures      // for a call without an error
	mu      sync.Mutex
	further map[attribute.KeyValue]measures // see Telemetry.with
}

// projections is what the stores of projections begin with.
const projections = "projection/"

// kindKey names a kind.
type kindKey struct{ store, op, entities string }

// is reports whether c is of this kind. It may be false for one whose id has no type.
func (k *kind) is(c *annals.Call) bool {
	n := len(k.key.entities)
	return k.op == c.Op && k.key.store == c.Store && (c.ID == "" && n == 0 || len(c.ID) > n && c.ID[n] == '|' && string(c.ID[:n]) == k.key.entities)
}

// mostKinds bounds how many kinds of each part are kept. The types of entities may come from outside the program: further ones are "_OTHER" in metrics.
const mostKinds = 1000

func (t *Telemetry) kind(c *annals.Call) *kind {
	place := len(c.Op) + len(c.Store)
	if c.ID != "" {
		place += int(c.ID[0])
	}
	recent := &t.recent[place%len(t.recent)]
	if k := recent.Load(); k != nil && k.is(c) {
		return k
	}
	key := kindKey{c.Store, c.Op, c.ID.Type()}
	if k, ok := t.known.Load(key); ok {
		recent.Store(k.(*kind))
		return k.(*kind)
	}
	k := t.newKind(key)
	t.adding.Lock()
	defer t.adding.Unlock()
	known, ok := t.known.Load(key)
	switch {
	case ok:
		return known.(*kind)
	case t.kinds[k.part] < mostKinds:
		t.known.Store(key, k)
		t.kinds[k.part]++
	case k.part == ofHost:
		k.set = attribute.NewSet(append(k.set.ToSlice(), attrEntityType.String("_OTHER"))...)
		k.measure = t.measuresOf(k.part, k.set)
	}
	return k
}

// The attributes that the semantic conventions do not have.
const (
	attrStore      = attribute.Key("annals.store")            // the layout too: "dynamodb/commit"
	attrHost       = attribute.Key("annals.host")             // "entity", "aggregate"
	attrOperation  = attribute.Key("annals.operation")        // of a host
	attrEntityType = attribute.Key("annals.entity.type")      //
	attrEntity     = attribute.Key("annals.entity.id")        // of spans only
	attrNumber     = attribute.Key("annals.events")           // read or written
	attrRejected   = attribute.Key("annals.rejected")         // the domain has refused the command, which is no error
	attrGroup      = attribute.Key("annals.group.size")       // commands that share an operation
	attrProjection = attribute.Key("annals.projection")       // its name
	attrVerdict    = attribute.Key("annals.verdict")          // "retry", "skip", "park", "stop"
	attrLease      = attribute.Key("annals.lease.change")     // "take", "release", "lose"
	attrState      = attribute.Key("annals.range.state")      // "works", "nobody", "stuck", "hangs", "paused"
	attrMode       = attribute.Key("annals.capacity.mode")    // "read", "write"
	attrRuntime    = attribute.Key("annals.runtime")          // the name given to Telemetry.Runtime
	attrRetries    = attribute.Key("annals.retries")          // of spans
	attrThrottles  = attribute.Key("annals.throttles")        // of spans
	attrReadUnits  = attribute.Key("annals.capacity.read")    // of spans
	attrWriteUnits = attribute.Key("annals.capacity.written") // of spans
)

// system is the value of messaging.system.
const system = "annals"

func (t *Telemetry) newKind(key kindKey) *kind {
	k := &kind{key: key, op: key.op, own: key.entities == "" && aboutPositions(key.op) || strings.HasPrefix(key.entities, "annals.")}
	var static, measured []attribute.KeyValue
	name := key.op
	spanKind := trace.SpanKindInternal
	consumer, follows := strings.CutPrefix(key.store, projections)
	switch {
	case key.store == "entity" || key.store == "aggregate":
		k.part, k.write = ofHost, key.op == "write"
		static = []attribute.KeyValue{attrHost.String(key.store), attrOperation.String(key.op), attrEntityType.String(key.entities)}
		measured = static
	case follows:
		k.part = ofProjection
		name, spanKind = key.op+" "+consumer, trace.SpanKindConsumer
		static = []attribute.KeyValue{
			semconv.MessagingSystemKey.String(system), semconv.MessagingOperationName(key.op), semconv.MessagingOperationTypeProcess,
			semconv.MessagingDestinationName(consumer), semconv.MessagingConsumerGroupName(consumer),
		}
		measured = []attribute.KeyValue{attrProjection.String(consumer)}
		switch key.op {
		case "handle":
			measured = static
		case "retry", "skip", "park", "stop":
			measured = append(measured, attrVerdict.String(key.op))
		case "take", "release", "lose":
			measured = append(measured, attrLease.String(key.op))
		}
	default:
		k.part, spanKind = ofStore, trace.SpanKindClient
		k.poll = strings.HasPrefix(key.op, "query ") && key.op != "query ids"
		measured = []attribute.KeyValue{databaseOf(key.store), semconv.DBOperationName(key.op), attrStore.String(key.store)}
		static = measured
		if key.entities != "" {
			static = append(slices.Clip(static), attrEntityType.String(key.entities))
		}
	}
	if key.entities != "" && k.part != ofProjection {
		name += " " + key.entities
	}
	k.name = name
	k.start = []trace.SpanStartOption{trace.WithSpanKind(spanKind), trace.WithAttributes(static...)}
	if follows {
		k.start = append(k.start, trace.WithNewRoot()) // the context of Run may have a span, which would never end
	}
	k.set = attribute.NewSet(measured...)
	k.measure = t.measuresOf(k.part, k.set)
	return k
}

// aboutPositions reports whether op is about the positions of projections, or looks after the store.
func aboutPositions(op string) bool {
	switch op {
	case "load positions", "load offsets", "save offsets", "reset offsets", "watch", "check health":
		return true
	}
	return false
}

// databaseOf is db.system.name of a store.
func databaseOf(store string) attribute.KeyValue {
	name, _, _ := strings.Cut(store, "/")
	switch name {
	case "sqlite":
		return semconv.DBSystemNameSQLite
	case "postgres":
		return semconv.DBSystemNamePostgreSQL
	case "dynamodb":
		return semconv.DBSystemNameAWSDynamoDB
	}
	return semconv.DBSystemNameKey.String("annals." + name)
}

// kindsOfErrors are the values of error.type.
var kindsOfErrors = []struct {
	kind error
	name string
}{
	{annals.ErrInvalid, "invalid"}, {annals.ErrConflict, "conflict"}, {annals.ErrConstraint, "constraint"}, {annals.ErrUnknown, "unknown"},
	{context.Canceled, "canceled"}, // by the caller, so the store may be available
	{annals.ErrUnavailable, "unavailable"}, {annals.ErrUnsupported, "unsupported"}, {annals.ErrTruncated, "truncated"}, {annals.ErrTooLarge, "too_large"},
	{annals.ErrCorrupt, "corrupt"}, {annals.ErrFenced, "fenced"}, {annals.ErrPanic, "panic"}, {annals.ErrClosed, "closed"}, {annals.ErrOverloaded, "overloaded"},
	{context.DeadlineExceeded, "timeout"},
}

// errorType is the error.type of err.
func errorType(err error) attribute.KeyValue {
	for _, k := range kindsOfErrors {
		if errors.Is(err, k.kind) {
			return semconv.ErrorTypeKey.String(k.name)
		}
	}
	return semconv.ErrorTypeOther
}

// rejected reports whether err is the answer of the domain to a command.
func (k *kind) rejected(err error) bool {
	if k.part != ofHost || k.op != "ask" || err == nil {
		return false
	}
	_, fails := errors.AsType[*annals.Error](err)
	return !fails
}
