package esa

import (
	"cmp"
	"context"
	"maps"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// stateTable is the snapshot table, as the journal needs it.
type stateTable interface {
	annals.SnapshotStore
	// begin reads the head and the newest state.
	begin(ctx context.Context, j *journal, id annals.PersistenceID) (head, driver.Beginning, error)
	// exist reports whether there are rows of id which are no heads.
	exist(ctx context.Context, id annals.PersistenceID) (bool, error)
	// with returns what a commit that is stored at the time at stores of its snapshot sn, which may be nil: attributes of the head, and the rows
	// beside it. before and after are the versions of the head.
	with(sn *annals.Snapshot, before, after annals.SeqNr, at time.Time) (head plan.Item, more []plan.Op, err error)
	// written is called after a write of sn, and retain deletes or marks copies.
	written(ctx context.Context, sn annals.Snapshot)
	retain(ctx context.Context, id annals.PersistenceID, written annals.SeqNr) error
}

// snapshots is the snapshot table with the heads. It is an annals.SnapshotStore.
//
// The newest state of an entity is in its head. Copies are rows with the number of their state in the key. The head has a state that is at
// least as new as that of each copy, unless its own was deleted.
type snapshots struct {
	copies
	events numbered.Table // the journal table
}

// state returns the attributes of a snapshot row that depend on its state. before is the version of the head before the write. at is the time
// of the write where the row gets it as last_updated_at, otherwise zero.
func (r rows) state(s annals.Snapshot, before annals.SeqNr, at time.Time) (plan.Item, error) {
	stored, err := r.format.Snapshot(s, int64(max(before, 1)))
	if err != nil {
		return nil, unfit("snapshot", s.SeqNr, err)
	}
	it := plan.Item{attrPayload: r.stored(stored)}
	if r.peer.stateNr {
		it[attrSeq] = plan.N(s.SeqNr)
	}
	told := false // the row tells the time of the state
	if !at.IsZero() && !r.peer.noUpdated {
		it[attrUpdated] = r.updated(at)
		told = r.peer.updated != 0 && inUnit(at, r.peer.updated) == inUnit(s.Time, r.peer.updated)
	}
	if r.format.plain && (!r.peer.stateNr || !told || s.Manifest != s.ID.Type() || s.SerializerID != jsonSerializer) {
		it[attrState] = plan.M(plan.Item{attrSeq: plan.N(s.SeqNr), attrManifest: plan.S(s.Manifest), attrSerializer: plan.N(s.SerializerID), attrTime: plan.Micros(s.Time)})
	}
	return it, nil
}

// updated returns the attribute last_updated_at for a time.
func (r rows) updated(at time.Time) types.AttributeValue { return plan.N(inUnit(at, r.peer.updated)) }

// attrTime is in attrState: when the snapshot was taken, in microseconds since 1970.
const attrTime = "time"

// copyItem returns the copy of a state. before and after are the versions of the head before and after the write.
func (s *snapshots) copyItem(sn annals.Snapshot, before, after annals.SeqNr, at time.Time) (plan.Item, error) {
	it, err := s.stateKey(sn.ID, sn.SeqNr)
	if err != nil {
		return nil, err
	}
	state, err := s.state(sn, before, at)
	if err != nil {
		return nil, err
	}
	maps.Copy(it, state)
	it[attrAID], it[attrSeq], it[attrTTL] = plan.S(s.aid(sn.ID)), plan.N(sn.SeqNr), plan.N(0)
	it[attrVersion] = plan.N(s.peer.copyVersion(before, after))
	if s.active != "" {
		it[s.peer.attrActive()] = plan.N(sn.SeqNr)
	}
	return it, nil
}

func (s *snapshots) with(sn *annals.Snapshot, before, after annals.SeqNr, at time.Time) (head plan.Item, more []plan.Op, err error) {
	if sn == nil {
		return nil, nil, nil
	}
	taken := *sn
	if taken.Time.IsZero() {
		taken.Time = at
	}
	if head, err = s.state(taken, before, at); err != nil || s.keep == 0 {
		return head, nil, err
	}
	it, err := s.copyItem(taken, before, after, at)
	return head, []plan.Op{{Table: s.shape.Name, Put: it}}, err
}

// stated is a head with the state in it.
type stated struct {
	head
	state  annals.Snapshot
	hidden bool // there is no state, or it was deleted
	saves  int64
}

// read decodes a head of id; nil is one without a state.
func (s *snapshots) read(id annals.PersistenceID, it plan.Item) (m stated, err error) {
	if m.hidden = it == nil; m.hidden {
		return m, nil
	}
	if m.head, err = s.head(id, it); err != nil {
		return m, err
	}
	d := plan.Decoder{Item: it}
	hidden, hides := d.Number(attrHidden, 0, math.MaxInt64)
	if m.saves, _ = d.Number(attrSaves, 0, math.MaxInt64); d.Fault != nil {
		return stated{}, corrupt(it, d.Fault)
	}
	has := false
	m.state, has, err = s.stateIn(id, it)
	m.hidden = !has || hides && m.state.SeqNr == annals.SeqNr(hidden)
	return m, err
}

// stateIn decodes the state in a snapshot row of id. It returns false for a head without a state.
func (r rows) stateIn(id annals.PersistenceID, it plan.Item) (annals.Snapshot, bool, error) {
	if it[attrPayload] == nil {
		return annals.Snapshot{}, false, nil
	}
	d := plan.Decoder{Item: it}
	s := annals.Snapshot{ID: id, SeqNr: annals.SeqNr(d.Required(attrSeq, 0, math.MaxInt64)), Payload: annals.Payload{SerializerID: jsonSerializer, Manifest: id.Type()}}
	if n, ok := d.Number(attrUpdated, math.MinInt64, math.MaxInt64); ok {
		s.Time = inTime(n, r.peer.updated)
	}
	// A library that writes another state leaves attrState as it is. Then the number in it is no longer that of the row.
	if it[attrState] != nil {
		of := plan.Decoder{Item: d.Map(attrState)}
		n := annals.SeqNr(of.Required(attrSeq, 0, math.MaxInt64))
		if s.SeqNr == n || s.SeqNr == 0 {
			s.SeqNr, s.Time = n, of.Time(attrTime)
			s.Manifest, s.SerializerID = of.Text(attrManifest), int32(of.Required(attrSerializer, math.MinInt32, math.MaxInt32))
		}
		if of.Fault != nil {
			d.Wrong(attrState)
		}
	}
	data := r.readStored(&d)
	err := d.Fault
	if err == nil {
		s, err = r.format.ReadSnapshot(s, data)
	}
	if err != nil {
		return annals.Snapshot{}, false, corrupt(it, err)
	}
	return s, true, nil
}

func (s *snapshots) begin(ctx context.Context, j *journal, id annals.PersistenceID) (h head, b driver.Beginning, err error) {
	if h, err = j.read(ctx, id); err != nil {
		return h, b, err
	}
	m, err := s.read(id, h.item)
	if err != nil {
		return h, b, err
	}
	if !m.hidden || s.keep == 0 {
		b.Settled = h.deleted // the head would have a newer state
	}
	b.Snapshot, b.Found, err = s.newestIn(ctx, id, m, annals.SnapshotCriteria{})
	return h, b, err
}

func (s *snapshots) exist(ctx context.Context, id annals.PersistenceID) (bool, error) {
	if s.keep == 0 {
		return false, nil
	}
	_, found, err := plan.First(s.all(ctx, id, annals.SnapshotCriteria{}, s.shape.Indexes[0].Name))
	return found, err
}

// Save is annals.SnapshotStore. The head is written on condition of what was read from it. Each save changes the row, so a request that is
// executed late and for a second time does nothing. The copy is written after it, so that a copy is never newer than the head.
func (s *snapshots) Save(ctx context.Context, sn annals.Snapshot) error {
	if sn.Time.IsZero() {
		sn.Time = s.x.Now()
	}
	m, err := s.change(ctx, sn.ID, func(key plan.Item, m stated) (op plan.Op, ok bool, err error) {
		if m.state.SeqNr > sn.SeqNr && (!m.hidden || s.keep > 0) {
			return op, false, nil
		}
		state, err := s.state(sn, m.version, time.Time{})
		if err != nil {
			return op, false, err
		}
		if m.item == nil {
			it, err := s.headItem(sn.ID, 0, state)
			return s.create(s.shape.Name, it), true, err
		}
		whole := maps.Clone(m.item)
		maps.Copy(whole, state)
		return s.update(key, m, func(u *plan.Update) {
			u.SetAll(state)
			u.Remove(attrHidden)
			if state[attrState] == nil && m.item[attrState] != nil {
				u.Remove(attrState)
			}
		}), true, plan.Fits(whole)
	})
	if err != nil || s.keep == 0 {
		return err
	}
	it, err := s.copyItem(sn, m.version, m.version, sn.Time)
	if err != nil {
		return err
	}
	if _, err := s.x.Write(ctx, plan.Write{Ops: []plan.Op{{Table: s.shape.Name, Put: it}}}); err != nil {
		return err
	}
	s.written(ctx, sn)
	return nil
}

// change writes the op that of makes for the head of id, until the head is as it was read. It returns that head. of returns false for a head that
// is to stay as it is.
func (s *snapshots) change(ctx context.Context, id annals.PersistenceID, of func(key plan.Item, m stated) (plan.Op, bool, error)) (stated, error) {
	key, it, err := s.main(ctx, id)
	if err != nil {
		return stated{}, err
	}
	for {
		m, err := s.read(id, it)
		if err != nil {
			return m, err
		}
		op, ok, err := of(key, m)
		if !ok || err != nil {
			return m, err
		}
		out, err := plan.Try(ctx, s.x, op)
		if err != nil || !out.Refused {
			return m, err
		}
		it = out.Old[0]
	}
}

// update returns an update of the head m, on condition that nothing else has written it.
func (s *snapshots) update(key plan.Item, m stated, change func(u *plan.Update)) plan.Op {
	u := plan.NewUpdate()
	u.SetTo(attrSaves, u.Value(plan.N(m.saves+1)))
	change(u)
	condition := u.Name(attrVersion) + " = " + u.Value(plan.N(m.version))
	if m.item[attrSaves] == nil {
		condition += " AND attribute_not_exists(" + u.Name(attrSaves) + ")"
	} else {
		condition += " AND " + u.Name(attrSaves) + " = " + u.Value(plan.N(m.saves))
	}
	return plan.Op{Table: s.shape.Name, Key: key, Update: u.Expression(), Condition: condition, Names: u.Names, Values: u.Values}
}

// main reads the head at its key. Where there is none, rows at keys of other settings are ErrInvalid.
func (s *snapshots) main(ctx context.Context, id annals.PersistenceID) (key, it plan.Item, err error) {
	if key, err = s.headKey(id); err != nil {
		return nil, nil, err
	}
	it, ok, err := s.x.Get(ctx, plan.Get{Table: s.shape.Name, Key: key})
	if err == nil && !ok {
		err = s.events.Fits(ctx, s.x, id)
	}
	return key, it, err
}

// Latest is annals.SnapshotStore. Without copies there is only the state of the head.
func (s *snapshots) Latest(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	_, it, err := s.main(ctx, id)
	if it == nil || err != nil {
		return annals.Snapshot{}, false, err
	}
	m, err := s.read(id, it)
	if err != nil {
		return annals.Snapshot{}, false, err
	}
	return s.newestIn(ctx, id, m, c)
}

// newestIn returns the newest snapshot that fits c: the state of the head m, or a copy. The index finds copies, and each is read at its key,
// because the index lags behind: it may have copies that are deleted. A single number needs no index.
func (s *snapshots) newestIn(ctx context.Context, id annals.PersistenceID, m stated, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	switch {
	case !m.hidden && s.fits(m.state, c):
		return m.state, true, nil
	case m.item == nil || s.keep == 0:
		return annals.Snapshot{}, false, nil
	case c.MinSeqNr > 0 && c.MinSeqNr == c.MaxSeqNr:
		key, err := s.stateKey(id, c.MinSeqNr)
		if err != nil {
			return annals.Snapshot{}, false, err
		}
		return s.copyAt(ctx, id, c, key)
	}
	return plan.First(plan.Picked(s.all(ctx, id, c, s.shape.Indexes[0].Name), func(it plan.Item) (annals.Snapshot, bool, error) {
		return s.copyAt(ctx, id, c, s.shape.KeyOf(it))
	}))
}

// copyAt returns the copy at key if it fits c and has not expired.
func (s *snapshots) copyAt(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria, key plan.Item) (annals.Snapshot, bool, error) {
	it, ok, err := s.x.Get(ctx, plan.Get{Table: s.shape.Name, Key: key})
	if !ok || err != nil || s.expired(it) {
		return annals.Snapshot{}, false, err
	}
	found, ok, err := s.stateIn(id, it)
	return found, ok && s.fits(found, c), err
}

// Delete is annals.SnapshotStore. The state of a head stays for the libraries, which cannot read a head without one.
func (s *snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	_, err := s.change(ctx, id, func(key plan.Item, m stated) (plan.Op, bool, error) {
		if m.hidden || !s.fits(m.state, c) {
			return plan.Op{}, false, nil
		}
		return s.update(key, m, func(u *plan.Update) { u.SetTo(attrHidden, u.Value(plan.N(m.state.SeqNr))) }), true, nil
	})
	if err != nil || s.keep == 0 {
		return err
	}
	return plan.Batches(s.all(ctx, id, c, s.shape.Indexes[0].Name), func(found []plan.Item) error {
		keys, err := s.within(ctx, id, c, found)
		return cmp.Or(err, s.x.DeleteAll(ctx, s.shape.Name, keys))
	})
}

// within returns the keys of those of copies whose times fit c.
func (s *snapshots) within(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria, found []plan.Item) (fit []plan.Item, err error) {
	keys := make([]plan.Item, len(found))
	for i, it := range found {
		keys[i] = s.shape.KeyOf(it)
	}
	if c.MinTime.IsZero() && c.MaxTime.IsZero() {
		return keys, nil
	}
	found, err = s.x.GetAll(ctx, s.shape.Name, keys)
	for _, it := range found {
		copied, _, err := s.stateIn(id, it)
		if err != nil {
			return nil, err
		}
		if s.fits(copied, c) {
			fit = append(fit, s.shape.KeyOf(it))
		}
	}
	return fit, err
}

// fits reports whether s fits c.
func (r rows) fits(s annals.Snapshot, c annals.SnapshotCriteria) bool {
	unit := time.Duration(0)
	if r.apart {
		unit = r.peer.updated
	}
	from, to, some := plan.Numbers(c, 0)
	return some && from <= s.SeqNr && s.SeqNr <= to && plan.InTime(c, s.Time, unit)
}
