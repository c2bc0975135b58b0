package annalsotel

import (
	"context"
	"errors"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.43.0/dbconv"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"github.com/annals-go/annals"
)

// instruments are what a Telemetry measures with.
type instruments struct {
	storeTime, hostTime, handleTime, sendTime       metric.Float64Histogram
	storeSize, groupSize, batchSize                 metric.Int64Histogram
	delay                                           metric.Float64Histogram
	requests, storeRetries, throttles               metric.Int64Counter
	unused, storeWarnings, conflicts, hostRetries   metric.Int64Counter
	consumed, sent, verdicts, late, stuck, warnings metric.Int64Counter
	leases                                          metric.Int64Counter
	capacity                                        metric.Float64Counter
}

// seconds are the bounds of histograms of times: those of the semantic conventions for databases, and larger ones.
var seconds = []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// delays are those of how long ago an event was stored when it was handled.
var delays = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 86400}

var counts = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}

var sizes = []float64{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}

func newInstruments(m metric.Meter) (i instruments, err error) {
	var faults []error
	times := func(name, about string, bounds []float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
		faults = append(faults, err)
		return h
	}
	histogram := func(name, unit, about string, bounds []float64) metric.Int64Histogram {
		h, err := m.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(about), metric.WithExplicitBucketBoundaries(bounds...))
		faults = append(faults, err)
		return h
	}
	counter := func(name, unit, about string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(about))
		faults = append(faults, err)
		return c
	}
	db, process, send := dbconv.ClientOperationDuration{}, messagingconv.ProcessDuration{}, messagingconv.ClientOperationDuration{}
	i.storeTime = times(db.Name(), db.Description(), seconds)
	i.storeSize = histogram("annals.store.size", "By", "Payloads and metadata that a call to a store has read or written.", sizes)
	i.requests = counter("annals.store.requests", "{request}", "Requests to the server of a store.")
	i.storeRetries = counter("annals.store.retries", "{request}", "Requests that a store has sent again.")
	i.throttles = counter("annals.store.throttles", "{request}", "Requests that the server of a store refused because there were too many.")
	i.unused = counter("annals.store.unused", "{number}", "Numbers without an event that a read took for unused although no mark proves it.")
	i.storeWarnings = counter("annals.store.warnings", "{warning}", "Warnings of a store.")
	i.capacity, err = m.Float64Counter("annals.store.capacity", metric.WithUnit("{unit}"), metric.WithDescription("Capacity units of DynamoDB."))
	faults = append(faults, err)
	i.conflicts = counter("annals.conflicts", "{conflict}", "Writes of a host or a store that another writer came before.")
	i.hostTime = times("annals.host.operation.duration", "Duration of an operation of a host, other than write.", seconds)
	i.groupSize = histogram("annals.host.group.size", "{command}", "Commands in one write of a host, of writes that several share.", counts)
	i.hostRetries = counter("annals.host.retries", "{try}", "Tries of a host after the first.")
	i.handleTime = times(process.Name(), process.Description(), seconds)
	consumed := messagingconv.ClientConsumedMessages{}
	i.consumed = counter(consumed.Name(), consumed.Unit(), consumed.Description())
	i.batchSize = histogram("annals.projection.batch.size", "{event}", "Events in a batch of a projection.", counts)
	i.delay = times("annals.projection.delay", "How long ago the last event of a batch was stored when it was handled.", delays)
	i.verdicts = counter("annals.projection.verdicts", "{verdict}", "What became of events that could not be handled.")
	i.late = counter("annals.projection.late", "{event}", "Events that became visible later than their store promises.")
	i.stuck = counter("annals.projection.stuck", "{report}", "Reports that a range has not gone on.")
	i.warnings = counter("annals.projection.warnings", "{warning}", "Warnings about what a projection relies on.")
	i.leases = counter("annals.projection.lease.changes", "{change}", "Ranges that runners have taken, released or lost.")
	i.sendTime = times(send.Name(), send.Description(), seconds)
	sent := messagingconv.ClientSentMessages{}
	i.sent = counter(sent.Name(), sent.Unit(), sent.Description())
	return i, errors.Join(faults...)
}

// countEvents makes the counter of the events of stores. Most calls count some, so they are added up here, which costs far less than an SDK, until metrics are collected.
func (t *Telemetry) countEvents() error {
	counter, err := t.meter.Int64ObservableCounter("annals.store.events", metric.WithUnit("{event}"), metric.WithDescription("Events that a store has read or written."))
	if err != nil {
		return err
	}
	_, err = t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		t.events.Range(func(_, of any) bool {
			if e := of.(*events); e.Load() > 0 {
				o.ObserveInt64(counter, e.Load(), e.as)
			}
			return true
		})
		return nil
	}, counter)
	return err
}

// events counts those of the calls that have the same attributes.
type events struct {
	atomic.Int64
	as metric.ObserveOption
}

// measures are the options that carry the attributes of a kind, and the events of stores.
type measures struct {
	record []metric.RecordOption
	add    []metric.AddOption
	events *events // nil: not of a store
}

func (t *Telemetry) measuresOf(p part, set attribute.Set) measures {
	o := metric.WithAttributeSet(set)
	m := measures{record: []metric.RecordOption{o}, add: []metric.AddOption{o}}
	if p == ofStore {
		of, _ := t.events.LoadOrStore(set.Equivalent(), &events{as: o})
		m.events = of.(*events)
	}
	return m
}

// with returns the measures of k with a further attribute, which has few values: they are made once.
func (t *Telemetry) with(k *kind, further attribute.KeyValue) measures {
	k.mu.Lock()
	defer k.mu.Unlock()
	m, ok := k.further[further]
	if !ok {
		if k.further == nil {
			k.further = map[attribute.KeyValue]measures{}
		}
		m = t.measuresOf(k.part, attribute.NewSet(append(k.set.ToSlice(), further)...))
		k.further[further] = m
	}
	return m
}

// measure measures a call, of a host for a group of so many commands.
func (t *Telemetry) measure(ctx context.Context, k *kind, c *annals.Call, r *annals.Result, group int) {
	m := k.measure
	switch {
	case k.part == ofProjection && k.op != "handle":
	case k.rejected(r.Err):
		m = t.with(k, attrRejected.Bool(true))
	case r.Err != nil:
		m = t.with(k, errorType(r.Err))
	}
	add := func(i metric.Int64Counter, n int) {
		if n > 0 {
			i.Add(ctx, int64(n), m.add...)
		}
	}
	switch k.part {
	case ofStore:
		t.storeTime.Record(ctx, r.Duration.Seconds(), m.record...)
		if r.Bytes > 0 {
			t.storeSize.Record(ctx, int64(r.Bytes), m.record...)
		}
		if r.Events > 0 {
			m.events.Add(int64(r.Events))
		}
		add(t.requests, r.Requests)
		add(t.storeRetries, r.Retries)
		add(t.throttles, r.Throttles)
		add(t.unused, r.Unused)
		if r.Warning != nil {
			add(t.storeWarnings, 1)
		}
		if r.ReadUnits > 0 {
			t.capacity.Add(ctx, r.ReadUnits, t.with(k, attrMode.String("read")).add...)
		}
		if r.WriteUnits > 0 {
			t.capacity.Add(ctx, r.WriteUnits, t.with(k, attrMode.String("write")).add...)
		}
	case ofHost:
		if !k.write {
			t.hostTime.Record(ctx, r.Duration.Seconds(), m.record...)
		}
		if group > 1 {
			t.groupSize.Record(ctx, int64(group), m.record...)
		}
		add(t.hostRetries, r.Retries)
	case ofProjection:
		t.measureProjection(ctx, k, c, r, m)
		return
	}
	if r.Err != nil && k.op != "ask" && errors.Is(r.Err, annals.ErrConflict) {
		add(t.conflicts, 1)
	}
}

func (t *Telemetry) measureProjection(ctx context.Context, k *kind, c *annals.Call, r *annals.Result, m measures) {
	switch k.op {
	case "handle":
		if c.Events == 0 {
			return // it only saves how far it has come
		}
		t.handleTime.Record(ctx, r.Duration.Seconds(), m.record...)
		t.batchSize.Record(ctx, int64(c.Events), m.record...)
		if r.Events > 0 {
			t.consumed.Add(ctx, int64(r.Events), m.add...)
			t.delay.Record(ctx, r.Lag.Seconds(), m.record...)
		}
	case "retry", "skip", "park", "stop":
		t.verdicts.Add(ctx, 1, m.add...)
	case "take", "release", "lose":
		t.leases.Add(ctx, 1, m.add...)
	case "late":
		t.late.Add(ctx, int64(c.Events), m.add...)
	case "stuck":
		t.stuck.Add(ctx, 1, m.add...)
	case "warning":
		t.warnings.Add(ctx, 1, m.add...)
	}
}
