package commit

import "github.com/annals-go/annals/dynamostore/internal/plan"

// Plan puts l to work with snapshots of at most itemBytes in an item, and with ids of saves that newSave fills in.
func Plan(l Layout, itemBytes int, newSave func([]byte)) (plan.Offer, error) {
	return l.plan(itemBytes, newSave)
}
