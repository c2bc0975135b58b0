package akka

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
)

// journal is the journal table. It is an annals.Journal.
type journal struct {
	plan.Reads
	akkakeys.Journal
	index     string // of ids; "" is none
	old       bool   // write the old format
	gaps      bool   // numbers without events are no error
	ahead     int    // groups that a replay reads ahead
	known     *plan.Recent[annals.PersistenceID, known]
	snapshots *snapshots    // nil: there are none
	x         plan.Executor // runs the requests; set by plan.Offer.On
}

// known is what this process has found out about an entity.
type known struct {
	last     annals.SeqNr // the last number, written or read; there was nothing in the group behind it
	unmarked bool         // the group of last has events, but no marker
}

// Append is annals.Journal. Each event is an item, on condition that there is none at its key. Several items are one transaction. The
// commit marks the group of its last event when that group begins within the commit, or when a read has found that the marker is missing:
// the plugin writes none for a group whose first number it has left unused.
func (j *journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	last := c.After + annals.SeqNr(len(c.Events))
	w := plan.Write{Refused: func(old []plan.Item, _ bool) error { return j.refusal(c, old) }}
	for i := range c.Events {
		it, err := j.eventItem(c, c.After+1+annals.SeqNr(i), &c.Events[i])
		if err != nil {
			return annals.Receipt{}, err
		}
		w.Ops = append(w.Ops, plan.Create(j.Table, it, attrPar))
	}
	w.Ops[len(w.Ops)-1].Ours = func(old plan.Item) bool { // deletes remove the last event after the others
		id, writer := owner(old)
		return id == c.ID && writer == c.WriteID.String()
	}
	before, _ := j.known.Get(c.ID)
	if groupOf(last) != groupOf(c.After) || before.unmarked && groupOf(last) == groupOf(before.last) {
		w.Ops = append(w.Ops, j.putHigh(c.ID, last))
	}
	out, err := j.x.Write(ctx, w)
	if err != nil {
		return annals.Receipt{}, err
	}
	if !out.Repeated {
		_ = j.x.Then(ctx, func(context.Context, plan.Executor) error {
			j.known.Change(c.ID, func(known, bool) known { return known{last: last} })
			return nil
		})
	}
	return annals.Receipt{SeqNr: last, Repeated: out.Repeated}, nil
}

// refusal returns ErrInvalid when an item at a key of c is of another id: the names of two journals in a table can be such that their ids
// share keys. Otherwise it returns ErrConflict.
func (j *journal) refusal(c annals.Commit, old []plan.Item) error {
	for i := range min(len(old), len(c.Events)) {
		if id, _ := owner(old[i]); id != "" && id != c.ID {
			return plan.Misfit("the item at the key of %s number %d is of %s in another journal of table %q", quote.Text(string(c.ID)), c.After+1+annals.SeqNr(i), quote.Text(string(id)), j.Table)
		}
	}
	return &annals.Error{Kind: annals.ErrConflict, After: c.After}
}

// LastSeqNr is annals.Journal: the newest event in the marked group or in the groups behind it, or else what the markers say.
func (j *journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	m, err := j.marks(ctx, id)
	if err != nil {
		return 0, err
	}
	return j.last(ctx, id, m)
}

// last returns the last number of an entity with the marks m. A number below m.low-1 is of an event that was written, late, after it had been
// deleted. When no event is found, the mark of the lowest number is read again: a delete writes it before it removes the last event.
func (j *journal) last(ctx context.Context, id annals.PersistenceID, m marks) (annals.SeqNr, error) {
	for group := groupOf(m.high); ; group = groupOf(m.low) {
		last, err := j.newest(ctx, id, group)
		if last > 0 || err != nil {
			return max(last, m.low-1), err
		}
		low, err := j.lowMark(ctx, id)
		if m.low = max(m.low, low); err != nil || groupOf(m.low) <= group+1 {
			return max(m.high, m.low-1), err
		}
	}
}

// newest returns the last number in a group and in the groups behind it, up to the first that is empty; 0 when there is none. A group can have
// events without a marker, see Append. So the group behind is always looked at, unless the last number is the one that this process knows,
// and not the last of its group.
func (j *journal) newest(ctx context.Context, id annals.PersistenceID, group int64) (last annals.SeqNr, err error) {
	before, _ := j.known.Get(id)
	for g := group; g <= groupOf(annals.MaxSeqNr); g++ {
		n, err := j.lastIn(ctx, id, g)
		if err != nil {
			return 0, err
		}
		if last = max(last, n); n == 0 && g > group || n > 0 && n == before.last && n%perGroup < perGroup-1 {
			break
		}
	}
	if last > 0 {
		j.learn(id, last, annals.SeqNr(group*perGroup))
	}
	return last, nil
}

// learn remembers the last number of an entity, whose highest marked group is that of high.
func (j *journal) learn(id annals.PersistenceID, last, high annals.SeqNr) {
	j.known.Change(id, func(known, bool) known { return known{last: last, unmarked: groupOf(last) > groupOf(high)} })
}

// lastIn returns the last number in a group; 0 when there is none.
func (j *journal) lastIn(ctx context.Context, id annals.PersistenceID, group int64) (annals.SeqNr, error) {
	q := plan.Query{Table: j.Table, Hash: j.partition(id, group), Backward: true, Limit: 1, Fields: keyFields}
	it, ok, err := plan.First(j.x.Query(ctx, q))
	if !ok || err != nil {
		return 0, err
	}
	r, err := j.row(group, it)
	return r.n, err
}
