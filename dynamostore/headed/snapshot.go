package headed

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// snapshots is the snapshot table. It is an annals.SnapshotStore.
//
// The newest state of an entity is in its main row: the head, or the current row where heads are lean. Copies are rows with the number of
// their state in the key. The main row has a state that is at least as new as that of each copy, unless its own was deleted.
type snapshots struct {
	rows
	x      plan.Executor
	table  string
	index  string // orders the rows of an aggregate by number
	active string // the index of copies that do not expire; "" is none
	keep   int
	expire time.Duration
	events numbered.Table // the journal table
}

func (l Layout) snapshots(r rows, events numbered.Table, table plan.Table) *snapshots {
	c := l.Snapshot
	return &snapshots{rows: r, table: table.Name, index: table.Indexes[0].Name, active: l.activeIndex(), keep: c.Keep, expire: c.Expire, events: events}
}

// snapshotFaults returns all that is wrong with the settings of snapshots.
func (l Layout) snapshotFaults() error {
	var faults []error
	c := l.Snapshot
	switch {
	case c.Keep < 0 || c.Expire < 0:
		faults = append(faults, errors.New("snapshot: Keep or Expire is negative"))
	case c.Expire > 0 && c.Keep == 0:
		faults = append(faults, errors.New("snapshot: Expire is of copies, and Keep is 0"))
	case c.Keep > 0 && l.Peer == Seed:
		faults = append(faults, errors.New("snapshot: the tables of Seed have no copies, Keep must be 0"))
	}
	if f, ok := l.Format.(JSON); ok && f.SeqNr == "-" && (l.Lean || !peers[l.Peer].stateNr) {
		faults = append(faults, errors.New("format: without the member SeqNr nothing tells the number of a state"))
	}
	return errors.Join(faults...)
}

// mainKey returns the key of the main row.
func (s *snapshots) mainKey(id annals.PersistenceID) (plan.Item, error) {
	if s.lean {
		return s.current(id)
	}
	return s.key(id, 0)
}

// state returns the attributes of a snapshot row that depend on its state. before is the version of the head before the write. at is the time
// of the write where the row gets it as last_updated_at, otherwise zero.
func (r rows) state(s annals.Snapshot, before annals.SeqNr, at time.Time) (plan.Item, error) {
	stored, err := r.format.Snapshot(s, int64(max(before, 1)))
	if err != nil {
		return nil, invalid("snapshot", s.SeqNr, err)
	}
	it := plan.Item{attrPayload: r.payload(stored)}
	if r.lean || r.peer.stateNr {
		it[attrSeq] = plan.N(s.SeqNr)
	}
	told := false // the row tells the time of the state
	if !at.IsZero() && !r.peer.noUpdated {
		it[attrUpdated] = r.updated(at)
		told = r.peer.updated != 0 && inUnit(at, r.peer.updated) == inUnit(s.Time, r.peer.updated)
	}
	if r.plain && (r.lean || !r.peer.stateNr || !told || s.Manifest != s.ID.Type() || s.SerializerID != jsonSerializer) {
		it[attrState] = plan.M(plan.Item{attrSeq: plan.N(s.SeqNr), attrManifest: plan.S(s.Manifest), attrSerializer: plan.N(s.SerializerID), attrTime: plan.Micros(s.Time)})
	}
	return it, nil
}

// updated returns the attribute last_updated_at for a time.
func (r rows) updated(at time.Time) types.AttributeValue { return plan.N(inUnit(at, r.peer.updated)) }

// attrTime is in attrState: when the snapshot was taken, in microseconds since 1970.
const attrTime = "time"

// mainItem returns a new main row: a current row, or a head without events.
func (s *snapshots) mainItem(sn annals.Snapshot, state plan.Item) (plan.Item, error) {
	if !s.lean {
		return s.headItem(sn.ID, 0, state)
	}
	it, err := s.current(sn.ID)
	if err != nil {
		return nil, err
	}
	it[attrAID] = plan.S(s.aid(sn.ID))
	maps.Copy(it, state)
	return it, nil
}

// copyItem returns the copy of a state. before and after are the versions of the head before and after the write.
func (s *snapshots) copyItem(sn annals.Snapshot, before, after annals.SeqNr, at time.Time) (plan.Item, error) {
	it, err := s.row(sn.ID, sn.SeqNr)
	if err != nil {
		return nil, err
	}
	state, err := s.state(sn, before, at)
	if err != nil {
		return nil, err
	}
	maps.Copy(it, state)
	it[attrSeq] = plan.N(sn.SeqNr)
	it[attrVersion] = plan.N(s.peer.copyVersion.of(before, after))
	if !s.peer.noTTL {
		it[attrTTL] = plan.N(0)
	}
	if s.active != "" {
		it[attrActive] = plan.N(sn.SeqNr)
	}
	return it, nil
}

func (v copyVersion) of(before, after annals.SeqNr) annals.SeqNr {
	switch v {
	case versionBefore:
		return max(before, 1)
	case versionAfter:
		return after
	}
	return 1
}

// with returns what a commit that is stored at the time at stores of its snapshot sn, which may be nil: attributes of the head, and the rows beside
// it. before and after are the versions of the head.
func (s *snapshots) with(sn *annals.Snapshot, before, after annals.SeqNr, at time.Time) (head plan.Item, more []plan.Op, err error) {
	if sn == nil {
		return nil, nil, nil
	}
	taken := *sn
	if taken.Time.IsZero() {
		taken.Time = at
	}
	if head, err = s.state(taken, before, at); err != nil {
		return nil, nil, err
	}
	it, err := s.mainItem(taken, head)
	if err = cmp.Or(err, plan.Fits(it)); err != nil {
		return nil, nil, err
	}
	if s.lean {
		head, more = nil, append(more, plan.Op{Table: s.table, Put: it})
	}
	if s.keep > 0 {
		it, err := s.copyItem(taken, before, after, at)
		if err != nil {
			return nil, nil, err
		}
		more = append(more, plan.Op{Table: s.table, Put: it})
	}
	return head, more, nil
}

// mainRow is the main row of an entity.
type mainRow struct {
	item    plan.Item       // nil: there is none
	state   annals.Snapshot // has only a number when it was deleted and is not stored any more
	hidden  bool            // there is no state, or it was deleted
	version annals.SeqNr
	saves   int64
}

// read decodes a main row; nil is the zero mainRow.
func (s *snapshots) read(id annals.PersistenceID, it plan.Item) (m mainRow, err error) {
	m.item, m.hidden = it, it == nil
	if it == nil {
		return m, nil
	}
	d := plan.Decoder{Item: it}
	version, _ := d.Number(attrVersion, 0, math.MaxInt64)
	hidden, hides := d.Number(attrHidden, 0, math.MaxInt64)
	m.version = annals.SeqNr(version)
	m.saves, _ = d.Number(attrSaves, 0, math.MaxInt64)
	if d.Fault != nil {
		return mainRow{}, corrupt(it, d.Fault)
	}
	has := false
	if m.state, has, err = s.stateIn(id, it); !has {
		m.state.SeqNr = annals.SeqNr(hidden)
	}
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
	data := stored(&d)
	err := d.Fault
	if err == nil {
		s, err = r.format.ReadSnapshot(s, data)
	}
	if err != nil {
		return annals.Snapshot{}, false, corrupt(it, err)
	}
	return s, true, nil
}

// Save is annals.SnapshotStore. The main row is written on condition of what was read from it. Each save changes the row, so a request that is
// executed late and for a second time does nothing. The copy is written after it, so that a copy is never newer than the main row.
func (s *snapshots) Save(ctx context.Context, sn annals.Snapshot) error {
	if sn.Time.IsZero() {
		sn.Time = s.x.Now()
	}
	m, err := s.saveMain(ctx, sn)
	if err != nil || s.keep == 0 {
		return err
	}
	it, err := s.copyItem(sn, m.version, m.version, sn.Time)
	if err != nil {
		return err
	}
	if _, err := s.x.Write(ctx, plan.Write{Ops: []plan.Op{{Table: s.table, Put: it}}}); err != nil {
		return err
	}
	s.written(ctx, sn)
	return nil
}

// saveMain makes sn the state of the main row, unless the row has a newer one. It returns the row as it was before.
func (s *snapshots) saveMain(ctx context.Context, sn annals.Snapshot) (mainRow, error) {
	key, err := s.mainKey(sn.ID)
	if err != nil {
		return mainRow{}, err
	}
	it, _, err := s.x.Get(ctx, plan.Get{Table: s.table, Key: key})
	if err != nil {
		return mainRow{}, err
	}
	for {
		m, err := s.read(sn.ID, it)
		if err != nil || m.state.SeqNr > sn.SeqNr && (!m.hidden || s.keep > 0) {
			return m, err
		}
		op, err := s.replace(ctx, sn, key, m)
		if err != nil {
			return mainRow{}, err
		}
		out, err := s.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }})
		if err != nil || !out.Refused {
			return m, err
		}
		it = out.Old[0]
	}
}

// replace returns the op that makes sn the state of the main row m.
func (s *snapshots) replace(ctx context.Context, sn annals.Snapshot, key plan.Item, m mainRow) (plan.Op, error) {
	state, err := s.state(sn, m.version, time.Time{})
	if err != nil {
		return plan.Op{}, err
	}
	if m.item == nil {
		if err := s.events.Fits(ctx, s.x, sn.ID); err != nil {
			return plan.Op{}, err
		}
		it, err := s.mainItem(sn, state)
		return plan.Op{Table: s.table, Put: it, Condition: absent, Names: absentNames}, err
	}
	whole := maps.Clone(m.item)
	maps.Copy(whole, state)
	if err := plan.Fits(whole); err != nil {
		return plan.Op{}, err
	}
	return s.change(key, m, func(u *plan.Update) {
		u.SetAll(state)
		u.Remove(attrHidden)
		if state[attrState] == nil && m.item[attrState] != nil {
			u.Remove(attrState)
		}
	}), nil
}

// change returns an update of the main row m, on condition that nothing else has written it.
func (s *snapshots) change(key plan.Item, m mainRow, change func(u *plan.Update)) plan.Op {
	u := plan.NewUpdate()
	u.SetTo(attrSaves, u.Value(plan.N(m.saves+1)))
	change(u)
	of := attrVersion
	if s.lean {
		of = attrSeq
	}
	condition := u.Name(of) + " = " + u.Value(m.item[of])
	if m.item[attrSaves] == nil {
		condition += " AND attribute_not_exists(" + u.Name(attrSaves) + ")"
	} else {
		condition += " AND " + u.Name(attrSaves) + " = " + u.Value(plan.N(m.saves))
	}
	return plan.Op{Table: s.table, Key: key, Update: u.Expression(), Condition: condition, Names: u.Names, Values: u.Values}
}

// Latest is annals.SnapshotStore. Without copies there is only the state of the main row.
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

// main reads the main row at its key. Where there is none, rows at keys of other settings are ErrInvalid.
func (s *snapshots) main(ctx context.Context, id annals.PersistenceID) (key, it plan.Item, err error) {
	if key, err = s.mainKey(id); err != nil {
		return nil, nil, err
	}
	it, ok, err := s.x.Get(ctx, plan.Get{Table: s.table, Key: key})
	if err == nil && !ok {
		err = s.events.Fits(ctx, s.x, id)
	}
	return key, it, err
}

// newestIn returns the newest snapshot that fits c: the state of the main row m, or a copy.
func (s *snapshots) newestIn(ctx context.Context, id annals.PersistenceID, m mainRow, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	switch {
	case !m.hidden && fits(m.state, c):
		return m.state, true, nil
	case m.item == nil || s.keep == 0:
		return annals.Snapshot{}, false, nil
	}
	return s.newestCopy(ctx, id, c)
}

// newestCopy returns the newest copy that fits c. The index finds copies, and each is read at its key, because the index lags behind: it may
// have copies that are deleted. A single number needs no index.
func (s *snapshots) newestCopy(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) (annals.Snapshot, bool, error) {
	if c.MinSeqNr > 0 && c.MinSeqNr == c.MaxSeqNr {
		key, err := s.key(id, c.MinSeqNr)
		if err != nil {
			return annals.Snapshot{}, false, err
		}
		return s.copyAt(ctx, id, c, key)
	}
	for it, err := range s.copies(ctx, id, c, s.index) {
		if err != nil {
			return annals.Snapshot{}, false, err
		}
		if found, ok, err := s.copyAt(ctx, id, c, s.events.KeyOf(it)); ok || err != nil {
			return found, ok, err
		}
	}
	return annals.Snapshot{}, false, nil
}

// copyAt returns the copy at key if it fits c and has not expired.
func (s *snapshots) copyAt(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria, key plan.Item) (annals.Snapshot, bool, error) {
	it, ok, err := s.x.Get(ctx, plan.Get{Table: s.table, Key: key})
	if !ok || err != nil {
		return annals.Snapshot{}, false, err
	}
	if ttl, _ := plan.Number(it, attrTTL); ttl > 0 && ttl <= s.x.Now().Unix() {
		return annals.Snapshot{}, false, nil // the service removes such rows some days later
	}
	found, ok, err := s.stateIn(id, it)
	return found, ok && fits(found, c), err
}

// Delete is annals.SnapshotStore. The state of a head stays for the libraries, which cannot read a head without one.
func (s *snapshots) Delete(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	if err := s.deleteMain(ctx, id, c); err != nil || s.keep == 0 {
		return err
	}
	timed := !c.MinTime.IsZero() || !c.MaxTime.IsZero()
	return plan.Batches(s.copies(ctx, id, c, s.index), func(keys []plan.Item) error {
		for i, it := range keys {
			keys[i] = s.events.KeyOf(it)
		}
		if timed {
			var err error
			if keys, err = s.within(ctx, id, c, keys); err != nil {
				return err
			}
		}
		return s.x.DeleteAll(ctx, s.table, keys)
	})
}

// within returns the keys of copies whose times fit c.
func (s *snapshots) within(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria, keys []plan.Item) (fit []plan.Item, err error) {
	found, err := s.x.GetAll(ctx, plan.GetAll{Table: s.table, Keys: keys})
	for _, it := range found {
		copied, _, err := s.stateIn(id, it)
		if err != nil {
			return nil, err
		}
		if fits(copied, c) {
			fit = append(fit, s.events.KeyOf(it))
		}
	}
	return fit, err
}

// deleteMain deletes the state of the main row if it fits c.
func (s *snapshots) deleteMain(ctx context.Context, id annals.PersistenceID, c annals.SnapshotCriteria) error {
	key, it, err := s.main(ctx, id)
	for err == nil && it != nil {
		m, err := s.read(id, it)
		if err != nil || m.hidden || !fits(m.state, c) {
			return err
		}
		op := s.change(key, m, func(u *plan.Update) {
			if u.SetTo(attrHidden, u.Value(plan.N(m.state.SeqNr))); s.lean {
				u.Remove(attrPayload)
			}
		})
		out, err := s.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }})
		if err != nil || !out.Refused {
			return err
		}
		it = out.Old[0]
	}
	return err
}

// fits reports whether s fits c.
func fits(s annals.Snapshot, c annals.SnapshotCriteria) bool {
	return s.SeqNr >= c.MinSeqNr && (c.MaxSeqNr == 0 || s.SeqNr <= c.MaxSeqNr) && !s.Time.Before(c.MinTime) && (c.MaxTime.IsZero() || !s.Time.After(c.MaxTime))
}
