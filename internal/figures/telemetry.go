package main

import (
	"context"
	"errors"
	"io"
	"time"

	"go.opentelemetry.io/otel/attribute"
	measures "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/annals-go/annals"
	annalsotel "github.com/annals-go/annals/otel"
)

// discarding is an exporter of spans, as a program has one.
type discarding struct{}

func (discarding) ExportSpans(_ context.Context, spans []trace.ReadOnlySpan) error {
	for _, s := range spans {
		_, _ = io.Discard.Write([]byte(s.Name()))
	}
	return nil
}
func (discarding) Shutdown(context.Context) error { return nil }

// telemetryAboveSDK compares both sides in turns, as runtimeOverheadTelemetry does.
func telemetryAboveSDK(ctx context.Context) (float64, error) {
	const turns, each = 200, 2000
	traces := trace.NewTracerProvider(trace.WithSampler(trace.ParentBased(trace.NeverSample())))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	telemetry, err := annalsotel.New(annalsotel.Options{TracerProvider: traces, MeterProvider: meters})
	if err != nil {
		return 0, err
	}
	durations, err := meters.Meter("figure").Float64Histogram("duration", measures.WithExplicitBucketBoundaries(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60))
	if err != nil {
		return 0, err
	}
	attributes := []measures.RecordOption{measures.WithAttributeSet(attribute.NewSet(
		attribute.String("annals.host", "entity"), attribute.String("annals.operation", "ask"), attribute.String("annals.entity.type", "Counter")))}
	request, span := traces.Tracer("figure").Start(ctx, "request")
	defer span.End()
	c, r := annals.Call{Op: "ask", Store: "entity", ID: "Counter|one"}, annals.Result{Duration: time.Microsecond}
	value, err := ratio(turns, processorTime,
		times(each, func() error { telemetry.End(telemetry.Start(request, c), c, r); return nil }),
		times(each, func() error { durations.Record(ctx, r.Duration.Seconds(), attributes...); return nil }))
	return value, errors.Join(err, traces.Shutdown(ctx), meters.Shutdown(ctx))
}

// runtimeOverheadTelemetry measures both sides in turns, by the time of the processors, which other programs change less. The commands come in requests,
// of which a hundredth is sampled.
func runtimeOverheadTelemetry(ctx context.Context) (ratio float64, err error) {
	const turns, requests = 60, 1000
	traces := trace.NewTracerProvider(trace.WithBatcher(discarding{}), trace.WithSampler(trace.ParentBased(trace.NeverSample())))
	sampled := trace.NewTracerProvider(trace.WithBatcher(discarding{}))
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	telemetry, err := annalsotel.New(annalsotel.Options{TracerProvider: traces, MeterProvider: meters})
	if err != nil {
		return 0, err
	}
	within := make([]context.Context, requests)
	for i := range within {
		provider := traces
		if i%100 == 0 {
			provider = sampled
		}
		var request api.Span
		within[i], request = provider.Tracer("figure").Start(ctx, "request")
		defer request.End()
	}
	off, err := newOverhead(nil)
	if err != nil {
		return 0, err
	}
	on, err := newOverhead(telemetry)
	if err != nil {
		return 0, err
	}
	all := func(run func(context.Context) error) func() error {
		return func() error {
			for _, request := range within {
				if err := run(request); err != nil {
					return err
				}
			}
			return nil
		}
	}
	took, err := medians(turns, processorTime, all(off.ask), all(off.append), all(on.ask), all(on.append))
	if err != nil {
		return 0, err
	}
	err = errors.Join(off.rt.Shutdown(ctx), on.rt.Shutdown(ctx), traces.Shutdown(ctx), sampled.Shutdown(ctx), meters.Shutdown(ctx))
	return (took[2] - took[3]) / (took[0] - took[1]), err
}
