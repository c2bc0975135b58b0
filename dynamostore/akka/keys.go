package akka

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// perGroup is how many numbers have one partition key. Group 0 has the numbers 1 to 99, because no event has number 0.
const perGroup = 100

func groupOf(n annals.SeqNr) int64 { return int64(n) / perGroup }

// partition returns the partition key of the events of a group.
func (j *journal) partition(id annals.PersistenceID, group int64) string {
	return j.Key(akkakeys.Events, id, group)
}

// key returns the key of event n.
func (j *journal) key(id annals.PersistenceID, n annals.SeqNr) plan.Item {
	return plan.Item{attrPar: plan.S(j.partition(id, groupOf(n))), attrNum: plan.N(n % perGroup)}
}
