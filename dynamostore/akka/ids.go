package akka

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// ids is the annals.Query of a journal with an index of keys by number. It has IDs and nothing else.
type ids struct {
	annals.Query // nil: nothing else is claimed
	*journal
}

// IDs is annals.Query. An id is known by the first or second event of a group or by a marker, so also when its first events have been
// deleted. The order is that of the bytes of ids. The keys of an id are not in this order, so the ids are collected and sorted before
// the first is yielded.
func (q ids) IDs(ctx context.Context, entityType string, after annals.PersistenceID) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		all, err := q.collect(ctx, entityType, after)
		if err != nil {
			yield("", err)
			return
		}
		for _, id := range slices.Sorted(maps.Keys(all)) {
			if !yield(id, nil) {
				return
			}
		}
	}
}

func (q ids) collect(ctx context.Context, entityType string, after annals.PersistenceID) (map[annals.PersistenceID]bool, error) {
	all := map[annals.PersistenceID]bool{}
	var unclear []plan.Item                     // keys of items that must be read
	for _, number := range []string{"1", "0"} { // the markers are at 0
		for it, err := range q.x.Query(ctx, plan.Query{Table: q.Table, Index: q.index, Hash: number}) {
			if err != nil {
				return nil, err
			}
			kind, id, _ := q.Parse(it)
			if id <= after || entityType != "" && id.Type() != entityType {
				continue
			}
			switch mixed := q.Ambiguous(id); {
			case mixed && kind == akkakeys.Events, !mixed && kind == akkakeys.Low:
				unclear = append(unclear, plan.Item{attrPar: it[attrPar], attrNum: it[attrNum]})
			case !mixed:
				all[id] = true
			}
		}
	}
	unclear = slices.DeleteFunc(unclear, func(key plan.Item) bool { _, id, _ := q.Parse(key); return all[id] })
	for it, err := range q.x.GetEach(ctx, q.Table, slices.Values(unclear), q.ahead) {
		if err != nil {
			return nil, err
		}
		if id, ok := q.shown(it); ok {
			all[id] = true
		}
	}
	return all, nil
}

// shown returns the id of an item that shows that an entity of this journal has or had events. A low mark of 1 does not: the plugin writes
// one when it deletes events of an id that has none.
func (q ids) shown(it plan.Item) (annals.PersistenceID, bool) {
	kind, id, _ := q.Parse(it)
	switch kind {
	case akkakeys.Events:
		of, _ := owner(it)
		return id, of == id
	case akkakeys.Low:
		n, ok := plan.Number(it, attrSeq)
		return id, ok && n > 1
	}
	return "", false
}
