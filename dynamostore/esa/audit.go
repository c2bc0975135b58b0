package esa

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// audit is plan.Audit: the libraries cannot read a head without a state.
func (j *journal) audit(ctx context.Context, id annals.PersistenceID) ([]*ability.Damage, error) {
	key, err := j.headKey(id)
	if err != nil || j.apart {
		return nil, nil // an id that has no key has no rows
	}
	it, ok, err := j.x.Get(ctx, plan.Get{Table: j.heads, Key: key})
	if !ok || err != nil || it[attrPayload] != nil {
		return nil, err
	}
	return []*ability.Damage{{Code: ability.Snapshot, ID: id, Err: errors.New("the head has no state, so the libraries cannot read the entity")}}, nil
}

// owned is plan.Row. In the tables of Rust5 the key has the id itself, so a row cannot be at the key of another one.
func (j *journal) owned(table string, it plan.Item) (annals.PersistenceID, *ability.Damage) {
	aid, ok := plan.Text(it, attrAID)
	if !ok || j.apart && aid == configAID {
		return "", nil
	}
	n, _ := plan.Number(it, attrSeq)
	id := j.owner(it, annals.SeqNr(n))
	if j.apart {
		return id, nil
	}
	if head, of := j.ofHead(it); of && table == j.heads {
		id = head
	}
	if it[attrSeq] == nil {
		return id, plan.Misplaced(id, 0, errors.New("a row has no number"))
	}
	return id, plan.Misplaced(id, annals.SeqNr(n), j.fits(table, it))
}
