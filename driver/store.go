package driver

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// Store is an annals.Store in front of a Driver. It has the abilities that its Driver has: ability.Of returns them. A type that embeds a Store
// and adds an ability that the Driver lacks needs a Lacks of its own. Its methods may be called from many goroutines at once.
type Store struct {
	annals.Store // set by New
	front        *store
}

// Unwrap is for ability.Of: it returns a store that has the methods of all abilities. What the Driver lacks is ErrUnsupported there.
func (s *Store) Unwrap() annals.Store { return s.front }

// Lacks is for ability.Of: it says why the Driver lacks an ability, nil when it has it.
func (s *Store) Lacks(want any) error { return s.front.Lacks(want) }

// store is what New puts in front of a Driver.
type store struct {
	name       string
	driver     Driver
	caps       annals.Capabilities
	observer   annals.Observer
	readWait   time.Duration
	strict     bool
	readOnly   bool
	atomically func(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error // nil: it is not ability.Atomic
	unused     *sync.Once                                                                           // the first unused numbers are logged

	self annals.Store // what users hold
	gate *gate
	tx   *transaction // nil outside
}

// Options of a Store.
type Options struct {
	// Name is Call.Store, such as "sqlite".
	Name string
	// Self is the annals.Store that users hold and that embeds the Store. nil is the Store.
	Self annals.Store
	// Observer may be nil. A panic in it disturbs no call.
	Observer annals.Observer
	// ReadWait bounds how long Close waits for reads, which only their contexts end. Zero is no bound.
	ReadWait time.Duration
	// ReadOnly makes calls that write ErrUnsupported, also InTx and Subscribe; the Driver gets none of them.
	ReadOnly bool
	// Strict makes numbers without an event ErrCorrupt, unless a mark proves that they were left unused. Check accepts them.
	Strict bool
	// Atomically is ability.Atomic for Self: its InTx, without the transaction of the database. nil: the Store is not Atomic.
	Atomically func(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error
}

// New returns a Store in front of d.
func New(d Driver, o Options) *Store {
	s := &store{name: o.Name, driver: d, caps: d.Capabilities(), observer: panics.Observer(o.Observer), readWait: o.ReadWait, strict: o.Strict, readOnly: o.ReadOnly, atomically: o.Atomically, unused: &sync.Once{}, self: o.Self, gate: &gate{}}
	front := &Store{s, s}
	if s.self == nil {
		s.self = front
	}
	return front
}

// Capabilities are those of the Driver.
func (s *store) Capabilities() annals.Capabilities { return s.caps }

// Close waits for the calls under way and closes the Driver; later calls answer ErrClosed. It must not be called within InTx. A
// second Close does nothing, as does Close of a store within a transaction, which ends with its function.
func (s *store) Close() error {
	if s.tx != nil {
		return nil
	}
	var err error
	s.gate.once.Do(func() {
		if !s.gate.close(s.readWait) {
			err = &annals.Error{Op: "close", Kind: annals.ErrUnavailable, Err: errors.New("the backend does not answer reads that began before")}
		}
		if closing := s.driver.Close(); closing != nil {
			err = errors.Join(err, s.named(annals.Call{Op: "close"}, closing))
		}
	})
	return err
}

// named is err with a Kind, operation and entity.
func (s *store) named(c annals.Call, err error) error {
	e, ok := err.(*annals.Error) //nolint:errorlint // an error that wraps one is the driver's to translate
	if !ok {
		if e, ok = s.driver.Fault(err).(*annals.Error); !ok { //nolint:errorlint // as above
			e = &annals.Error{Kind: annals.ErrUnavailable, Err: err}
		}
	}
	if e.Op != "" {
		return e
	}
	named := *e // err may be a variable of the driver's
	named.Op = c.Op
	if named.ID == "" {
		named.ID = c.ID
	}
	return &named
}
