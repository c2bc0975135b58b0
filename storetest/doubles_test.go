package storetest

import (
	"cmp"
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/memstore"
)

// limited is a store with limits.
type limited struct {
	annals.Store
	limits annals.Limits
}

func (s limited) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.Limits = s.limits
	return c
}
func (s limited) Journal() annals.Journal { return limitedJournal{s.Store.Journal(), s.limits} }
func (s limited) Snapshots() annals.SnapshotStore {
	return limitedSnapshots{s.Store.Snapshots(), s.limits}
}
func (s limited) States() annals.StateStore { return limitedStates{s.Store.States(), s.limits} }

type limitedJournal struct {
	annals.Journal
	limits annals.Limits
}

func (j limitedJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if err := valid.Commit(c, j.limits); err != nil {
		return annals.Receipt{}, err
	}
	return j.Journal.Append(ctx, c)
}

func (j limitedJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if err := valid.ID("replay", id, j.limits); err != nil {
		return func(yield func(annals.Event, error) bool) { yield(annals.Event{}, err) }
	}
	return j.Journal.Replay(ctx, id, from, to)
}

func (j limitedJournal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	if err := valid.ID("last number", id, j.limits); err != nil {
		return 0, err
	}
	return j.Journal.LastSeqNr(ctx, id)
}

func (j limitedJournal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	if err := valid.ID("delete events", id, j.limits); err != nil {
		return err
	}
	return j.Journal.DeleteTo(ctx, id, to)
}

type limitedSnapshots struct {
	annals.SnapshotStore
	limits annals.Limits
}

func (s limitedSnapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	if err := valid.ID("load snapshot", id, s.limits); err != nil {
		return annals.Snapshot{}, false, err
	}
	return s.SnapshotStore.Latest(ctx, id, c)
}

func (s limitedSnapshots) Save(ctx context.Context, snap annals.Snapshot) error {
	if err := valid.Snapshot(snap, s.limits); err != nil {
		return err
	}
	return s.SnapshotStore.Save(ctx, snap)
}

func (s limitedSnapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	if err := valid.SnapshotDelete(id, c, s.limits); err != nil {
		return err
	}
	return s.SnapshotStore.Delete(ctx, id, c)
}

type limitedStates struct {
	annals.StateStore
	limits annals.Limits
}

func (s limitedStates) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	if err := valid.ID("get state", id, s.limits); err != nil {
		return annals.State{}, false, err
	}
	return s.StateStore.Get(ctx, id)
}

func (s limitedStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	if err := valid.StateWrite("put state", w, s.limits); err != nil {
		return annals.Receipt{}, err
	}
	return s.StateStore.Put(ctx, w)
}

func (s limitedStates) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	if err := valid.StateWrite("delete state", w, s.limits); err != nil {
		return annals.Receipt{}, err
	}
	return s.StateStore.Delete(ctx, w)
}

// modest is a store that has every contract, reads entities, signals and tells of its health, and claims nothing else.
type modest struct{ *memstore.Store }

func (modest) Capabilities() annals.Capabilities {
	return annals.Capabilities{Events: true, Snapshots: true, States: true, EventQueries: true, StateQueries: true, Offsets: true, Times: true}
}
func (s modest) Journal() annals.Journal         { return plainJournal{modestJournal{s.Store.Journal()}} }
func (s modest) Snapshots() annals.SnapshotStore { return modestSnapshots{s.Store.Snapshots()} }
func (s modest) States() annals.StateStore       { return modestStates{s.Store.States()} }
func (s modest) Query() annals.Query             { return modestQuery{s.Store.Query()} }
func (modest) Lacks(want any) error {
	switch want.(type) {
	case *ability.Recoverer, *ability.Watcher, *ability.HealthChecker:
		return nil
	}
	return unsupported("lack")
}
func (modest) Forget(_ context.Context, f ability.Forgetting) (bool, error) {
	return false, unsupportedFor("forget", f.ID)
}
func (modest) Subscribe(context.Context, string, annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		yield(ability.Delivery{}, &annals.Error{Op: "subscribe", Kind: annals.ErrUnsupported})
	}
}
func (modest) SkipTo(_ context.Context, id annals.PersistenceID, _, _ annals.SeqNr) error {
	return unsupportedFor("skip", id)
}
func (modest) SkipStateTo(_ context.Context, id annals.PersistenceID, _ annals.SeqNr) error {
	return unsupportedFor("skip state", id)
}

func unsupported(op string) error { return unsupportedFor(op, "") }

func unsupportedFor(op string, id annals.PersistenceID) error {
	return &annals.Error{Op: op, ID: id, Kind: annals.ErrUnsupported}
}

// modestJournal keeps no metadata, no times of the caller's and no WriteID, and takes no snapshots.
type modestJournal struct{ annals.Journal }

func (j modestJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if err := valid.Commit(c, annals.Limits{}); err != nil {
		return annals.Receipt{}, err
	}
	if c.Snapshot != nil {
		return annals.Receipt{}, unsupported("append")
	}
	c.WriteID = annals.WriteID{}
	c.Events = append([]annals.NewEvent(nil), c.Events...)
	for i := range c.Events {
		c.Events[i].Metadata, c.Events[i].Time = annals.Payload{}, time.Time{}
	}
	return j.Journal.Append(ctx, c)
}

func (j modestJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		for e, err := range j.Journal.Replay(ctx, id, from, to) {
			e.WriteID = annals.WriteID{}
			if !yield(e, err) {
				return
			}
		}
	}
}

// plainJournal keeps no tags.
type plainJournal struct{ annals.Journal }

func (j plainJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if err := valid.Commit(c, annals.Limits{}); err != nil {
		return annals.Receipt{}, err
	}
	c.Events = append([]annals.NewEvent(nil), c.Events...)
	for i := range c.Events {
		c.Events[i].Tags = nil
	}
	return j.Journal.Append(ctx, c)
}

// modestSnapshots keeps the newest snapshot only, and no metadata.
type modestSnapshots struct{ annals.SnapshotStore }

func (s modestSnapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	newest, ok, err := s.SnapshotStore.Latest(ctx, id, annals.SnapshotCriteria{})
	if err != nil || !ok || c == (annals.SnapshotCriteria{}) {
		return newest, ok, err
	}
	fitting, ok, err := s.SnapshotStore.Latest(ctx, id, c)
	if fitting.SeqNr != newest.SeqNr {
		return annals.Snapshot{}, false, err
	}
	return fitting, ok, err
}

func (s modestSnapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	if err := valid.SnapshotDelete(id, c, annals.Limits{}); err != nil {
		return err
	}
	if _, ok, err := s.Latest(ctx, id, c); err == nil && !ok {
		return nil
	}
	return s.SnapshotStore.Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
}

// modestStates recognises no repeated write, keeps no metadata, and takes neither events nor deletes.
type modestStates struct{ annals.StateStore }

func (s modestStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	if w.Event != nil {
		return annals.Receipt{}, unsupported("put state")
	}
	if err := valid.StateWrite("put state", w, annals.Limits{}); err != nil {
		return annals.Receipt{}, err
	}
	w.WriteID, w.Tags, w.Metadata = annals.WriteID{}, nil, annals.Payload{}
	return s.StateStore.Put(ctx, w)
}

func (modestStates) Delete(_ context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return annals.Receipt{}, unsupportedFor("delete state", w.ID)
}

type modestQuery struct{ annals.Query }

func (q modestQuery) Events(ctx context.Context, f annals.Filter) iter.Seq2[annals.Event, error] {
	if f.Tag != "" {
		return func(yield func(annals.Event, error) bool) { yield(annals.Event{}, unsupported("query events")) }
	}
	return q.Query.Events(ctx, f)
}

func (q modestQuery) States(ctx context.Context, f annals.Filter) iter.Seq2[annals.State, error] {
	if f.Tag != "" {
		return func(yield func(annals.State, error) bool) { yield(annals.State{}, unsupported("query states")) }
	}
	return q.Query.States(ctx, f)
}

func (modestQuery) Snapshots(context.Context, annals.Filter) iter.Seq2[annals.Snapshot, error] {
	return func(yield func(annals.Snapshot, error) bool) {
		yield(annals.Snapshot{}, unsupported("query snapshots"))
	}
}

func (modestQuery) IDs(context.Context, string, annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) { yield("", unsupported("query ids")) }
}

func (q modestQuery) Newest(ctx context.Context, f annals.Filter) (annals.Offset, error) {
	if f.Tag != "" {
		return annals.Offset{}, unsupported("query newest")
	}
	return q.Query.Newest(ctx, f)
}

// timelessJournal has no times.
type timelessJournal struct{ annals.Journal }

func (j timelessJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	r, err := j.Journal.Append(ctx, c)
	r.Time = time.Time{}
	return r, err
}

func (j timelessJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		for e, err := range j.Journal.Replay(ctx, id, from, to) {
			e.Time = time.Time{}
			if !yield(e, err) {
				return
			}
		}
	}
}

// unlucky loses the answer to one write when lose is set.
type unlucky struct {
	annals.Store
	lose atomic.Bool
	kind error // of the error then; nil is ErrUnknown
}

func (s *unlucky) Journal() annals.Journal   { return unluckyJournal{s.Store.Journal(), s} }
func (s *unlucky) States() annals.StateStore { return unluckyStates{s.Store.States(), s} }

func (s *unlucky) answer(r annals.Receipt, err error) (annals.Receipt, error) {
	if err == nil && s.lose.CompareAndSwap(true, false) {
		return annals.Receipt{}, &annals.Error{Op: "write", Kind: cmp.Or(s.kind, annals.ErrUnknown)}
	}
	return r, err
}

// InTx implements ability.Transactor. The answer to a transaction is lost, not those to the writes in it.
func (s *unlucky) InTx(ctx context.Context, fn func(context.Context, memstore.Tx, annals.Store) error) error {
	tx, err := ability.Of[ability.Transactor[memstore.Tx]](s.Store)
	if err != nil {
		return err
	}
	_, err = s.answer(annals.Receipt{}, tx.InTx(ctx, fn))
	return err
}

type unluckyJournal struct {
	annals.Journal
	s *unlucky
}

func (j unluckyJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	return j.s.answer(j.Journal.Append(ctx, c))
}

type unluckyStates struct {
	annals.StateStore
	s *unlucky
}

func (st unluckyStates) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return st.s.answer(st.StateStore.Put(ctx, w))
}
