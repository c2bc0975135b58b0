package akka

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Listing is what ListAll finds of an entity, in ascending order.
type Listing struct {
	Lowest  []annals.SeqNr // the marks of the lowest number, of all shards. The greatest one counts
	Highest []annals.SeqNr // the marks of the highest group, of all shards. The greatest one counts
	Numbers []annals.SeqNr // the numbers of all events that are stored, including those below the mark of the lowest number
}

// mostListed is how many groups in a row a delete or ListAll finds empty before it takes a marker for wrong.
const mostListed = 10_000

// ListAll is the plugin's diagnostic message of that name. Unlike the plugin it does not end at the first group without events.
func ListAll(ctx context.Context, s annals.Store, id annals.PersistenceID) (Listing, error) {
	var found Listing
	err := plan.Run(ctx, s, plan.Function{Op: "list all", ID: id, Run: plan.OnJournal(func(ctx context.Context, j *journal) (err error) {
		found, err = j.list(ctx, id)
		return err
	})})
	return found, err
}

func (j *journal) list(ctx context.Context, id annals.PersistenceID) (found Listing, err error) {
	if found.Highest, found.Lowest, err = j.Read(ctx, j.x, id, akkakeys.Low, akkakeys.High); err != nil {
		return found, err
	}
	slices.Sort(found.Lowest)
	slices.Sort(found.Highest)
	high := max(greatest(found.Lowest), greatest(found.Highest))
	for p, err := range j.read(ctx, id, span{to: annals.MaxSeqNr, high: high, most: mostListed, fields: keyFields}) {
		if err != nil {
			return found, err
		}
		for _, w := range p.rows {
			found.Numbers = append(found.Numbers, w.n)
		}
	}
	return found, nil
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
