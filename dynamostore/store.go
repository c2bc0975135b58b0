package dynamostore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/lean"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/subscription"
	"github.com/annals-go/annals/internal/valid"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Layout decides how records are stored as items. The layouts are in the packages below this one; others cannot be written.
type Layout interface{ plan.Layout }

// Options are the options of a Store. The zero value is valid.
type Options struct {
	StateTypes map[string]annals.StateType[*Tx] // by entity type
	// Findable lists, by entity type, additional columns that FindStates can search for. Each needs an index, which is created
	// with the table; an existing table without the index is ErrInvalid. A column that has an index need not be listed.
	Findable     map[string][]Findable
	CreateTables bool // create missing tables; existing tables are only checked
	// ReadUnits and WriteUnits are the provisioned capacity, in units per second, of each created table and index. Both zero: they are on demand.
	ReadUnits, WriteUnits int64
	Streams               bool          // give created tables with events a stream of new images
	Subscriptions         Subscriptions // zero: the Store is no ability.Subscriber
	// MaxInFlight is the most requests at a time; others wait. 0 is 50, or the connections of the client if these are fewer.
	// More than the client's connections is ErrInvalid: requests would wait for a connection after they got their time.
	MaxInFlight int
	Attempts    int // how often a request is sent when its answers are lost; 0 is 8
	// Strict makes numbers without an event ErrCorrupt when no mark proves that they never had one or that it was deleted alone. Otherwise
	// they are accepted in tables that a plugin or library may have left so, and annals.Result.Unused and Check report them.
	Strict bool
	// Lean sends the requests for items, and reads the items of answers, without the layers of the SDK, which take much of the processor time. It has no effect where the
	// client is not a *dynamodb.Client, or has middleware, interceptors, metrics, traces, logs, compressed answers, or a protocol, a signer or resolvers of
	// endpoints or signatures of its own, which need these layers, nor in AWS Lambda.
	Lean bool
	// ReadOnly opens the store for reading: Open creates no table and stores no settings, and every write is ErrUnsupported, also Subscribe. The program needs no right to write.
	ReadOnly bool
	Observer annals.Observer
}

const defaultAttempts = 8

// Store is an annals.Store that keeps its data in DynamoDB. It is also an ability.Transactor[*Tx], and has the abilities
// that ability.Of returns. Its methods may be called from many goroutines at once.
//
//   - Subscribe is ErrUnsupported without Options.Subscriptions, which say how it works. Watch is ErrUnsupported.
//   - SkipTo is ErrUnsupported when the layout has no journal, or none that can keep numbers without events (ability.Of).
//   - SkipStateTo is ErrUnsupported when the layout keeps no tombstones of states: then there is no place for
//     a revision without a state.
//   - FindStates yields the states of a type whose additional column has the value, in no particular order, without tombstones. They
//     are found through an index: a column without an index, and the value nil, are ErrUnsupported. Each state is then read with strong
//     consistency, so it has the value. A state written within the last second or so may be missing.
//   - Forget is ErrUnsupported where ability.Of finds no Forgetter: the tables of the layout do not say when something was deleted.
//   - CheckHealth reads an item that does not exist, and tries to write it on a condition that never holds: two requests to the
//     layout's first table, one read unit and one write unit.
type Store struct {
	*driver.Store
	offer         plan.Offer
	engine        *engine
	readOnly      bool
	types         map[string]*stateType
	common        *stateType                  // of all other entity types
	locks         locks                       // for changes that have a handler
	subscriptions *subscription.Subscriptions // nil: none
	clients       []aws.HTTPClient            // of a store that has clients of its own
	meter         func() (*meter, error)      // counts units
}

var (
	_ ability.Transactor[*Tx] = (*Store)(nil)
	_ plan.Runner             = (*Store)(nil)
)

// Execute runs a function of the layout beyond the contracts; the package of the layout exports these functions.
func (s *Store) Execute(ctx context.Context, f plan.Function) error {
	return execute(ctx, s.Store, s.view(s.executor(s.engine), nil), f)
}

// execute runs f in s, whose driver is v.
func execute(ctx context.Context, s *driver.Store, v view, f plan.Function) error {
	do := driver.Read
	if f.Writes {
		do = driver.Write
	}
	return do(ctx, s, annals.Call{Op: f.Op, ID: f.ID}, func(ctx context.Context) error {
		if f.ID != "" {
			if err := valid.ID(f.Op, f.ID, s.Capabilities().Limits); err != nil {
				return err
			}
		}
		return f.Run(ctx, v.Contracts, v.x)
	})
}

// Open checks the layout's settings and its tables. Missing tables are created when Options.CreateTables says so. A table whose keys
// or items do not fit is ErrInvalid, and the error says what is wrong. client is a *dynamodb.Client, preferably from NewClient;
// Close does not close it.
func Open(ctx context.Context, client Client, layout Layout, o Options) (*Store, error) {
	s, err := open(ctx, client, layout, o)
	if err != nil {
		return nil, named("open", err)
	}
	return s, nil
}

var errNoClient = errors.New("the client is nil")

func open(ctx context.Context, client Client, layout Layout, o Options) (*Store, error) {
	if client == nil {
		return nil, errNoClient
	}
	s, err := newStore(client, layout, o)
	if err != nil {
		return nil, err
	}
	if err := s.openTables(ctx, s.offer.Tables, s.offer.Check, o); err != nil {
		return nil, err
	}
	for _, own := range s.ownTables() {
		if err := s.openTables(ctx, []plan.Table{own.Table}, own.Check, o); err != nil {
			return nil, err
		}
	}
	if err := s.openSubscriptions(ctx, o); err != nil {
		return nil, err
	}
	return s, s.learnIndexes()
}

// newStore returns a store whose settings are checked and that has sent no request.
func newStore(client Client, layout Layout, o Options) (*Store, error) {
	if layout == nil {
		return nil, errors.New("the layout is nil")
	}
	offer, err := layout.Plan()
	if err != nil {
		return nil, err
	}
	if err := o.Subscriptions.fault(offer); err != nil {
		return nil, err
	}
	most, bound := cmp.Or(max(o.MaxInFlight, 0), defaultConnections), 0
	if c, ok := client.(interface{ Options() dynamodb.Options }); ok {
		bound = connections(c.Options().HTTPClient)
	}
	switch {
	case bound == 0 || most <= bound:
	case o.MaxInFlight > bound:
		return nil, fmt.Errorf("MaxInFlight is %d, the client has at most %d connections", o.MaxInFlight, bound)
	default:
		most = bound
	}
	if c, ok := client.(*dynamodb.Client); ok && o.Lean {
		if l := lean.New(c, once); l != nil {
			client = l
		}
	}
	s := &Store{
		offer:    offer,
		readOnly: o.ReadOnly,
		engine: &engine{
			client:    client,
			tables:    map[string]plan.Table{},
			described: map[string]*types.TableDescription{},
			slots:     make(chan struct{}, most),
			attempts:  cmp.Or(max(o.Attempts, 0), defaultAttempts),
			observed:  o.Observer != nil,
			clock:     time.Now,
		},
	}
	s.Store = driver.New(s.view(s.executor(s.engine), nil), driver.Options{Name: "dynamodb/" + offer.Name, Self: s, Atomically: s.atomically, Observer: o.Observer, ReadOnly: o.ReadOnly, Strict: o.Strict})
	s.meter = sync.OnceValues(func() (*meter, error) { return newMeter(s, layout) })
	return s, s.compileTypes(o)
}

// executor is e, or one that refuses writes when the store is open for reading only.
func (s *Store) executor(e *engine) plan.Executor {
	if s.readOnly {
		return lookOnly{e}
	}
	return e
}

// openTables prepares tables and checks what is stored in them.
func (s *Store) openTables(ctx context.Context, tables []plan.Table, check plan.Check, o Options) error {
	created, err := s.prepareTables(ctx, tables, o)
	if err == nil && check != nil {
		err = check(ctx, s.executor(s.engine), created)
		if errors.Is(err, errWrites) {
			err = s.refuseItems(ctx, tables)
		}
	}
	return err
}

// refuseItems refuses tables with items whose settings are not stored, or whose index is not filled, and which may not be written.
func (s *Store) refuseItems(ctx context.Context, tables []plan.Table) error {
	for _, t := range tables {
		if items, err := s.engine.Scan(ctx, t.Name, 1); err != nil {
			return err
		} else if len(items) > 0 {
			return plan.Misfit("table %q holds items, and opening it would store settings or fill an index: open it without ReadOnly first", t.Name)
		}
	}
	return nil
}

// view is the driver.Driver of a Store, or of a store inside a transaction. The layout does what it has no method for.
type view struct {
	plan.Contracts
	s  *Store
	x  plan.Executor
	tx *Tx // nil outside a transaction
}

func (s *Store) view(x plan.Executor, tx *Tx) view { return view{s.offer.On(x), s, x, tx} }

// Capabilities are those of the layout.
func (v view) Capabilities() annals.Capabilities { return v.s.offer.Capabilities }

// Lacks is asked by the Store: view has the methods of all layouts.
func (v view) Lacks(want any) error {
	switch want.(type) {
	case *ability.StateFinder, *plan.Runner:
		return nil
	}
	if v.tx != nil {
		return errors.New("a transaction on DynamoDB does not have it")
	}
	switch want.(type) {
	case *ability.Skipper:
		if v.Contracts.Skipper == nil {
			return errors.New("the layout cannot keep numbers without events")
		}
	case *ability.StateSkipper:
		if v.s.offer.SkipStateTo == nil {
			return errors.New("the layout keeps no tombstones of states")
		}
	case *ability.Forgetter:
		if v.Contracts.Forgetter == nil {
			return errors.New("the tables of the layout do not say when something was deleted")
		}
	case *ability.Subscriber:
		if v.s.subscriptions == nil {
			return errors.New("Options.Subscriptions.Table is empty")
		}
	}
	return nil
}

func (v view) Journal() annals.Journal         { return v.Contracts.Journal }
func (v view) Snapshots() annals.SnapshotStore { return v.Contracts.Snapshots }
func (v view) States() annals.StateStore       { return states{v} }
func (v view) Query() annals.Query             { return v.Contracts.Queries }
func (v view) Offsets() annals.OffsetStore     { return v.Contracts.Offsets }

// Fault is driver.Driver. Errors that are not *annals.Error come from the user's own functions, such as resolvers of keys.
func (view) Fault(err error) error { return &annals.Error{Kind: annals.ErrInvalid, Err: err} }

// Close is driver.Driver. A client that was given to Open is the caller's.
func (v view) Close() error {
	if v.s.subscriptions != nil {
		v.s.subscriptions.Close()
	}
	closeIdle(v.s.clients)
	return nil
}
