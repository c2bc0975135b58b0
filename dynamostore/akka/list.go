package akka

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// mostListed is how many groups in a row a delete or ListAll finds empty before it takes a marker for wrong. Groups of deleted
// events are not counted up to the number mostDeleted.
const (
	mostListed  = 10_000
	mostDeleted = 100 * mostListed * perGroup
)

// ListAll is the plugin's diagnostic message of that name: the numbers of all events that are stored, including those below the mark of the lowest
// number, and the marks of the lowest number and of the highest group, of all shards, of which the greatest ones count. All are in ascending order.
// Unlike the plugin it does not end at the first group without events.
func ListAll(ctx context.Context, s annals.Store, id annals.PersistenceID) (numbers, lowest, highest []annals.SeqNr, err error) {
	err = plan.Run(ctx, s, plan.Function{Op: "list all", ID: id, Run: plan.OnJournal(func(ctx context.Context, j *journal) (err error) {
		numbers, lowest, highest, err = j.list(ctx, id)
		return err
	})})
	return numbers, lowest, highest, err
}

func (j *journal) list(ctx context.Context, id annals.PersistenceID) (numbers, lowest, highest []annals.SeqNr, err error) {
	if highest, lowest, err = j.Read(ctx, j.x, id, akkakeys.Low, akkakeys.High); err != nil {
		return nil, nil, nil, err
	}
	slices.Sort(lowest)
	slices.Sort(highest)
	low := greatest(lowest)
	for p, err := range j.read(ctx, id, span{to: annals.MaxSeqNr, high: max(low, greatest(highest)), most: mostListed, low: min(low, mostDeleted), fields: keyFields}) {
		if err != nil {
			return numbers, lowest, highest, err
		}
		for _, w := range p.rows {
			numbers = append(numbers, w.n)
		}
	}
	return numbers, lowest, highest, nil
}

// Repair writes the marker of the highest group of id if another writer has left it out, so that readers of the plugin find the events
// of that group. It reports whether it wrote one.
func Repair(ctx context.Context, s annals.Store, id annals.PersistenceID) (written bool, err error) {
	err = plan.Run(ctx, s, plan.Function{Op: "repair", ID: id, Writes: true, Run: plan.OnJournal(func(ctx context.Context, j *journal) (err error) {
		written, err = j.repair(ctx, id)
		return err
	})})
	return written, err
}

func (j *journal) repair(ctx context.Context, id annals.PersistenceID) (bool, error) {
	m, err := j.marks(ctx, id)
	if err != nil {
		return false, err
	}
	last, err := j.last(ctx, id, m)
	if err != nil || groupOf(last) == groupOf(m.high) {
		return false, err
	}
	out, err := plan.Try(ctx, j.x, j.putHigh(id, last))
	return err == nil && !out.Refused, err
}
