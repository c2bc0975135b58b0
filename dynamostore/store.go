package dynamostore

import (
	"context"
	"errors"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/panics"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Layout says where records live. The packages below dynamostore have them; the set is sealed.
type Layout interface{ plan.Layout }

// Options of a Store; the zero Options works.
type Options struct {
	StateTypes map[string]annals.StateType[*Tx] // by entity type
	// Findable says by which additional columns the states of an entity type are to be found. The indexes are created with
	// the table; a table that has none is ErrInvalid. Columns for which a table has an index already need not be named.
	Findable     map[string][]Findable
	CreateTables bool       // create what is missing; an existing table is only checked
	Provisioned  Throughput // of created tables and indexes; zero = on demand
	Streams      bool       // created tables with events have a stream of new images
	MaxInFlight  int        // requests at a time, more wait; 0 = DefaultConnections
	Attempts     int        // how often a request is sent whose answers get lost; 0 = 8
	Observer     annals.Observer
}

// Throughput is provisioned capacity in units a second.
type Throughput struct{ ReadUnits, WriteUnits int64 }

const defaultAttempts = 8

// Store is an annals.Store, an annals.Recoverer, an annals.Skipper, an annals.StateSkipper, an annals.StateFinder, an
// annals.Forgetter, an annals.HealthChecker and an annals.Transactor[*Tx].
type Store struct {
	annals.Unsupported
	name     string
	offer    plan.Offer
	engine   *engine
	types    map[string]*stateType
	common   *stateType // of all others
	turns    turns
	observer annals.Observer
	gate     gate
}

var (
	_ annals.Store           = (*Store)(nil)
	_ annals.Recoverer       = (*Store)(nil)
	_ annals.Skipper         = (*Store)(nil)
	_ annals.StateSkipper    = (*Store)(nil)
	_ annals.HealthChecker   = (*Store)(nil)
	_ annals.StateFinder     = (*Store)(nil)
	_ annals.Forgetter       = (*Store)(nil)
	_ annals.Transactor[*Tx] = (*Store)(nil)
)

// Open checks the layout's settings and tables, or creates the tables when Options say so. A table whose keys or rows do not
// fit is ErrInvalid, and the error says what is wrong. client is a *dynamodb.Client, preferably from NewClient; Close does
// not close it.
func Open(ctx context.Context, client Client, layout Layout, o Options) (*Store, error) {
	if client == nil || layout == nil {
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: errors.New("the client or the layout is nil")}
	}
	offer, err := layout.Plan()
	if err != nil {
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	s := &Store{
		name:     "dynamodb/" + layout.Name(),
		offer:    offer,
		observer: panics.Observer(o.Observer),
		engine: &engine{
			client:    client,
			tables:    map[string]plan.Table{},
			described: map[string]*types.TableDescription{},
			slots:     make(chan struct{}, or(o.MaxInFlight, DefaultConnections)),
			attempts:  or(o.Attempts, defaultAttempts),
			observed:  o.Observer != nil,
		},
	}
	if err := s.compileTypes(o); err != nil {
		return nil, &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	if err := s.openTables(ctx, offer.Tables, offer.Check, o); err != nil {
		return nil, named("open", "", err)
	}
	for _, own := range s.ownTables() {
		if err := s.openTables(ctx, []plan.Table{own.Table}, own.Check, o); err != nil {
			return nil, named("open", "", err)
		}
	}
	if err := s.learnIndexes(); err != nil {
		return nil, named("open", "", err)
	}
	return s, nil
}

// openTables prepares tables that belong together and checks what is in them.
func (s *Store) openTables(ctx context.Context, tables []plan.Table, check func(context.Context, plan.Executor, bool) error, o Options) error {
	all := make([]plan.Table, len(tables))
	for i, t := range tables {
		all[i] = s.indexed(t)
		s.engine.tables[t.Name] = t
	}
	created, err := s.engine.prepareTables(ctx, all, o)
	if err == nil && check != nil {
		err = check(ctx, s.engine, created)
	}
	return err
}

// Journal is annals.Store.
func (s *Store) Journal() annals.Journal { return s.view().journal() }

// Snapshots is annals.Store.
func (s *Store) Snapshots() annals.SnapshotStore { return s.view().snapshots() }

// States is annals.Store.
func (s *Store) States() annals.StateStore { return s.view().states() }

// Query is annals.Store.
func (s *Store) Query() annals.Query { return s.view().query() }

// Offsets is annals.Store.
func (s *Store) Offsets() annals.OffsetStore { return s.view().offsets() }

// Capabilities are those of the layout.
func (s *Store) Capabilities() annals.Capabilities { return s.offer.Capabilities }

// Close waits for the calls in flight. Iterators end at their next item.
func (s *Store) Close() error {
	s.gate.close()
	return nil
}

func (s *Store) view() view { return view{s: s, x: s.engine} }

// view is the Store as seen from outside or from within a transaction: the contracts over one executor.
type view struct {
	s  *Store
	x  plan.Executor
	tx *Tx // nil outside
}

func (v view) journal() annals.Journal {
	if v.s.offer.Journal == nil {
		return v.s.Unsupported.Journal()
	}
	return journalView{v}
}

func (v view) snapshots() annals.SnapshotStore {
	if v.s.offer.Snapshots == nil {
		return v.s.Unsupported.Snapshots()
	}
	return snapshotsView{v}
}

func (v view) states() annals.StateStore {
	if v.s.offer.States == nil {
		return v.s.Unsupported.States()
	}
	return statesView{v}
}

func (v view) query() annals.Query {
	if v.s.offer.Queries == nil {
		return v.s.Unsupported.Query()
	}
	return queryView{v}
}

func (v view) offsets() annals.OffsetStore {
	if v.s.offer.Offsets == nil {
		return v.s.Unsupported.Offsets()
	}
	return offsetsView{v}
}

// call runs one operation of the store: closed and misplaced calls are refused, the Observer is told, errors are named.
func (v view) call(ctx context.Context, c annals.Call, write bool, run func(ctx context.Context) error) error {
	if err := v.enter(ctx, write); err != nil {
		return named(c.Op, c.ID, err)
	}
	defer v.leave()
	return named(c.Op, c.ID, v.s.observe(ctx, c, run))
}

func (v view) enter(ctx context.Context, write bool) error {
	if v.tx != nil {
		if v.tx.done.Load() {
			return &annals.Error{Kind: annals.ErrClosed}
		}
		return nil
	}
	if write && annals.ContextInTx(ctx, v.s) {
		return &annals.Error{Kind: annals.ErrInvalid, Err: errors.New("a write past the transaction that is running")}
	}
	if !v.s.gate.enter() {
		return &annals.Error{Kind: annals.ErrClosed}
	}
	return nil
}

func (v view) leave() {
	if v.tx == nil {
		v.s.gate.leave()
	}
}

func (v view) limits() annals.Limits { return v.s.offer.Capabilities.Limits }

// named is err, of the engine or a layout, with operation and id. err itself stays as it is: it may be the caller's.
func named(op string, id annals.PersistenceID, err error) error {
	e, ok := err.(*annals.Error) //nolint:errorlint // what err wraps has been named, or is the caller's
	if !ok || e.Op != "" {
		return err
	}
	with := *e
	with.Op, with.ID = op, id
	return &with
}

func or(n, standard int) int {
	if n <= 0 {
		return standard
	}
	return n
}

// gate counts the calls in flight, so that Close can wait for them.
type gate struct {
	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.calls.Add(1)
	return true
}

func (g *gate) leave() { g.calls.Done() }

func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.calls.Wait()
}
