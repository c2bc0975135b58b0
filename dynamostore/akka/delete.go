package akka

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// keyFields are the attributes of rows that are only counted or removed.
var keyFields = []string{attrPar, attrNum}

// DeleteTo is annals.Journal. It sets the mark of the lowest number and then removes the events below, in ascending order. The entity's last
// row stays, so that no commit has numbers on both sides of the mark; the mark hides it. An interrupted delete leaves more events directly
// below its mark. The next delete removes them.
func (j *journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	m, err := j.marks(ctx, id)
	if err != nil {
		return err
	}
	last, err := j.last(ctx, id, m)
	if err != nil || last == 0 {
		return err
	}
	to = min(to, last, annals.MaxSeqNr-1)
	from, err := j.leftBelow(ctx, id, m.low)
	if err != nil {
		return err
	}
	if to+1 > m.low {
		if _, err := plan.Try(ctx, j.x, j.putLow(id, to+1)); err != nil {
			return err
		}
	}
	return j.remove(ctx, id, span{from: from, to: max(to, m.low-1), high: last, most: mostListed}, last)
}

// leftBelow returns the first of the numbers directly below a mark whose events an interrupted delete has left, or else the mark. It looks at
// whole groups.
func (j *journal) leftBelow(ctx context.Context, id annals.PersistenceID, mark annals.SeqNr) (annals.SeqNr, error) {
	from := mark
	for to := mark - 1; to >= 0; to = from - 1 {
		q := plan.Query{Table: j.Table, Hash: j.partition(id, groupOf(to)), To: plan.N(to % perGroup), Limit: 1, Fields: keyFields}
		if _, left, err := plan.First(j.x.Query(ctx, q)); !left || err != nil {
			return from, err
		}
		from = to - to%perGroup
	}
	return from, nil
}

// remove removes the events of a span, but that of number last.
func (j *journal) remove(ctx context.Context, id annals.PersistenceID, s span, last annals.SeqNr) error {
	s.fields = keyFields
	for p, err := range j.read(ctx, id, s) {
		if err != nil {
			return err
		}
		keys := make([]plan.Item, 0, len(p.rows))
		for _, w := range p.rows {
			if w.n != last {
				keys = append(keys, j.key(id, w.n))
			}
		}
		if len(keys) == 0 {
			continue
		}
		if err := j.x.DeleteAll(ctx, j.Table, keys); err != nil {
			return err
		}
	}
	return nil
}

// Purge removes all events of id and its markers, as if it had never been written. Numbers are then used again. No writer may use id
// meanwhile, and none that has used it before may go on afterwards. A Purge that was interrupted can be repeated. Snapshots stay.
func Purge(ctx context.Context, s annals.Store, id annals.PersistenceID) error {
	return plan.Run(ctx, s, plan.Function{Op: "purge", ID: id, Writes: true, Run: plan.OnJournal(func(ctx context.Context, j *journal) error { return j.purge(ctx, id) })})
}

func (j *journal) purge(ctx context.Context, id annals.PersistenceID) error {
	m, err := j.marks(ctx, id)
	if err != nil {
		return err
	}
	last, err := j.last(ctx, id, m)
	if err != nil {
		return err
	}
	if err := j.remove(ctx, id, span{to: annals.MaxSeqNr, high: last, most: mostListed, low: min(m.low, mostDeleted)}, 0); err != nil {
		return err
	}
	if err := j.x.DeleteAll(ctx, j.Table, j.Counters(id, akkakeys.Low, akkakeys.High)); err != nil {
		return err
	}
	j.known.Change(id, func(known, bool) (none known) { return none })
	return nil
}
