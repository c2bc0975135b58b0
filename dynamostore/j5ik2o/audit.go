package j5ik2o

import (
	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// owned is the plan.Row of a table whose rows have their numbers in a column. A row without an id is what an update of the plugin can leave.
func (s settings) owned(it plan.Item, number string) (annals.PersistenceID, *ability.Damage) {
	id, ok := plan.Text(it, s.columns[0].name)
	if !ok {
		return "", nil
	}
	n, _ := plan.Number(it, number)
	return annals.PersistenceID(id), plan.Misplaced(annals.PersistenceID(id), annals.SeqNr(n), s.place(it))
}
