package commit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// forgetItems is the most tombstones in one transaction. With the state and the next number it has 100 items.
const forgetItems = 98

// Forget is ability.Forgetter. It removes all tombstones in one transaction, on condition that each is still the one that was listed, and
// that no item has the number after the newest one:
//
//   - A writer that knows the last number either has stored its commit before, and the condition fails, or it writes afterwards.
//   - A writer that knows an earlier number, or 0, gets ErrConflict from the tombstone of its next number until all are removed.
//   - A state that is written meanwhile makes its condition fail, too. When any condition fails, Forget lists again.
//   - After another Forget, if the entity has been written and deleted again, each tombstone has another time.
//
// When one transaction cannot hold all tombstones, those of snapshots and those in the middle are removed before, the oldest first, in
// transactions with the same conditions. The first tombstone stays, for writers with After 0, and the newest stays, for the last
// number, so that readers see no difference. Only a writer that remembers a number in the middle could, and it has not written for
// at least f.Age: if a commit then ends the Forget, such a writer is no longer refused.
//
// An interrupted Forget leaves tombstones that a later call removes.
func (t *table) Forget(ctx context.Context, f ability.Forgetting) (bool, error) {
	for {
		left, err := t.remains(ctx, f.ID)
		switch {
		case err != nil:
			return false, err
		case left.none():
			return true, nil
		case f.Age > 0 && t.x.Now().Sub(left.deleted) < f.Age:
			return false, nil
		case f.DryRun:
			return true, nil
		}
		if err = t.remove(ctx, left); !errors.Is(err, annals.ErrConflict) {
			return err == nil, err
		}
	}
}

// remains is what deletes have left of an entity.
type remains struct {
	id         annals.PersistenceID
	tombstones []tombstone // of commits, ascending
	snapshots  []record    // tombstones of snapshots
	states     string      // the table that has its state
	state      plan.Item   // its tombstone; nil is none
	parts      []plan.Item // keys of parts of snapshots whose save or delete was interrupted
	deleted    time.Time   // when the last of these was deleted
}

type tombstone struct {
	seq, last annals.SeqNr
	mark      string // the attribute with the time of the delete, or with the time of SkipTo
	at        types.AttributeValue
}

func (r remains) none() bool {
	return len(r.tombstones)+len(r.snapshots)+len(r.parts) == 0 && r.state == nil
}

// last returns the entity's last number.
func (r remains) last() annals.SeqNr {
	if len(r.tombstones) == 0 {
		return 0
	}
	return r.tombstones[len(r.tombstones)-1].last
}

var remainsFields = append([]string{attrID, attrErased, attrSave, attrRevision, attrDeleted, attrSerializer}, keyFields...)

// remains lists all items of an entity. An event, a snapshot or a state is ErrConflict.
func (t *table) remains(ctx context.Context, id annals.PersistenceID) (remains, error) {
	r := remains{id: id}
	for it, err := range t.x.Query(ctx, plan.Query{Table: t.name, Hash: string(id), Fields: remainsFields}) {
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
		return remains{}, still(fmt.Sprintf("a state in table %q, although its type has another table", t.name), revision(r.state))
	}
	it, ok, err := t.x.Get(ctx, plan.Get{Table: r.states, Key: key(id, 0)})
	if ok && err == nil {
		err = r.add(it)
	}
	return r, err
}

func (r *remains) add(it plan.Item) error {
	switch seq := plan.KeyText(it[attrSeq]); { // as text: the numbers of parts exceed int64
	case seq == plan.KeyText(settingsKey()[attrSeq]):
		return nil // of the table, not of the entity that has this id
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

func still(what string, last annals.SeqNr) error {
	return &annals.Error{Kind: annals.ErrConflict, Last: last, Err: errors.New("there is " + what)}
}

// remove removes r; ErrConflict when an item has changed since.
func (t *table) remove(ctx context.Context, r remains) error {
	if len(r.parts) > 0 {
		if err := t.x.DeleteAll(ctx, t.name, r.parts); err != nil {
			return err
		}
	}
	free := t.free(r.id, r.last())
	guard, end, early := []plan.Op{free}, []plan.Op{free, stateRemoval(r)}, []plan.Op(nil)
	for _, rec := range r.snapshots {
		early = append(early, plan.Op{Table: t.name, Key: snapshotKey(rec), Delete: true, Condition: "#save = :save",
			Names: map[string]string{"#save": attrSave}, Values: plan.Item{":save": plan.B(rec.save)}})
	}
	for i, one := range r.tombstones {
		removal := t.standing(r.id, one)
		removal.Delete = true
		switch i {
		case 0, len(r.tombstones) - 1:
			end = append(end, removal)
		default:
			early = append(early, removal)
		}
	}
	if n := len(r.tombstones); n > 0 {
		guard = append(guard, t.standing(r.id, r.tombstones[n-1]))
	}
	n := max(len(early)-(forgetItems+2-len(end)), 0)
	for some := range slices.Chunk(early[:n], forgetItems) {
		if _, err := t.x.Write(ctx, plan.Write{Ops: slices.Concat(guard, some)}); err != nil {
			return err
		}
	}
	_, err := t.x.Write(ctx, plan.Write{Ops: append(end, early[n:]...)})
	return err
}

// standing is the condition that a tombstone is the one that was listed.
func (t *table) standing(id annals.PersistenceID, one tombstone) plan.Op {
	return plan.Op{Table: t.name, Key: key(id, one.seq), Condition: "#from = :end AND #mark = :at",
		Names: map[string]string{"#from": attrFrom, "#mark": one.mark}, Values: plan.Item{":end": plan.N(one.last + 1), ":at": one.at}}
}

// stateRemoval removes the tombstone of the state, or is the condition that there is no state.
func stateRemoval(r remains) plan.Op {
	if r.state == nil {
		return plan.Op{Table: r.states, Key: key(r.id, 0), Condition: absent, Names: idName}
	}
	return plan.Op{Table: r.states, Key: key(r.id, 0), Delete: true, Condition: "#gone = :gone AND #rev = :rev AND #at = :at",
		Names:  map[string]string{"#gone": attrDeleted, "#rev": attrRevision, "#at": attrTime},
		Values: plan.Item{":gone": r.state[attrDeleted], ":rev": r.state[attrRevision], ":at": r.state[attrTime]}}
}
