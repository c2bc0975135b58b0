package commit

import "github.com/annals-go/annals/dynamostore/internal/plan"

// Plan is l.Plan with items of at most itemBytes for snapshots, and with newSave for the ids of saves.
func Plan(l Layout, itemBytes int, newSave func([]byte)) (plan.Offer, error) {
	return l.plan(itemBytes, newSave)
}
