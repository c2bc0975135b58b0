package headtable

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// DeleteTo is annals.Journal. It sets the mark in the head, from which on readers do not look for the events, and then removes the events up to
// the mark. What an interrupted delete has left is removed by the next one.
func (j *journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	h, err := j.head(ctx, id)
	if to = min(to, h.last); err != nil || to < 1 {
		return err
	}
	aid, err := aidOf(id)
	if err != nil {
		return err
	}
	if to > h.deleted {
		op := plan.Op{Table: j.heads, Key: headKey(aid), Update: "SET #deleted = :to", Condition: "attribute_exists(#aid) AND (attribute_not_exists(#deleted) OR #deleted < :to)",
			Names: map[string]string{"#aid": attrAID, "#deleted": attrDeleted}, Values: plan.Item{":to": plan.N(to)}}
		// A refused write is no error: another delete has marked later events.
		if _, err := j.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }}); err != nil {
			return err
		}
	}
	left := j.x.Query(ctx, plan.Query{Table: j.table, Hash: aid, To: plan.N(max(to, h.deleted)), Fields: []string{attrAID, attrSeq}})
	return plan.Batches(left, func(keys []plan.Item) error { return j.x.DeleteAll(ctx, j.table, keys) })
}
