package akka

import (
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
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
	high, low, err := j.Read(ctx, j.x, id, akkakeys.High, akkakeys.Low)
	return marks{high: greatest(high), low: greatest(low)}, err
}

// lowMark reads the markers of the lowest number.
func (j *journal) lowMark(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	_, low, err := j.Read(ctx, j.x, id, akkakeys.Low)
	return greatest(low), err
}

// greatest returns the number that counts; 0 when there is no marker.
func greatest(numbers []annals.SeqNr) annals.SeqNr { return slices.Max(append(numbers, 0)) }

// shardOf returns the shard of the markers for number n.
func (j *journal) shardOf(n annals.SeqNr) int64 { return groupOf(n) % j.Shards }

// putHigh marks the group of n as reached. It is part of the write that stores n.
func (j *journal) putHigh(id annals.PersistenceID, n annals.SeqNr) plan.Op {
	return j.putMark(j.Counter(akkakeys.High, id, j.shardOf(n)), n-n%perGroup, "<=")
}

// putLow marks n as the lowest number.
func (j *journal) putLow(id annals.PersistenceID, n annals.SeqNr) plan.Op {
	return j.putMark(j.Counter(akkakeys.Low, id, j.shardOf(n)), n, "<")
}

// putMark puts a marker, if the one that is there, if any, has a number that compares to n in that way. So a marker never goes down.
func (j *journal) putMark(it plan.Item, n annals.SeqNr, compares string) plan.Op {
	it[attrSeq] = plan.N(n)
	return plan.Op{Table: j.Table, Put: it, Condition: "attribute_not_exists(#par) OR #seq " + compares + " :seq",
		Names: map[string]string{"#par": attrPar, "#seq": attrSeq}, Values: plan.Item{":seq": plan.N(n)}}
}
