package storetest

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/memstore"
)

// limited is a store with limits.
type limited struct {
	faulty.Store
	limits annals.Limits
}

func newLimited(s annals.Store, limits annals.Limits) *limited {
	return &limited{faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if err := beyond(c, limits); err != nil {
			return err
		}
		return run()
	}}, limits}
}

func (s *limited) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.Limits = s.limits
	return c
}

// beyond is the error of a call about one entity that limits refuse.
func beyond(c *faulty.Call, limits annals.Limits) error {
	switch arg := c.Arg.(type) {
	case *annals.Commit:
		return valid.Commit(*arg, limits)
	case *annals.Snapshot:
		return valid.Snapshot(*arg, limits)
	case *annals.StateWrite:
		return valid.StateWrite(c.Op, *arg, limits)
	case *annals.SnapshotCriteria:
		if c.Writes {
			return valid.SnapshotDelete(c.ID, *arg, limits)
		}
	}
	if c.ID == "" {
		return nil
	}
	return valid.ID(c.Op, c.ID, limits)
}

// modest is a store that has every contract, reads entities, signals and tells of its health, and claims nothing else.
type modest struct{ *memstore.Store }

func (modest) Capabilities() annals.Capabilities {
	return annals.Capabilities{Events: true, Snapshots: true, States: true, EventQueries: true, StateQueries: true, Offsets: true, Times: true}
}
func (s modest) Journal() annals.Journal         { return plainJournal{modestJournal{s.Store.Journal()}} }
func (s modest) Snapshots() annals.SnapshotStore { return modestSnapshots{s.Store.Snapshots()} }
func (s modest) States() annals.StateStore       { return s.faulty().States() }
func (s modest) Query() annals.Query             { return s.faulty().Query() }
func (s modest) faulty() *faulty.Store           { return &faulty.Store{Store: s.Store, Around: modestly} }
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
func (modest) Check(_ context.Context, id annals.PersistenceID, _ func(ability.Stored)) ([]*ability.Damage, error) {
	return nil, unsupportedFor("check", id)
}
func (modest) Scan(context.Context, string, string) iter.Seq2[ability.Scanned, error] {
	return func(yield func(ability.Scanned, error) bool) { yield(ability.Scanned{}, unsupported("scan")) }
}
func (modest) SkipTo(_ context.Context, id annals.PersistenceID, _, _ annals.SeqNr) error {
	return unsupportedFor("skip", id)
}
func (modest) SkipStateTo(_ context.Context, id annals.PersistenceID, _ annals.SeqNr) error {
	return unsupportedFor("skip state", id)
}
func (modest) FindStates(context.Context, string, string, any) iter.Seq2[annals.State, error] {
	return func(yield func(annals.State, error) bool) { yield(annals.State{}, unsupported("find states")) }
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

// modestSnapshots keeps the newest snapshot only, without tags and metadata.
type modestSnapshots struct{ annals.SnapshotStore }

func (s modestSnapshots) Save(ctx context.Context, snap annals.Snapshot) error {
	if err := valid.Snapshot(snap, annals.Limits{}); err != nil {
		return err
	}
	snap.Tags, snap.Metadata = nil, annals.Payload{}
	return s.SnapshotStore.Save(ctx, snap)
}

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

// modestly recognises no repeated write of a state, keeps no metadata of it, and takes neither events nor deletes. It does not query
// snapshots, ids or tags.
func modestly(_ context.Context, c *faulty.Call, run func() error) error {
	switch arg := c.Arg.(type) {
	case *annals.StateWrite:
		if arg.Event != nil || c.Op == "delete state" {
			return unsupportedFor(c.Op, c.ID)
		}
		if err := valid.StateWrite(c.Op, *arg, annals.Limits{}); err != nil {
			return err
		}
		arg.WriteID, arg.Tags, arg.Metadata = annals.WriteID{}, nil, annals.Payload{}
	case *annals.Filter:
		if arg.Tag != "" || c.Op == "query snapshots" {
			return unsupported(c.Op)
		}
	}
	if c.Op == "query ids" {
		return unsupported(c.Op)
	}
	return run()
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

// unlucky loses the answer to one write when lose is set, with an error of the kind. A write in a transaction has its answer.
type unlucky struct {
	faulty.TxStore[memstore.Tx]
	lose atomic.Bool
}

func newUnlucky(kind error) *unlucky {
	s := &unlucky{}
	s.TxStore = faulty.NewTx(memstore.New(), func(_ context.Context, c *faulty.Call, run func() error) error {
		err := run()
		if err == nil && c.Writes && !c.InTx && s.lose.CompareAndSwap(true, false) {
			return &annals.Error{Op: c.Op, Kind: kind}
		}
		return err
	})
	return s
}
