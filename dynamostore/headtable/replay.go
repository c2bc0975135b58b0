package headtable

import (
	"context"
	"fmt"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Replay is annals.Journal: two requests, for the head and for the events.
func (j *journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return driver.Replay(ctx, &reader{j: j, id: id}, from, to)
}

// Recover is ability.Recoverer: two requests, for the head with the current snapshot and for the events.
func (j *journal) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	return driver.RecoverFrom(ctx, &reader{j: j, id: id}, snapshot, event)
}

// reader is a driver.Reader. The head is read first. It has the last number, and no event up to that one is written later.
type reader struct {
	j     *journal
	id    annals.PersistenceID
	begun bool            // the head has been read
	head  head            // as it was before the events were read
	event [1]annals.Event // that was read last
}

// Begin is driver.Reader. The head and the snapshot are not of one moment.
func (r *reader) Begin(ctx context.Context, _ bool) (b driver.Beginning, err error) {
	aid, err := aidOf(r.id)
	if err != nil {
		return b, err
	}
	items, err := r.j.x.GetMany(ctx, []plan.Get{{Table: r.j.heads, Key: headKey(aid)}, {Table: r.j.snapshots.table, Key: snapshotKey(aid, currentPlace)}})
	if err == nil && items[0] == nil {
		items[0], err = r.j.headAgain(ctx, aid, items[1] != nil)
	}
	if err != nil {
		return b, err
	}
	if r.head, err = r.j.readHead(r.id, items[0]); err != nil {
		return b, err
	}
	if r.begun, b.Found = true, items[1] != nil; b.Found {
		b.Snapshot, err = r.j.snapshots.read(r.id, items[1])
	}
	return b, err
}

// Rows is driver.Reader.
func (r *reader) Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[driver.Part, error] {
	return func(yield func(driver.Part, error) bool) {
		aid, err := aidOf(r.id)
		if err == nil && !r.begun {
			r.head, err = r.j.head(ctx, r.id)
		}
		if !yield(driver.Part{Deleted: r.head.deleted, Last: r.head.last}, err) || err != nil {
			return
		}
		from, to := max(from, r.head.deleted+1), min(to, r.head.last)
		if from > to {
			return
		}
		plan.Picked(r.j.x.Query(ctx, plan.Query{Table: r.j.table, Hash: aid, From: plan.N(from), To: plan.N(to), Dense: true}), func(it plan.Item) (p driver.Part, ok bool, err error) {
			if r.event[0], err = eventOf(r.id, it); err != nil {
				return p, false, corrupt(r.j.table, it, err, attrAID, attrSeq)
			}
			return driver.Part{Events: r.event[:]}, true, nil
		})(yield)
	}
}

// Gap is driver.Reader. The events had been written before the head was read, so the head tells now whether they were deleted before they
// were looked for. Those of the last commit were not left unused.
func (r *reader) Gap(ctx context.Context, _, to annals.SeqNr) (driver.Part, error) {
	h, err := r.j.head(ctx, r.id)
	p := driver.Part{Deleted: h.deleted}
	if r.j.gaps {
		p.Unused = min(to, r.head.last-annals.SeqNr(max(1, len(r.head.events))))
	}
	return p, err
}

// headAgain is called when there is no head. Then the entity must not have events or a snapshot, unless they and the head were written
// meanwhile. found says that it has some.
func (j *journal) headAgain(ctx context.Context, aid string, found bool) (plan.Item, error) {
	if !found {
		for _, err := range j.x.Query(ctx, plan.Query{Table: j.table, Hash: aid, Fields: []string{attrAID, attrSeq}, Limit: 1}) {
			if err != nil {
				return nil, err
			}
			found = true
			break
		}
	}
	if !found {
		return nil, nil
	}
	it, ok, err := j.x.Get(ctx, plan.Get{Table: j.heads, Key: headKey(aid)})
	if err == nil && !ok {
		err = &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("table %q has no item %s, although the entity has others", j.heads, plan.QuoteKey(headKey(aid)))}
	}
	return it, err
}
