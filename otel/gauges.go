package annalsotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/projection"
)

// Runtime measures what an entity.Runtime has in memory, whenever metrics are collected: entities, commands that wait, evictions. name is the attribute
// annals.runtime, such as the type of the entities. Unregister the Registration after the shutdown of the Runtime.
func (t *Telemetry) Runtime(name string, r interface{ Stats() entity.Stats }) (metric.Registration, error) {
	entities, err1 := t.meter.Int64ObservableGauge("annals.host.entities", metric.WithUnit("{entity}"), metric.WithDescription("Entities in memory."))
	pending, err2 := t.meter.Int64ObservableGauge("annals.host.pending", metric.WithUnit("{command}"), metric.WithDescription("Commands that wait for an answer, of all entities."))
	evicted, err3 := t.meter.Int64ObservableCounter("annals.host.evictions", metric.WithUnit("{entity}"), metric.WithDescription("Entities that were dropped from memory."))
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	as := metric.WithAttributes(attrRuntime.String(name))
	return t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := r.Stats()
		o.ObserveInt64(entities, int64(s.Entities), as)
		o.ObserveInt64(pending, int64(s.Pending), as)
		o.ObserveInt64(evicted, s.Evicted, as)
		return nil
	}, entities, pending, evicted)
}

// Projection measures how far a projection is behind, and who handles it, whenever metrics are collected: lag in events and seconds, parked entities, ranges by
// their state. name is that of the projection. Each collection is a projection.Health.Status, which reads the store: so do this in one process, or in few, and collect every 15
// seconds or less often. When the store cannot be read within 5 seconds these gauges have no value; the collection does not fail, because a reader exports no metric at all then.
func (t *Telemetry) Projection(name string, h *projection.Health) (metric.Registration, error) {
	lag, err1 := t.meter.Int64ObservableGauge("annals.projection.lag", metric.WithUnit("{event}"), metric.WithDescription("Events that are not handled. No more than about 10,000 are counted."))
	lagTime, err2 := t.meter.Float64ObservableGauge("annals.projection.lag.time", metric.WithUnit("s"), metric.WithDescription("Age of the oldest event that is not handled."))
	parked, err3 := t.meter.Int64ObservableGauge("annals.projection.parked", metric.WithUnit("{entity}"), metric.WithDescription("Entities that are parked."))
	ranges, err4 := t.meter.Int64ObservableGauge("annals.projection.ranges", metric.WithUnit("{range}"), metric.WithDescription("Ranges by what becomes of them."))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	as := metric.WithAttributes(attrProjection.String(name))
	return t.meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		ctx, cancel := context.WithTimeout(trace.ContextWithSpanContext(ctx, untraced), longestStatus)
		defer cancel()
		s, err := h.Status(ctx)
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		o.ObserveInt64(lag, int64(s.Lag), as)
		o.ObserveFloat64(lagTime, s.LagTime.Seconds(), as)
		o.ObserveInt64(parked, int64(s.Parked), as)
		states := map[string]int64{"works": 0, "nobody": 0, "stuck": 0, "hangs": 0, "paused": 0}
		for _, r := range s.Ranges {
			states[stateOf(s, r)]++
		}
		for state, n := range states {
			o.ObserveInt64(ranges, n, as, metric.WithAttributes(attrState.String(state)))
		}
		return nil
	}, lag, lagTime, parked, ranges)
}

// longestStatus is how long a collection waits for a store: the default of a reader for all of a collection is 30 seconds.
const longestStatus = 5 * time.Second

// untraced is a span that is not sampled, in which none are made.
var untraced = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}})

func stateOf(s projection.Status, r projection.RangeStatus) string {
	switch {
	case r.Hangs:
		return "hangs"
	case !r.StuckSince.IsZero():
		return "stuck"
	case s.Paused:
		return "paused"
	case r.Runner == "":
		return "nobody"
	}
	return "works"
}
