package grouped

import (
	"strconv"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// perGroup is how many numbers have one partition key. Group 0 has the numbers 1 to 99, because no event has number 0.
const perGroup = 100

func groupOf(n annals.SeqNr) int64 { return int64(n) / perGroup }

// partition returns the partition key of the events of a group.
func (j *journal) partition(id annals.PersistenceID, group int64) string {
	return j.name + kindEvents + string(id) + "-" + strconv.FormatInt(group, 10)
}

// high returns the partition key of a marker of the highest group.
func (j *journal) high(id annals.PersistenceID, shard int64) string {
	return j.name + kindHigh + string(id) + "-" + strconv.FormatInt(shard, 10)
}

// low returns the partition key of a marker of the lowest number.
func (j *journal) low(id annals.PersistenceID, shard int64) string {
	return j.name + kindLow + string(id) + "-" + strconv.FormatInt(shard, 10)
}

// shardOf returns the shard of the markers for number n.
func (j *journal) shardOf(n annals.SeqNr) int64 { return groupOf(n) % j.shards }

// key returns the key of event n.
func (j *journal) key(id annals.PersistenceID, n annals.SeqNr) plan.Item {
	return plan.Item{attrPar: plan.S(j.partition(id, groupOf(n))), attrNum: plan.N(n % perGroup)}
}

// markerKey returns the key of a marker.
func markerKey(par string) plan.Item { return plan.Item{attrPar: plan.S(par), attrNum: plan.N(0)} }

// maxPartitionKey is the most bytes of a partition key that the service takes.
const maxPartitionKey = 2048

// maxID returns how many bytes an id may have, so that each of its partition keys is taken.
func (j *journal) maxID() int {
	return maxPartitionKey - max(len(j.partition("", groupOf(annals.MaxSeqNr))), len(j.high("", j.shards-1)))
}
