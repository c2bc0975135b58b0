// Package faulty has a store in front of another one, whose calls a test can fail, lose the answers of, count, delay or change.
package faulty

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Store calls Around instead of each call of the store in it. It has no abilities of that store: see Able and TxStore.
type Store struct {
	annals.Store
	Around Around
	inTx   bool
}

// Around makes the call c with run, or does not, and returns its error. With an error the caller gets no result. A sequence is one call,
// which lasts as long as the caller's loop: run returns nil when the loop is left, and then the error of Around does not count.
type Around func(ctx context.Context, c *Call, run func() error) error

// Call is a call of a Store.
type Call struct {
	Op     string               // as in annals.Call
	ID     annals.PersistenceID // of the entity, if the call is about one
	Writes bool
	Store  annals.Store // that run makes the call of
	InTx   bool         // it is made within a transaction of a TxStore

	// Arg points to the Commit, StateWrite, Snapshot, SnapshotCriteria, Progress, Filter, or the SeqNr at which a replay begins or a delete of
	// events ends; nil for other calls. Result points to what is returned beside the error; it is not there for a sequence. Around may change both.
	Arg, Result any
	// Each may be set before a sequence is run. It gets a pointer to each value, which it may change, before the caller does. Its error ends the
	// sequence.
	Each func(value any) error
}

// Failed is the error of the call c when the store does not answer.
func Failed(c *Call) error {
	return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrUnavailable, Err: errors.New("failed on purpose")}
}

// Lost is the error of the call c when its answer gets lost.
func Lost(c *Call) error {
	return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrUnknown, Err: errors.New("the answer was lost on purpose")}
}

// Able is a Store with the abilities of the store in it. Their calls do not pass Around.
type Able struct{ *Store }

// Unwrap is for ability.Of.
func (s Able) Unwrap() annals.Store { return s.Store.Store }

// TxStore is a Store with transactions, which are calls with the Op "transaction". The calls within a transaction pass Around, too.
type TxStore[T any] struct {
	*Store
	transactor ability.Transactor[T]
}

// NewTx returns a TxStore in front of s.
func NewTx[T any](s interface {
	annals.Store
	ability.Transactor[T]
}, around Around) TxStore[T] {
	return TxStore[T]{&Store{Store: s, Around: around}, s}
}

// InTx is ability.Transactor.
func (s TxStore[T]) InTx(ctx context.Context, fn func(ctx context.Context, tx T, in annals.Store) error) error {
	return do(ctx, s.Store, Call{Op: "transaction", Writes: true}, func() error {
		return s.transactor.InTx(ctx, func(ctx context.Context, tx T, in annals.Store) error { return fn(ctx, tx, &Store{in, s.Around, true}) })
	})
}

// Atomically is ability.Atomic.
func (s TxStore[T]) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return s.InTx(ctx, func(ctx context.Context, _ T, in annals.Store) error { return fn(ctx, in) })
}

func ask[T any](ctx context.Context, s *Store, c Call, call func() (T, error)) (result T, err error) {
	c.Store, c.InTx, c.Result = s.Store, s.inTx, &result
	if err := s.Around(ctx, &c, func() (err error) { result, err = call(); return err }); err != nil {
		var none T
		return none, err
	}
	return result, nil
}

func do(ctx context.Context, s *Store, c Call, call func() error) error {
	_, err := ask(ctx, s, c, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

func each[T any](ctx context.Context, s *Store, c Call, all func() iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		c, left := c, false
		c.Store, c.InTx = s.Store, s.inTx
		err := s.Around(ctx, &c, func() error {
			for v, err := range all() {
				if err == nil && c.Each != nil {
					err = c.Each(&v)
				}
				if err != nil {
					return err
				}
				if left = !yield(v, nil); left {
					return nil
				}
			}
			return nil
		})
		if err != nil && !left {
			var none T
			yield(none, err)
		}
	}
}

// Journal is annals.Store.
func (s *Store) Journal() annals.Journal { return journal{s} }

// Snapshots is annals.Store.
func (s *Store) Snapshots() annals.SnapshotStore { return snapshots{s} }

// States is annals.Store.
func (s *Store) States() annals.StateStore { return states{s} }

// Query is annals.Store.
func (s *Store) Query() annals.Query { return query{s} }

// Offsets is annals.Store.
func (s *Store) Offsets() annals.OffsetStore { return offsets{s} }

type (
	journal   struct{ s *Store }
	snapshots struct{ s *Store }
	states    struct{ s *Store }
	query     struct{ s *Store }
	offsets   struct{ s *Store }
)

func (j journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	call := Call{Op: "append", ID: c.ID, Writes: true, Arg: &c}
	return ask(ctx, j.s, call, func() (annals.Receipt, error) { return j.s.Store.Journal().Append(ctx, c) })
}

func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	call := Call{Op: "replay", ID: id, Arg: &from}
	return each(ctx, j.s, call, func() iter.Seq2[annals.Event, error] { return j.s.Store.Journal().Replay(ctx, id, from, to) })
}

func (j journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	return ask(ctx, j.s, Call{Op: "last number", ID: id}, func() (annals.SeqNr, error) { return j.s.Store.Journal().LastSeqNr(ctx, id) })
}

func (j journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	return do(ctx, j.s, Call{Op: "delete events", ID: id, Writes: true, Arg: &to}, func() error { return j.s.Store.Journal().DeleteTo(ctx, id, to) })
}

func (x snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (latest annals.Snapshot, ok bool, err error) {
	latest, err = ask(ctx, x.s, Call{Op: "load snapshot", ID: id, Arg: &c}, func() (s annals.Snapshot, err error) {
		s, ok, err = x.s.Store.Snapshots().Latest(ctx, id, c)
		return s, err
	})
	return latest, ok && err == nil, err
}

func (x snapshots) Save(ctx context.Context, s annals.Snapshot) error {
	return do(ctx, x.s, Call{Op: "save snapshot", ID: s.ID, Writes: true, Arg: &s}, func() error { return x.s.Store.Snapshots().Save(ctx, s) })
}

func (x snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	return do(ctx, x.s, Call{Op: "delete snapshots", ID: id, Writes: true, Arg: &c}, func() error { return x.s.Store.Snapshots().Delete(ctx, id, c) })
}

func (x states) Get(ctx context.Context, id annals.PersistenceID) (state annals.State, ok bool, err error) {
	state, err = ask(ctx, x.s, Call{Op: "get state", ID: id}, func() (s annals.State, err error) {
		s, ok, err = x.s.Store.States().Get(ctx, id)
		return s, err
	})
	return state, ok && err == nil, err
}

func (x states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	call := Call{Op: "put state", ID: w.ID, Writes: true, Arg: &w}
	return ask(ctx, x.s, call, func() (annals.Receipt, error) { return x.s.Store.States().Put(ctx, w) })
}

func (x states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	call := Call{Op: "delete state", ID: w.ID, Writes: true, Arg: &w}
	return ask(ctx, x.s, call, func() (annals.Receipt, error) { return x.s.Store.States().Delete(ctx, w) })
}

func (q query) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	return each(ctx, q.s, Call{Op: "query events", Arg: &f}, func() iter.Seq2[annals.Event, error] { return q.s.Store.Query().Events(ctx, f) })
}

func (q query) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	return each(ctx, q.s, Call{Op: "query states", Arg: &f}, func() iter.Seq2[annals.State, error] { return q.s.Store.Query().States(ctx, f) })
}

func (q query) Snapshots(ctx context.Context, f annals.Filter) iter.Seq2[annals.Snapshot, error] {
	return each(ctx, q.s, Call{Op: "query snapshots", Arg: &f}, func() iter.Seq2[annals.Snapshot, error] { return q.s.Store.Query().Snapshots(ctx, f) })
}

func (q query) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return each(ctx, q.s, Call{Op: "query ids"}, func() iter.Seq2[annals.PersistenceID, error] { return q.s.Store.Query().IDs(ctx, entityType, after) })
}

func (q query) Newest(ctx context.Context, f annals.Filter) (annals.Offset, error) {
	return ask(ctx, q.s, Call{Op: "query newest", Arg: &f}, func() (annals.Offset, error) { return q.s.Store.Query().Newest(ctx, f) })
}

func (q query) Watermark(ctx context.Context) (time.Time, error) {
	return ask(ctx, q.s, Call{Op: "query watermark"}, func() (time.Time, error) { return q.s.Store.Query().Watermark(ctx) })
}

func (o offsets) Load(ctx context.Context, projection string, r annals.SliceRange) ([]annals.Position, error) {
	return ask(ctx, o.s, Call{Op: "load positions"}, func() ([]annals.Position, error) { return o.s.Store.Offsets().Load(ctx, projection, r) })
}

func (o offsets) Handled(ctx context.Context, projection string, ids ...annals.PersistenceID) ([]annals.Offset, error) {
	call := Call{Op: "load offsets", ID: only(ids)}
	return ask(ctx, o.s, call, func() ([]annals.Offset, error) { return o.s.Store.Offsets().Handled(ctx, projection, ids...) })
}

func (o offsets) Save(ctx context.Context, p annals.Progress) error {
	return do(ctx, o.s, Call{Op: "save offsets", Writes: true, Arg: &p}, func() error { return o.s.Store.Offsets().Save(ctx, p) })
}

func (o offsets) Reset(ctx context.Context, projection string, r annals.SliceRange, to annals.Offset) error {
	return do(ctx, o.s, Call{Op: "reset offsets", Writes: true}, func() error { return o.s.Store.Offsets().Reset(ctx, projection, r, to) })
}

func (o offsets) Forget(ctx context.Context, projection string, ids ...annals.PersistenceID) error {
	call := Call{Op: "forget offsets", ID: only(ids), Writes: true}
	return do(ctx, o.s, call, func() error { return o.s.Store.Offsets().Forget(ctx, projection, ids...) })
}

// only is the one of ids, or none.
func only(ids []annals.PersistenceID) (id annals.PersistenceID) {
	if len(ids) == 1 {
		id = ids[0]
	}
	return id
}
