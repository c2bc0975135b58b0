package akka0

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
)

// audit is plan.Audit: it looks for counters that are lost, without which the plugin does not find the last events.
func (j *journal) audit(ctx context.Context, id annals.PersistenceID) ([]*ability.Damage, error) {
	counted, last, err := j.last(ctx, id)
	if err != nil || counted == last {
		if errors.Is(err, annals.ErrCorrupt) { // the reads of the entity say so
			err = nil
		}
		return nil, err
	}
	return []*ability.Damage{{Code: ability.Head, ID: id, From: counted + 1, To: last, Err: errors.New("the last events have no high counter, so the plugin does not find them")}}, nil
}

// owned is plan.Row.
func (j *journal) owned(_ string, it plan.Item) (annals.PersistenceID, *ability.Damage) {
	var owner annals.PersistenceID
	payload, _ := plan.Bytes(it, payloadName)
	if record, err := akkawire.ParseRecord(payload); err == nil {
		owner = record.ID
	}
	return j.Row(it, owner)
}
