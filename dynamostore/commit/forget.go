package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// forgetItems is how many tombstones go in one transaction: with the state and the number behind them it has 100 items.
const forgetItems = 98

// Forget is plan.Offer. What it removes goes in one transaction, each item on condition that it is still the very tombstone
// that was listed, and on condition that the number behind the newest one is free:
//
//   - A writer that knows the last number either has put its commit there before, and the condition fails, or comes later.
//   - A writer that knows an earlier number, or 0, meets its tombstone until the moment in which all are gone.
//   - A state written meanwhile fails its condition, too. The failure of any means looking again.
//   - Another Forget, and a new life of the entity behind it, change the time of every tombstone.
//
// Where one transaction does not hold all tombstones, those of snapshots and those in the middle go before, the oldest first,
// in transactions of their own under the same conditions. The first one stays for writers who believe in a new entity, the newest one for the
// last number, so that readers see what they saw. A writer who remembers a number in the middle paused at least f.Age ago;
// it alone could notice that the rest was then kept for a commit that came in between.
//
// Broken off anywhere it leaves tombstones that a later call removes.
func (t *table) Forget(ctx context.Context, x plan.Executor, f annals.Forgetting) (bool, error) {
	for {
		left, err := t.remains(ctx, x, f.ID)
		switch {
		case err != nil:
			return false, err
		case left.none():
			return true, nil
		case f.Age > 0 && x.Now().Sub(left.deleted) < f.Age:
			return false, nil
		case f.DryRun:
			return true, nil
		}
		if err = t.remove(ctx, x, left); !errors.Is(err, annals.ErrConflict) {
			return err == nil, err
		}
	}
}

// remains are what deletes have left of an entity.
type remains struct {
	id         annals.PersistenceID
	tombstones []tombstone // of commits, ascending
	snapshots  []record    // tombstones of snapshots
	states     string      // the table that has its state
	state      plan.Item   // its tombstone; nil = none
	parts      []plan.Item // keys of the parts of snapshots that were never finished, or not wholly deleted
	deleted    time.Time   // when the last of it was
}

type tombstone struct {
	seq, last annals.SeqNr
	mark      string // the attribute that has the time of its delete; of its making where SkipTo wrote it
	at        types.AttributeValue
}

func (r remains) none() bool {
	return len(r.tombstones)+len(r.snapshots)+len(r.parts) == 0 && r.state == nil
}

// last is the entity's last number.
func (r remains) last() annals.SeqNr {
	if len(r.tombstones) == 0 {
		return 0
	}
	return r.tombstones[len(r.tombstones)-1].last
}

var remainsFields = append([]string{attrID, attrErased, attrSave, attrRevision, attrDeleted, attrSerializer}, keyFields...)

// remains lists everything of an entity. An event, a snapshot or a state is a conflict.
func (t *table) remains(ctx context.Context, x plan.Executor, id annals.PersistenceID) (remains, error) {
	r := remains{id: id}
	for it, err := range x.Query(ctx, plan.Query{Table: t.name, Hash: string(id), Fields: remainsFields}) {
		if err == nil {
			err = r.add(it)
		}
		if err != nil {
			return remains{}, err
		}
	}
	if r.states = t.statesOf(id.Type()); r.states == t.name {
		return r, nil
	}
	if r.state != nil {
		return remains{}, still(fmt.Sprintf("state in table %q, where its type has none", t.name), revision(r.state))
	}
	it, ok, err := x.Get(ctx, plan.Get{Table: r.states, Key: key(id, 0)})
	if ok && err == nil {
		err = r.add(it)
	}
	return r, err
}

func (r *remains) add(it plan.Item) error {
	switch seq := number(it); {
	case seq == number(settingsKey()):
		return nil // the table's, not the entity's of that name
	case strings.HasPrefix(seq, "-"):
		r.parts = append(r.parts, plan.Item{attrID: it[attrID], attrSeq: it[attrSeq]})
		r.later(plan.Time(it, attrTime))
		return nil
	case seq == "0":
		st, _, err := readState(it)
		if err == nil && !st.Deleted {
			err = still("a state", st.Revision)
		}
		r.state = it
		r.later(st.Time)
		return err
	}
	rec, err := read(r.id, it)
	switch {
	case err != nil:
		return err
	case rec.snapshot && rec.gone:
		rec.item = nil
		r.snapshots = append(r.snapshots, rec)
		r.later(plan.Time(it, attrErased))
		return nil
	case rec.snapshot:
		return still("a snapshot", rec.seq)
	case !rec.tombstone():
		return still("an event", rec.last())
	}
	one := tombstone{seq: rec.seq, last: rec.last(), mark: attrErased}
	if it[attrErased] == nil {
		one.mark = attrTime
	}
	one.at = it[one.mark]
	r.tombstones = append(r.tombstones, one)
	r.later(plan.Time(it, one.mark))
	return nil
}

func (r *remains) later(t time.Time) {
	if t.After(r.deleted) {
		r.deleted = t
	}
}

// number is the place of an item as text: those of parts are beyond all integers.
func number(it plan.Item) string {
	n, ok := it[attrSeq].(*types.AttributeValueMemberN)
	if !ok {
		return ""
	}
	return n.Value
}

func still(what string, last annals.SeqNr) error {
	return &annals.Error{Kind: annals.ErrConflict, Last: last, Err: errors.New("there is " + what)}
}

// remove removes r; ErrConflict when it is not what it was.
func (t *table) remove(ctx context.Context, x plan.Executor, r remains) error {
	if len(r.parts) > 0 {
		if err := x.DeleteAll(ctx, t.name, r.parts); err != nil {
			return err
		}
	}
	free := plan.Op{Table: t.name, Key: key(r.id, r.last()+1), Condition: absent, Names: idName}
	guard, end, early := []plan.Op{free}, []plan.Op{free, stateRemoval(r)}, []plan.Op(nil)
	for _, rec := range r.snapshots {
		early = append(early, plan.Op{Table: t.name, Key: snapshotKey(rec), Delete: true, Condition: "#save = :save",
			Names: map[string]string{"#save": attrSave}, Values: plan.Item{":save": plan.B(rec.save)}})
	}
	for i, one := range r.tombstones {
		switch i {
		case 0, len(r.tombstones) - 1:
			end = append(end, t.removal(r.id, one))
		default:
			early = append(early, t.removal(r.id, one))
		}
	}
	if n := len(r.tombstones); n > 0 {
		guard = append(guard, t.standing(r.id, r.tombstones[n-1]))
	}
	n := max(len(early)-(forgetItems+2-len(end)), 0)
	for some := range slices.Chunk(early[:n], forgetItems) {
		if _, err := x.Write(ctx, plan.Write{Ops: slices.Concat(guard, some)}); err != nil {
			return err
		}
	}
	_, err := x.Write(ctx, plan.Write{Ops: append(end, early[n:]...)})
	return err
}

// standing checks that a tombstone is the one that was listed.
func (t *table) standing(id annals.PersistenceID, one tombstone) plan.Op {
	return plan.Op{Table: t.name, Key: key(id, one.seq), Condition: "#from = :end AND #mark = :at",
		Names: map[string]string{"#from": attrFrom, "#mark": one.mark}, Values: plan.Item{":end": plan.N(one.last + 1), ":at": one.at}}
}

func (t *table) removal(id annals.PersistenceID, one tombstone) plan.Op {
	op := t.standing(id, one)
	op.Delete = true
	return op
}

// stateRemoval removes the tombstone of the state, or sees to it that there is no state.
func stateRemoval(r remains) plan.Op {
	if r.state == nil {
		return plan.Op{Table: r.states, Key: key(r.id, 0), Condition: absent, Names: idName}
	}
	return plan.Op{Table: r.states, Key: key(r.id, 0), Delete: true, Condition: "#gone = :gone AND #rev = :rev AND #at = :at",
		Names:  map[string]string{"#gone": attrDeleted, "#rev": attrRevision, "#at": attrTime},
		Values: plan.Item{":gone": r.state[attrDeleted], ":rev": r.state[attrRevision], ":at": r.state[attrTime]}}
}
