package annalsotel

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/annals-go/annals"
)

// mostLinks is how many links a span has at most: what an SDK keeps by default.
const mostLinks = 128

// spans reports whether c, within the span outer, has a span from its start.
func (k *kind) spans(outer trace.SpanContext, c *annals.Call) bool {
	switch {
	case k.part == ofProjection:
		return k.op == "handle" && c.Events > 0
	case k.own: // a projection or a lease looks after itself
		return outer.IsValid() && !k.poll
	}
	return !k.poll // see end
}

// begin begins a span of k.
func (t *Telemetry) begin(ctx context.Context, k *kind, outer trace.SpanContext) context.Context {
	b, options, parent := begun{kind: k}, k.start, ctx
	var links []trace.Link
	if k.part == ofProjection {
		links = t.linksOf(annals.Batch(ctx))
	} else if callers := annals.Callers(ctx); len(callers) > 0 {
		if k.part == ofHost {
			b.group = len(callers)
		}
		if !outer.IsValid() {
			parent, links = ofCallers(ctx, callers)
		}
	}
	if len(links) > 0 {
		options = append(slices.Clip(options), trace.WithLinks(links...))
	}
	if b.Context, b.span = t.tracer.Start(parent, k.name, options...); !b.span.IsRecording() {
		return b.Context
	}
	return &b
}

// begun is the context of a call that has a span.
type begun struct {
	context.Context
	span  trace.Span
	kind  *kind
	group int // commands that share the operation
}

type begunKey struct{}

func (b *begun) Value(key any) any {
	if key == (begunKey{}) {
		return b
	}
	return b.Context.Value(key)
}

// ofCallers returns a context for an operation that several callers share: its span is a child of the first caller whose span is sampled, and has links to those of
// all.
func ofCallers(ctx context.Context, callers []context.Context) (parent context.Context, links []trace.Link) {
	parent = ctx
	for _, caller := range callers {
		span := trace.SpanFromContext(caller)
		of := span.SpanContext()
		if !of.IsSampled() || !of.IsValid() {
			continue
		}
		if links == nil {
			parent = trace.ContextWithSpan(ctx, span)
		}
		if len(links) < mostLinks {
			links = append(links, trace.Link{SpanContext: of})
		}
	}
	return parent, links
}

// linksOf returns links to what has written events, as their metadata says.
func (t *Telemetry) linksOf(events []annals.Event) (links []trace.Link) {
	var last trace.SpanContext
	for i := range events {
		of := t.writer(events[i].Metadata)
		if !of.IsSampled() || of.Equal(last) {
			continue
		}
		last = of
		if !slices.ContainsFunc(links, func(l trace.Link) bool { return l.SpanContext.Equal(of) }) {
			links = append(links, trace.Link{SpanContext: of})
		}
		if len(links) == mostLinks {
			break
		}
	}
	return links
}

// end ends the span of a call, or makes the one of a query that has found something. span is that of ctx.
func (t *Telemetry) end(ctx context.Context, k *kind, span trace.Span, c *annals.Call, r *annals.Result) {
	var b *begun
	if k.poll {
		outer, failed := span.SpanContext(), r.Err != nil && ctx.Err() == nil
		if outer.IsValid() && !outer.IsSampled() || r.Events == 0 && r.Bytes == 0 && !failed {
			return
		}
		options := append(slices.Clip(k.start), trace.WithTimestamp(time.Now().Add(-r.Duration)))
		_, span = t.tracer.Start(ctx, k.name, options...)
	} else if b, _ = ctx.Value(begunKey{}).(*begun); b == nil || b.span != span || b.kind.key != k.key {
		return // of another call, around this one
	}
	defer span.End()
	if !span.IsRecording() {
		return
	}
	set := make([]attribute.KeyValue, 0, 8)
	switch {
	case k.part == ofProjection:
		set = append(set, semconv.MessagingBatchMessageCount(c.Events))
	case c.ID != "":
		set = append(set, attrEntity.String(string(c.ID)))
	}
	if b != nil && b.group > 0 {
		set = append(set, attrGroup.Int(b.group))
	}
	if r.Events > 0 && k.part == ofStore {
		set = append(set, attrNumber.Int(r.Events))
	}
	if r.Retries > 0 {
		set = append(set, attrRetries.Int(r.Retries))
	}
	if r.Throttles > 0 {
		set = append(set, attrThrottles.Int(r.Throttles))
	}
	if r.ReadUnits > 0 {
		set = append(set, attrReadUnits.Float64(r.ReadUnits))
	}
	if r.WriteUnits > 0 {
		set = append(set, attrWriteUnits.Float64(r.WriteUnits))
	}
	switch {
	case k.rejected(r.Err):
		set = append(set, attrRejected.Bool(true))
	case r.Err != nil:
		kind := errorType(r.Err)
		set = append(set, kind)
		span.SetStatus(codes.Error, kind.Value.AsString())
	}
	span.SetAttributes(set...)
}
