package akka0

import (
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// keyName is the attribute with the key.
const keyName = "key"

// event returns the key of event n.
func (j *journal) event(id annals.PersistenceID, n annals.SeqNr) plan.Item {
	return plan.Item{keyName: plan.S(j.Key(akkakeys.Events, id, int64(n)))}
}

// high returns the key of the item that is written with event n, and low of the one that is written when event n is deleted.
func (j *journal) high(id annals.PersistenceID, n annals.SeqNr) plan.Item {
	return j.Counter(akkakeys.High, id, int64(n)%j.Shards)
}

func (j *journal) low(id annals.PersistenceID, n annals.SeqNr) plan.Item {
	return j.Counter(akkakeys.Low, id, int64(n)%j.Shards)
}

// events yields the keys of the events with these numbers.
func (j *journal) events(id annals.PersistenceID, numbers iter.Seq[annals.SeqNr]) iter.Seq[plan.Item] {
	return func(yield func(plan.Item) bool) {
		for n := range numbers {
			if !yield(j.event(id, n)) {
				return
			}
		}
	}
}

// numbers yields from … to.
func numbers(from, to annals.SeqNr) iter.Seq[annals.SeqNr] {
	return func(yield func(annals.SeqNr) bool) {
		for n := from; n <= to && yield(n) && n < annals.MaxSeqNr; n++ {
		}
	}
}
