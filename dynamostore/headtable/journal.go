package headtable

import (
	"cmp"
	"context"
	"maps"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// journal is the tables of events and heads. It is an annals.Journal and an ability.Skipper.
type journal struct {
	x            plan.Executor
	table, heads string
	gaps         bool // numbers without events are no error
	writeIDs     bool // events have the WriteID of their commit
	times        *plan.Times
	snapshots    *snapshots
}

// absent is the condition that there is no item at a key.
const absent = "attribute_not_exists(#aid)"

var aidName = map[string]string{"#aid": attrAID}

// Append is annals.Journal: one transaction, which puts the events and the head. Each event is put on condition that there is none at its key, and
// the head on condition that it has the number After, or that there is no head where After is 0. The heads and events that make these conditions
// fail tell what the last number is, and whether the commit has been stored before.
func (j *journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	aid, err := aidOf(c.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	if c.After > maxSeqNr-annals.SeqNr(len(c.Events)) {
		return annals.Receipt{}, fault("the number of the last event would be above %d", maxSeqNr)
	}
	last, at := c.After+annals.SeqNr(len(c.Events)), j.times.NotBefore(c.ID, j.x.Now())
	now := at
	a := attempt{journal: j, commit: c, last: last}
	w := plan.Write{Refused: a.refused}
	var events []plan.Item
	for i := range c.Events {
		var it plan.Item
		if it, at, err = j.eventItem(c, c.After+1+annals.SeqNr(i), &c.Events[i], now); err != nil {
			return annals.Receipt{}, err
		}
		events = append(events, it)
		it = maps.Clone(it)
		it[attrAID] = plan.S(aid)
		w.Ops = append(w.Ops, plan.Op{Table: j.table, Put: it, Condition: absent, Names: aidName})
	}
	op, err := j.headOp(aid, c.After, last, events)
	if err != nil {
		return annals.Receipt{}, err
	}
	w.Ops = append(w.Ops, op)
	if j.writeIDs {
		w.Ops[len(events)-1].Ours = func(old plan.Item) bool { return a.inEvent(old) != nil }
		w.Ops[len(events)].Ours = func(old plan.Item) bool { return a.inHead(old) != nil }
	}
	if c.Snapshot != nil {
		ops, err := j.snapshots.puts(aid, *c.Snapshot, at)
		if err != nil {
			return annals.Receipt{}, err
		}
		w.Ops = append(w.Ops, ops...)
	}
	out, err := j.x.Write(ctx, w)
	switch {
	case err != nil:
		return annals.Receipt{}, err
	case out.Repeated:
		e := cmp.Or(a.inEvent(out.Old[len(events)-1]), a.inHead(out.Old[len(events)]))
		return annals.Receipt{SeqNr: last, Time: e.Time, Repeated: true}, nil
	}
	if c.Snapshot != nil {
		j.snapshots.written(ctx, aid, last)
	}
	return annals.Receipt{SeqNr: last, Time: at}, nil
}

// headOp puts the head of an entity, or changes it. The head has the events of the last commit.
func (j *journal) headOp(aid string, after, last annals.SeqNr, events []plan.Item) (plan.Op, error) {
	all := make([]types.AttributeValue, len(events))
	for i, it := range events {
		all[i] = plan.M(it)
	}
	list := plan.L(all...)
	it := headItem(aid, last, list)
	if after == 0 {
		return plan.Op{Table: j.heads, Put: it, Condition: absent, Names: aidName}, nil
	}
	it[attrDeleted] = plan.N(last) // it may have one
	return plan.Op{Table: j.heads, Key: headKey(aid), Update: "SET #seq = :last, #events = :events", Condition: "#seq = :after",
		Names: map[string]string{"#seq": attrSeq, "#events": attrEvents}, Values: plan.Item{":last": plan.N(last), ":events": list, ":after": plan.N(after)}}, plan.Fits(it)
}

// attempt is one call of Append.
type attempt struct {
	*journal
	commit annals.Commit
	last   annals.SeqNr
}

// inEvent returns the last event of the commit as an earlier try has stored it; nil when old is of another commit. A DeleteTo removes it after
// the others.
func (a attempt) inEvent(old plan.Item) *annals.Event {
	e, err := eventOf(a.commit.ID, old)
	if err != nil || e.WriteID != a.commit.WriteID {
		return nil
	}
	return &e
}

// inHead is inEvent for the head, which has the events of the last commit, also when they have been deleted.
func (a attempt) inHead(old plan.Item) *annals.Event {
	h, err := headOf(a.commit.ID, old)
	if n := len(h.events); err == nil && n > 0 && h.last == a.last && h.events[n-1].WriteID == a.commit.WriteID {
		return &h.events[n-1]
	}
	return nil
}

// refused returns ErrConflict with the number in the head.
func (a attempt) refused(old []plan.Item, _ bool) error {
	h, err := headOf(a.commit.ID, old[len(a.commit.Events)])
	if err != nil {
		return corrupt(a.heads, old[len(a.commit.Events)], err, attrAID)
	}
	return &annals.Error{Kind: annals.ErrConflict, After: a.commit.After, Last: h.last}
}

// head reads the head of an entity. An entity without a head must not have other items.
func (j *journal) head(ctx context.Context, id annals.PersistenceID) (head, error) {
	aid, err := aidOf(id)
	if err != nil {
		return head{}, err
	}
	it, ok, err := j.x.Get(ctx, plan.Get{Table: j.heads, Key: headKey(aid)})
	if err == nil && !ok {
		var found bool
		if _, found, err = j.x.Get(ctx, plan.Get{Table: j.snapshots.table, Key: snapshotKey(aid, currentPlace)}); err == nil {
			it, err = j.headAgain(ctx, aid, found)
		}
	}
	if err != nil {
		return head{}, err
	}
	return j.readHead(id, it)
}

func (j *journal) readHead(id annals.PersistenceID, it plan.Item) (head, error) {
	h, err := headOf(id, it)
	if err != nil {
		return h, corrupt(j.heads, it, err, attrAID)
	}
	if len(h.events) > 0 {
		j.times.Learn(id, h.time())
	}
	return h, nil
}

// LastSeqNr is annals.Journal: the number in the head.
func (j *journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	h, err := j.head(ctx, id)
	return h.last, err
}

// SkipTo is ability.Skipper: a head without events, whose mark hides those that are still in the table.
func (j *journal) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	aid, err := aidOf(id)
	if err != nil {
		return err
	}
	if n >= maxSeqNr {
		return fault("the number to skip to is %d, the highest is %d", n, maxSeqNr-1)
	}
	it := headItem(aid, n, plan.L())
	it[attrDeleted] = plan.N(n)
	op := plan.Op{Table: j.heads, Put: it, Condition: absent, Names: aidName, Ours: func(old plan.Item) bool {
		h, err := headOf(id, old)
		return err == nil && h.last == n && h.deleted == n && len(h.events) == 0
	}}
	if after > 0 {
		op.Condition, op.Names = "#seq = :after", map[string]string{"#seq": attrSeq}
		op.Values = plan.Item{":after": plan.N(after)}
	}
	_, err = j.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func(old []plan.Item, _ bool) error {
		h, _ := headOf(id, old[0])
		return &annals.Error{Kind: annals.ErrConflict, After: after, Last: h.last}
	}})
	if err != nil || after == 0 {
		return err
	}
	return j.DeleteTo(ctx, id, n)
}
