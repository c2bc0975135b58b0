package hashkey

import (
	"iter"
	"strconv"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// keyName is the attribute with the key.
const keyName = "key"

// keys computes the keys of a journal. Each is the journal's name, the kind of the item, the id, and a number.
type keys struct {
	name   string
	shards annals.SeqNr
}

const (
	eventKind = "-P-"
	highKind  = "-SH-"
	lowKind   = "-SL-"
)

func (k keys) key(kind string, id annals.PersistenceID, n annals.SeqNr) string {
	return k.name + kind + string(id) + "-" + strconv.FormatInt(int64(n), 10)
}

// event returns the key of event n.
func (k keys) event(id annals.PersistenceID, n annals.SeqNr) string { return k.key(eventKind, id, n) }

// high returns the key of the item that is written with event n, and low of the one that is written when event n is deleted.
func (k keys) high(id annals.PersistenceID, n annals.SeqNr) string {
	return k.key(highKind, id, n%k.shards)
}

func (k keys) low(id annals.PersistenceID, n annals.SeqNr) string {
	return k.key(lowKind, id, n%k.shards)
}

// item returns an item with a key only.
func item(key string) plan.Item { return plan.Item{keyName: plan.S(key)} }

// events yields the keys of the events with these numbers.
func (k keys) events(id annals.PersistenceID, numbers iter.Seq[annals.SeqNr]) iter.Seq[plan.Item] {
	return func(yield func(plan.Item) bool) {
		for n := range numbers {
			if !yield(item(k.event(id, n))) {
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

// all returns the keys of all sequence shards.
func (k keys) all(of func(annals.PersistenceID, annals.SeqNr) string, id annals.PersistenceID) []plan.Item {
	items := make([]plan.Item, k.shards)
	for shard := range items {
		items[shard] = item(of(id, annals.SeqNr(shard)))
	}
	return items
}
