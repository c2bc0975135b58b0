package dynamostore

import (
	"context"
	"iter"
	"maps"
	"strings"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/aws"
)

var (
	_ ability.UnitCounter = (*Store)(nil)
	_ ability.EventSizer  = (*Store)(nil)
	_ ability.Observable  = (*Store)(nil)
)

// WriteUnits is ability.UnitCounter. The layout plans the append as always, and the sizes of its requests are added up. An item that the
// append would update is read, which takes one request. A first commit without the snapshot that a layout demands is counted with an empty one.
func (s *Store) WriteUnits(ctx context.Context, c annals.Commit) (units float64, err error) {
	err = driver.Read(ctx, s.Store, annals.Call{Op: "count units", ID: c.ID}, func(ctx context.Context) error {
		m, err := s.meter()
		if err == nil {
			units, err = m.count(ctx, c)
		}
		return err
	})
	return units, err
}

// EventsSize is ability.EventSizer. It sends no request: the size is that of the tables when the store was opened, and the service counts every six hours.
func (s *Store) EventsSize(ctx context.Context) (size ability.Size, err error) {
	err = driver.Read(ctx, s.Store, annals.Call{Op: "size events"}, func(context.Context) error {
		for _, t := range s.offer.Tables {
			if d := s.engine.described[t.Name]; t.Stream && d != nil {
				size.Items += aws.ToInt64(d.ItemCount)
				size.Bytes += aws.ToInt64(d.TableSizeBytes)
				for _, i := range d.GlobalSecondaryIndexes {
					size.IndexBytes += aws.ToInt64(i.IndexSizeBytes)
				}
				for _, i := range d.LocalSecondaryIndexes {
					size.IndexBytes += aws.ToInt64(i.IndexSizeBytes)
				}
			}
		}
		size.ReadUnits = float64((size.Bytes + 4095) / 4096)
		return nil
	})
	return size, err
}

// Observed is ability.Observable.
func (s *Store) Observed(o annals.Observer) annals.Store {
	e := s.engine
	e = &engine{client: e.client, tables: e.tables, described: e.described, slots: e.slots, attempts: e.attempts, clock: e.clock, observed: true}
	return driver.New(s.view(e, nil), driver.Options{Name: "dynamodb/" + s.offer.Name, Observer: o})
}

// meter is a store that writes nothing and counts. Its layout is one of its own, because layouts remember what was appended.
type meter struct {
	*driver.Store
	mu sync.Mutex
	x  *counter
}

func newMeter(s *Store, layout Layout) (*meter, error) {
	offer, err := layout.Plan()
	if err != nil {
		return nil, err
	}
	tables := map[string]plan.Table{}
	for _, t := range offer.Tables {
		tables[t.Name] = t
	}
	m := &meter{x: &counter{engine: s.engine, tables: tables}}
	m.Store = driver.New(view{Contracts: offer.On(m.x), s: &Store{offer: offer, engine: s.engine, common: s.common, types: s.types}, x: m.x}, driver.Options{Name: "dynamodb/" + offer.Name})
	return m, nil
}

func (m *meter) count(ctx context.Context, c annals.Commit) (float64, error) {
	if c.After == 0 && c.Snapshot == nil && m.Capabilities().Limits.FirstSnapshot {
		c.Snapshot = &annals.Snapshot{ID: c.ID, SeqNr: annals.SeqNr(len(c.Events)), Payload: annals.Payload{SerializerID: 1}}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.x.units = 0
	_, err := m.Journal().Append(ctx, c)
	return m.x.units, err
}

// counter is a plan.Executor over tables without items. It counts what is written.
type counter struct {
	*engine // tells the time, and reads items that are updated
	tables  map[string]plan.Table
	units   float64
}

func (*counter) Get(context.Context, plan.Get) (plan.Item, bool, error) { return nil, false, nil }

func (*counter) GetAll(context.Context, string, []plan.Item) ([]plan.Item, error) { return nil, nil }

func (*counter) GetEach(_ context.Context, _ string, keys iter.Seq[plan.Item], _ int) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for range keys {
			if !yield(nil, nil) {
				return
			}
		}
	}
}

func (*counter) GetMany(_ context.Context, gets []plan.Get) ([]plan.Item, error) {
	return make([]plan.Item, len(gets)), nil
}

func (*counter) GetTogether(_ context.Context, gets []plan.Get) ([]plan.Item, error) {
	return make([]plan.Item, len(gets)), nil
}

func (*counter) Query(context.Context, plan.Query) iter.Seq2[plan.Item, error] {
	return nothing[plan.Item]
}

func (*counter) Merge(context.Context, []plan.Query, string) iter.Seq2[plan.Item, error] {
	return nothing[plan.Item]
}

func (*counter) Series(_ context.Context, queries iter.Seq[plan.Query], _ int) iter.Seq2[plan.Page, error] {
	return func(yield func(plan.Page, error) bool) {
		n := 0
		for range queries {
			if !yield(plan.Page{Query: n, Last: true}, nil) {
				return
			}
			n++
		}
	}
}

func (*counter) Scan(context.Context, string, int) ([]plan.Item, error) { return nil, nil }

func (*counter) ScanAll(context.Context, string, []string, plan.Part) iter.Seq2[plan.Item, error] {
	return nothing[plan.Item]
}

func (*counter) DeleteAll(context.Context, string, []plan.Item) error { return nil }

func (*counter) Then(context.Context, func(ctx context.Context, x plan.Executor)) {}

func nothing[T any](func(T, error) bool) {}

// Write adds the units of w. A transaction takes twice the units, but in indexes.
func (x *counter) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	out := plan.Outcome{Old: make([]plan.Item, len(w.Ops))}
	if w.Apart {
		return out, nil
	}
	times := 1.0
	if len(w.Ops) > 1 || w.Token != "" {
		times = 2
	}
	for _, op := range w.Ops {
		it, before := op.Item(), 0.0 // an update takes the units of the larger item, of that before it and after it
		if op.Update != "" {
			stored, ok, err := x.engine.Get(ctx, plan.Get{Table: op.Table, Key: op.Key})
			if err != nil {
				return out, err
			}
			if ok {
				it, before = stored, unitsOf(stored)
			}
			it = updated(it, op)
		}
		if err := plan.Fits(it); err != nil {
			return out, err
		}
		x.units += times * max(unitsOf(it), before)
		for _, i := range x.tables[op.Table].Indexes {
			if in := projected(x.tables[op.Table], i, it); in != nil {
				x.units += unitsOf(in)
			}
		}
	}
	return out, nil
}

// unitsOf is one unit for each begun KB of an item.
func unitsOf(it plan.Item) float64 { return float64(max((plan.Size(it)+1023)/1024, 1)) }

// updated is it after an update that plan.Update has built.
func updated(it plan.Item, op plan.Op) plan.Item {
	it = maps.Clone(it)
	sets, removes, _ := strings.Cut(strings.TrimPrefix(op.Update, "SET "), " REMOVE ")
	for set := range strings.SplitSeq(sets, ", ") {
		name, value, _ := strings.Cut(set, " = ")
		if v, ok := op.Values[value]; ok {
			it[op.Names[name]] = v
		}
	}
	for name := range strings.SplitSeq(removes, ", ") {
		delete(it, op.Names[name])
	}
	return it
}

// projected is what an index has of an item; nil when it does not have the item.
func projected(t plan.Table, i plan.Index, it plan.Item) plan.Item {
	keys := t.KeyOf(it)
	for _, k := range []plan.Key{i.Hash, i.Range} {
		if k.Name == "" {
			continue
		}
		if it[k.Name] == nil {
			return nil
		}
		keys[k.Name] = it[k.Name]
	}
	if i.KeysOnly {
		return keys
	}
	return it
}
