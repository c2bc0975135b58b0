package grouped

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// marks are what the markers of an entity say. Each shard has at most one marker of each kind, and the greatest number counts.
type marks struct {
	high annals.SeqNr // the first number of the highest marked group; 0 when none is marked, as group 0 never is
	low  annals.SeqNr // the first number that is not deleted; 0 when none is
}

// deleted returns the number up to which events are deleted.
func (m marks) deleted() annals.SeqNr { return max(m.low-1, 0) }

// marks reads both kinds of markers.
func (j *journal) marks(ctx context.Context, id annals.PersistenceID) (marks, error) {
	low, high, err := j.readMarks(ctx, j.markerKeys(id, j.high, j.low))
	return marks{high: greatest(high), low: greatest(low)}, err
}

// lowMark reads the markers of the lowest number.
func (j *journal) lowMark(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	low, _, err := j.readMarks(ctx, j.markerKeys(id, j.low))
	return greatest(low), err
}

// greatest returns the number that counts; 0 when there is no marker.
func greatest(numbers []annals.SeqNr) annals.SeqNr { return slices.Max(append(numbers, 0)) }

// markerKeys returns the keys of all markers of some kinds.
func (j *journal) markerKeys(id annals.PersistenceID, kinds ...func(annals.PersistenceID, int64) string) []plan.Item {
	keys := make([]plan.Item, 0, len(kinds)*int(j.shards))
	for _, kind := range kinds {
		for shard := range j.shards {
			keys = append(keys, markerKey(kind(id, shard)))
		}
	}
	return keys
}

// readMarks returns the numbers of markers.
func (j *journal) readMarks(ctx context.Context, keys []plan.Item) (low, high []annals.SeqNr, err error) {
	items, err := j.x.GetAll(ctx, plan.GetAll{Table: j.table, Keys: keys})
	for _, it := range items {
		n, highest, err := j.mark(it)
		switch {
		case err != nil:
			return nil, nil, err
		case highest:
			high = append(high, n)
		default:
			low = append(low, n)
		}
	}
	return low, high, err
}

// mark decodes a marker, which is of the highest group or of the lowest number.
func (j *journal) mark(it plan.Item) (n annals.SeqNr, high bool, err error) {
	d := plan.Decoder{Item: it}
	n = annals.SeqNr(d.Required(attrSeq, 0, math.MaxInt64))
	high = strings.HasPrefix(plan.KeyText(it[attrPar]), j.name+kindHigh)
	if high && d.Fault == nil && n%perGroup != 0 {
		d.Fault = errors.New("the number is not one at which a group begins")
	}
	if d.Fault != nil {
		return 0, high, j.corrupt(it, d.Fault)
	}
	return n, high, nil
}

// putHigh marks the group of n as reached. It is part of the write that stores n.
func (j *journal) putHigh(id annals.PersistenceID, n annals.SeqNr) plan.Op {
	return j.putMark(j.high(id, j.shardOf(n)), n-n%perGroup, "<=")
}

// putLow marks n as the lowest number.
func (j *journal) putLow(id annals.PersistenceID, n annals.SeqNr) plan.Op {
	return j.putMark(j.low(id, j.shardOf(n)), n, "<")
}

// putMark puts a marker, if the one that is there, if any, has a number that compares to n in that way. So a marker never goes down.
func (j *journal) putMark(par string, n annals.SeqNr, compares string) plan.Op {
	it := markerKey(par)
	it[attrSeq] = plan.N(n)
	return plan.Op{Table: j.table, Put: it, Condition: "attribute_not_exists(#par) OR #seq " + compares + " :seq",
		Names: map[string]string{"#par": attrPar, "#seq": attrSeq}, Values: plan.Item{":seq": plan.N(n)}}
}
