package headtable

import (
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/aggregateid"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// maxAID is the most bytes of an aggregate id in the library.
const maxAID = 1024

// rule has no types whose names contain "-": the library refuses them.
var rule aggregateid.Rule

// aidOf returns the aggregate id of id.
func aidOf(id annals.PersistenceID) (string, error) {
	aid, err := rule.AID(id)
	if err == nil && len(aid) > maxAID {
		err = &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the aggregate id has %d bytes, the tables take %d", len(aid), maxAID)}
	}
	return aid, err
}

// configAID is the partition key of the settings in each table. No aggregate id is without "-".
const configAID = "__config__"

func headKey(aid string) plan.Item { return plan.Item{attrAID: plan.S(aid)} }

func eventKey(aid string, n annals.SeqNr) plan.Item {
	return plan.Item{attrAID: plan.S(aid), attrSeq: plan.N(n)}
}

// currentPlace is the range key of the current snapshot. That of a copy is its number.
const currentPlace annals.SeqNr = 0

func snapshotKey(aid string, place annals.SeqNr) plan.Item {
	return plan.Item{attrAID: plan.S(aid), attrPlace: plan.N(place)}
}
