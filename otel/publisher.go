package annalsotel

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/annals-go/annals"
)

// Publisher is a publisher of messages M, such as a message.Publisher of Watermill, whose M is *message.Message.
type Publisher[M any] interface {
	Publish(topic string, messages ...M) error
	Close() error
}

// Publishes returns p with a span and metrics of each call of Publish. headers returns the headers of a message, which are changed: of Watermill that is m.Metadata. A message whose
// headers have a trace context, as after Carry, keeps it, and the span has a link to it; another one gets that of the span. The span is a child of that in the
// context of the first message, which is the one of the projection's batch.
func Publishes[M interface{ Context() context.Context }](t *Telemetry, p Publisher[M], headers func(m M) map[string]string) Publisher[M] {
	return &publisher[M]{p, t, headers}
}

// Carry puts the trace context in the metadata of an event into the headers of its message, for outlet.Options.Edit.
func (t *Telemetry) Carry(metadata annals.Payload, headers map[string]string) {
	if of := t.writer(metadata); of.IsValid() {
		w3c.Inject(trace.ContextWithRemoteSpanContext(context.Background(), of), propagation.MapCarrier(headers))
	}
}

type publisher[M interface{ Context() context.Context }] struct {
	Publisher[M]
	t       *Telemetry
	headers func(m M) map[string]string
}

func (p *publisher[M]) Publish(topic string, messages ...M) (err error) {
	if len(messages) == 0 || p.t.tracer == nil && p.t.o.MeterProvider == nil {
		return p.Publisher.Publish(topic, messages...)
	}
	static := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(system), semconv.MessagingOperationName("publish"), semconv.MessagingOperationTypeSend, semconv.MessagingDestinationName(topic),
	}
	ctx, span := p.begin(topic, static, messages)
	began := time.Now()
	err = annals.ErrPanic // unless the publisher returns
	defer func() {
		took := time.Since(began)
		if err != nil {
			kind := errorType(err)
			static = append(static, kind)
			if span != nil {
				span.SetStatus(codes.Error, kind.Value.AsString())
				span.SetAttributes(kind)
			}
		}
		if span != nil {
			span.End()
		}
		as := metric.WithAttributes(static...)
		p.t.sendTime.Record(ctx, took.Seconds(), as)
		p.t.sent.Add(ctx, int64(len(messages)), as)
	}()
	err = p.Publisher.Publish(topic, messages...)
	return err
}

// begin begins the span of a call, and gives its context to the messages that have none.
func (p *publisher[M]) begin(topic string, static []attribute.KeyValue, messages []M) (context.Context, trace.Span) {
	ctx := messages[0].Context()
	if p.t.tracer == nil {
		return ctx, nil
	}
	var links []trace.Link
	var without []map[string]string
	for _, m := range messages {
		headers := p.headers(m)
		of := trace.SpanContextFromContext(w3c.Extract(context.Background(), propagation.MapCarrier(headers)))
		switch {
		case !of.IsValid():
			without = append(without, headers)
		case of.IsSampled() && len(links) < mostLinks:
			links = append(links, trace.Link{SpanContext: of})
		}
	}
	ctx, span := p.t.tracer.Start(ctx, "publish "+topic, trace.WithSpanKind(trace.SpanKindProducer), trace.WithLinks(links...),
		trace.WithAttributes(append(slices.Clip(static), semconv.MessagingBatchMessageCount(len(messages)))...))
	for _, headers := range without {
		if headers != nil {
			w3c.Inject(ctx, propagation.MapCarrier(headers))
		}
	}
	return ctx, span
}
