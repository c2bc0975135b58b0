package commit

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/timeline"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// writesKept are the attributes with the last four writes of a state, newest first. Each has a WriteID and a time, 24 bytes.
var writesKept = []string{attrWrite, "w1", "w2", "w3"}

// states are the states in a table, which is the layout's own or that of an entity type. It is a plan.States.
type states struct {
	name    string
	journal *table // the table with the events
}

// statesIn is plan.Offer.StatesIn: a table with the same keys, index and formats, and with its own settings.
func (t *table) statesIn(entityType, name string) plan.StateTable {
	t.stateTables[entityType] = name
	own := &table{name: name, index: t.index, fill: t.fill, types: t.types}
	return plan.StateTable{Table: own.shape(), Check: own.check, States: states{name, t}, SkipTo: states{name, t}.SkipTo}
}

// statesOf returns the name of the table that has the states of a type.
func (t *table) statesOf(entityType string) string {
	if name, ok := t.stateTables[entityType]; ok {
		return name
	}
	return t.name
}

func (s states) Tables() []string { return []string{s.name} }

func (s states) Get(ctx context.Context, x plan.Executor, id annals.PersistenceID) (annals.State, bool, error) {
	it, ok, err := x.Get(ctx, plan.Get{Table: s.name, Key: key(id, 0)})
	if !ok || err != nil {
		return annals.State{}, false, err
	}
	st, _, err := readState(it)
	if err == nil {
		s.journal.times.Learn(id, st.Time)
	}
	return st, err == nil && !st.Deleted, err
}

func (states) Read(it plan.Item) (annals.State, bool, error) { return readState(it) }

// readState returns the state in an item; false for an item that is no state.
func readState(it plan.Item) (annals.State, bool, error) {
	n, half, err := place(it)
	if err != nil {
		return annals.State{}, false, corrupt(n, err)
	}
	if n != 0 || half {
		return annals.State{}, false, nil
	}
	d := decode(it)
	if err := d.readable("the state"); err != nil {
		return annals.State{}, false, err
	}
	st := annals.State{ID: annals.PersistenceID(d.Text(attrID)), Revision: annals.SeqNr(d.Required(attrRevision, 1, int64(annals.MaxSeqNr))), Time: d.Time(attrTime), Tags: d.Texts(attrTags), Metadata: d.meta(), Deleted: d.Flag(attrDeleted)}
	if !st.Deleted {
		st.Payload = d.payload()
	}
	if d.Fault != nil {
		return annals.State{}, false, corrupt(n, d.Fault)
	}
	return st, true, nil
}

func revision(it plan.Item) annals.SeqNr {
	n, _ := plan.Number(it, attrRevision)
	return annals.SeqNr(n)
}

// Write is plan.States: one update, on condition of the revision.
func (s states) Write(ctx context.Context, x plan.Executor, w plan.StateWrite) (annals.Receipt, error) {
	journal := s.journal.on(x)
	if err := journal.announce(ctx, w.ID); err != nil {
		return annals.Receipt{}, err
	}
	op, err := s.op(&w)
	if err != nil {
		return annals.Receipt{}, err
	}
	write := plan.Write{Ops: []plan.Op{op}, Refused: func(old []plan.Item, open bool) error { return refusal(w, old[0], open) }}
	if w.Event != nil {
		// The event's number must be the next of the journal, so the last number is read first. The condition of the put would
		// only notice a number that is in use.
		last, err := journal.LastSeqNr(ctx, w.ID)
		if err != nil {
			return annals.Receipt{}, err
		}
		if last != w.After {
			return s.eventMisfit(ctx, x, w, last)
		}
		c := annals.Commit{ID: w.ID, After: w.After, Events: []annals.NewEvent{*w.Event}, WriteID: w.WriteID}
		if err := numbersFit(c); err != nil {
			return annals.Receipt{}, err
		}
		write.Ops = append(write.Ops, s.journal.commitOp(c, &w.Time))
	}
	out, err := x.Write(ctx, write)
	if err != nil {
		return annals.Receipt{}, err
	}
	switch {
	case out.Repeated && came(w, out.Old[0]):
		return repeated(w, out.Old[0]), nil
	case out.Repeated: // the state no longer remembers it
		return repeatedReceipt(w.ID, out.Old[1])
	}
	return annals.Receipt{SeqNr: w.After + 1, Time: w.Time}, nil
}

// eventMisfit returns the outcome of a write whose event is not the next of the journal: the write is repeated, its revision is stale, or
// an earlier write had no event.
func (s states) eventMisfit(ctx context.Context, x plan.Executor, w plan.StateWrite, last annals.SeqNr) (annals.Receipt, error) {
	it, _, err := x.Get(ctx, plan.Get{Table: s.name, Key: key(w.ID, 0)})
	if err != nil {
		return annals.Receipt{}, err
	}
	if came(w, it) {
		return repeated(w, it), nil
	}
	if revision(it) != w.After {
		return annals.Receipt{}, refusal(w, it, false)
	}
	return annals.Receipt{}, plan.Misfit("the write carries event %d, but the journal's last number is %d: every write of the entity must carry one", w.After+1, last)
}

// op returns the update that stores w, and sets w.Time to the time stored. It does not change attributes that w does not name.
func (s states) op(w *plan.StateWrite) (plan.Op, error) {
	w.Time = s.journal.times.NotBefore(w.ID, w.Time)
	fresh := plan.Item{attrFormat: plan.N(format), attrRevision: plan.N(w.After + 1), attrTime: plan.Micros(w.Time), attrWrite: plan.B(stamp(w))}
	if s.journal.index != "" {
		fresh[attrFeed] = plan.S(timeline.StateKey(w.ID))
	}
	putTags(fresh, w.Tags)
	putMeta(fresh, w.Metadata)
	if w.Deleted {
		fresh[attrDeleted] = plan.Bool(true)
	} else {
		putPayload(fresh, w.Payload)
	}
	removed, err := plan.PutColumns(fresh, w.Columns)
	if err != nil {
		return plan.Op{}, err
	}
	whole := key(w.ID, 0)
	for _, name := range writesKept {
		whole[name] = plan.B(make([]byte, 24))
	}
	maps.Copy(whole, fresh)
	if err := plan.Fits(whole); err != nil {
		return plan.Op{}, err
	}
	u := plan.NewUpdate()
	none := u.Value(plan.B(nil))
	condition := unchanged(u, w.After)
	for i := len(writesKept) - 1; i > 0; i-- {
		u.SetTo(writesKept[i], "if_not_exists("+u.Name(writesKept[i-1])+", "+none+")")
	}
	u.Replace(fresh, append(removed, attrSerializer, attrManifest, attrData, attrTags, attrMeta, attrDeleted)...)
	return plan.Op{Table: s.name, Key: key(w.ID, 0), Update: u.Expression(), Condition: condition, Names: u.Names, Values: u.Values,
		Ours: func(old plan.Item) bool { return came(*w, old) }, Stamp: s.stamping(w, fresh)}, nil
}

// unchanged is the condition that the state has the revision n.
func unchanged(u *plan.Update, n annals.SeqNr) string {
	if n == 0 {
		return "attribute_not_exists(" + u.Name(attrRevision) + ")"
	}
	return u.Name(attrRevision) + " = " + u.Value(plan.N(n))
}

func (s states) Guard(id annals.PersistenceID, n annals.SeqNr) (plan.Guard, error) {
	u := plan.NewUpdate()
	op := plan.Op{Table: s.name, Key: key(id, 0), Condition: unchanged(u, n), Names: u.Names, Values: u.Values}
	return plan.Guard{Op: op, Last: revision}, nil
}

// SkipTo is plan.Offer.SkipStateTo: a tombstone of revision n that remembers four writes without a WriteID.
func (s states) SkipTo(ctx context.Context, x plan.Executor, id annals.PersistenceID, n annals.SeqNr) error {
	if err := s.journal.on(x).announce(ctx, id); err != nil {
		return err
	}
	it := key(id, 0)
	op := plan.Op{Table: s.name, Put: it, Condition: absent, Names: idName, Ours: func(old plan.Item) bool {
		w, ok := plan.Bytes(old, attrWrite)
		return ok && len(w) == 0 && revision(old) == n
	}}
	at := func(now time.Time) { it[attrTime] = plan.Micros(s.journal.times.NotBefore(id, now)) }
	it[attrFormat], it[attrRevision], it[attrDeleted] = plan.N(format), plan.N(n), plan.Bool(true)
	for _, name := range writesKept {
		it[name] = plan.B(nil)
	}
	if at(x.Now()); s.journal.index != "" {
		it[attrFeed], op.Stamp = plan.S(timeline.StateKey(id)), at
	}
	_, err := x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func(old []plan.Item, _ bool) error {
		return &annals.Error{Kind: annals.ErrConflict, Last: revision(old[0])}
	}})
	return err
}

// stamping returns the plan.Op.Stamp of a state; nil without an index, by which states are read in the order of time.
func (s states) stamping(w *plan.StateWrite, fresh plan.Item) func(time.Time) {
	if s.journal.index == "" {
		return nil
	}
	at, last := fresh[attrTime].(*types.AttributeValueMemberN), fresh[attrWrite].(*types.AttributeValueMemberB)
	return func(now time.Time) {
		w.Time = s.journal.times.NotBefore(w.ID, now)
		at.Value, last.Value = fmt.Sprint(w.Time.UnixMicro()), stamp(w)
	}
}

// stamp returns what a state remembers of a write.
func stamp(w *plan.StateWrite) []byte {
	return binary.BigEndian.AppendUint64(slices.Clone(w.WriteID[:]), uint64(w.Time.UnixMicro()))
}

// kept returns what old remembers of the write of revision w.After+1; nil when that revision is too old, or has not been written.
func kept(w plan.StateWrite, old plan.Item) []byte {
	ago := revision(old) - (w.After + 1)
	if old == nil || ago < 0 || ago >= annals.SeqNr(len(writesKept)) {
		return nil
	}
	b, _ := plan.Bytes(old, writesKept[ago])
	return b
}

// came reports whether old remembers w.
func came(w plan.StateWrite, old plan.Item) bool {
	b := kept(w, old)
	return len(b) == 24 && bytes.Equal(b[:16], w.WriteID[:])
}

func repeated(w plan.StateWrite, old plan.Item) annals.Receipt {
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(kept(w, old)[16:]))).UTC()
	return annals.Receipt{SeqNr: w.After + 1, Time: at, Repeated: true}
}

// refusal returns the error of w, whose condition old has failed. When an earlier try of w may have been stored, and old does not remember
// writes of that revision, the error is ErrUnknown.
func refusal(w plan.StateWrite, old plan.Item, open bool) error {
	e := &annals.Error{Kind: annals.ErrConflict, After: w.After, Last: revision(old)}
	if (w.Given || open) && e.Last > w.After && kept(w, old) == nil {
		e.Kind = annals.ErrUnknown
	}
	return e
}
