package dynamostore

import (
	"context"
	"errors"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var (
	_ ability.UnitCounter = (*Store)(nil)
	_ ability.Sizer       = (*Store)(nil)
	_ ability.Observable  = (*Store)(nil)
)

// WriteUnits is ability.UnitCounter. The layout plans the writes as always, and the sizes of its requests are added up. An item that a write would update is
// read, which takes one request. No change handler is called.
func (s *Store) WriteUnits(ctx context.Context, write func(annals.Store) error) (units float64, err error) {
	err = driver.Read(ctx, s.Store, annals.Call{Op: "count units"}, func(context.Context) error {
		m, err := s.meter()
		if err == nil {
			units, err = m.count(write)
		}
		return err
	})
	return units, err
}

// Sizes is ability.Sizer. It sends no request: the sizes are those of when the store was opened, and the service counts every six hours.
func (s *Store) Sizes(ctx context.Context) (sizes []ability.Size, err error) {
	err = driver.Read(ctx, s.Store, annals.Call{Op: "size tables"}, func(context.Context) error {
		for _, t := range s.dataTables() {
			if d := s.engine.described[t.Name]; d != nil {
				size := ability.Size{Table: t.Name, Items: aws.ToInt64(d.ItemCount), Bytes: aws.ToInt64(d.TableSizeBytes)}
				for _, i := range d.GlobalSecondaryIndexes {
					size.IndexBytes += aws.ToInt64(i.IndexSizeBytes)
				}
				for _, i := range d.LocalSecondaryIndexes {
					size.IndexBytes += aws.ToInt64(i.IndexSizeBytes)
				}
				size.ReadUnits = float64((size.Bytes + 4095) / 4096)
				sizes = append(sizes, size)
			}
		}
		return nil
	})
	return sizes, err
}

// Observed is ability.Observable.
func (s *Store) Observed(o annals.Observer) annals.Store {
	e := s.engine.to(s.engine.client)
	e.observed = true
	return driver.New(s.view(s.executor(e), nil), driver.Options{Name: "dynamodb/" + s.offer.Name, Observer: o, ReadOnly: s.readOnly})
}

// to is e with another client.
func (e *engine) to(c Client) *engine {
	return &engine{client: c, tables: e.tables, described: e.described, slots: e.slots, attempts: e.attempts, clock: e.clock}
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
	own := &Store{offer: offer, engine: s.engine}
	o := Options{StateTypes: map[string]annals.StateType[*Tx]{}}
	for name, t := range s.types {
		kept := t.StateType
		kept.OnChange = nil
		o.StateTypes[name] = kept
	}
	if err := own.compileTypes(o); err != nil {
		return nil, err
	}
	m := &meter{x: &counter{engine: s.engine.to(empty{}), stored: s.engine}}
	c, r := offer.On(m.x), offer.On(replacing{s.engine, m.x})
	c.Snapshots, c.Offsets = r.Snapshots, r.Offsets // what they replace is needed for what they write
	m.Store = driver.New(view{Contracts: c, s: own, x: m.x}, driver.Options{Name: "dynamodb/" + offer.Name})
	return m, nil
}

func (m *meter) count(write func(annals.Store) error) (float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.x.units = 0
	err := write(m)
	return m.x.units, err
}

// counter is a plan.Executor over tables without items. It counts what is written.
type counter struct {
	*engine         // of a service that is empty
	stored  *engine // reads items that are updated
	units   float64
}

// empty is a service whose tables have no items.
type empty struct{ Client }

func (empty) GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return &dynamodb.GetItemOutput{}, nil
}

func (empty) BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return &dynamodb.BatchGetItemOutput{}, nil
}

func (empty) TransactGetItems(_ context.Context, in *dynamodb.TransactGetItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error) {
	return &dynamodb.TransactGetItemsOutput{Responses: make([]types.ItemResponse, len(in.TransactItems))}, nil
}

func (empty) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{}, nil
}

func (empty) Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return &dynamodb.ScanOutput{}, nil
}

func (*counter) DeleteAll(context.Context, string, []plan.Item) error { return nil }

func (*counter) Then(context.Context, func(ctx context.Context, x plan.Executor) error) error {
	return nil
}

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
		it, before := op.Item(), plan.Item(nil) // an update takes the units of the larger item, of that before it and after it
		if op.Update != "" {
			stored, ok, err := x.stored.Get(ctx, plan.Get{Table: op.Table, Key: op.Key})
			if err != nil {
				return out, err
			}
			if ok {
				it, before = stored, stored
			}
			it = plan.Updated(it, op)
		}
		if err := plan.Fits(it); err != nil {
			return out, err
		}
		t := x.tables[op.Table]
		x.units += times * max(unitsOf(it), unitsOf(before))
		for _, i := range t.Indexes {
			keys := i
			keys.KeysOnly = true
			was, in := projected(t, i, before), projected(t, i, it)
			switch {
			case was != nil && in != nil && !plan.SameKey(projected(t, keys, was), projected(t, keys, in)): // it is removed at one place, and written at another
				x.units += unitsOf(was) + unitsOf(in)
			case was != nil || in != nil:
				x.units += max(unitsOf(was), unitsOf(in))
			}
		}
	}
	return out, nil
}

// replacing is a counter that reads what is there.
type replacing struct {
	*engine
	counts *counter
}

// Write is Write of the counter. What is written apart would be read again, so it ends the count.
func (x replacing) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if w.Apart {
		return plan.Outcome{}, &annals.Error{Kind: annals.ErrUnsupported, Err: errors.New("this takes several writes, of which each depends on the last")}
	}
	return x.counts.Write(ctx, w)
}

func (replacing) DeleteAll(context.Context, string, []plan.Item) error { return nil }

func (replacing) Then(context.Context, func(ctx context.Context, x plan.Executor) error) error {
	return nil
}

// unitsOf is one unit for each begun KB of an item.
func unitsOf(it plan.Item) float64 { return float64(max((plan.Size(it)+1023)/1024, 1)) }

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
