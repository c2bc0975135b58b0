// Package timeline answers annals.Query for a layout whose table has a global index of events and states in the order of time.
//
// The index has the items with events of each entity type in 16 partitions and the states in 16 others. A partition is for 64 slices that are
// neighbours in annals.SpreadRanges. So followers that divide the slices by it into 2, 4, 8 or 16 ranges do not share partitions.
package timeline

import (
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/clock"
)

const (
	groups  = 16
	maxHash = 2048 // the most bytes in a hash key
)

// MaxIDBytes is the most bytes of an id: its type is in a hash key.
const MaxIDBytes = maxHash - len("#00 state")

// Index describes the index, and the items in it.
type Index struct {
	Table, Name string                         // the table with the events, and the index, which has one name in all tables
	StateTable  func(entityType string) string // the table with the states of a type
	Hash, Time  string                         // the index's key; the time is in microseconds since 1970
	ID          string                         // the attribute with the id of an item
	HasEvents   string                         // the attribute that only items with events have
	StateFields []string                       // the attributes of a state without its data
	EventsIn    func(id annals.PersistenceID, it plan.Item, add func(annals.Event)) error
	StateIn     func(it plan.Item) (annals.State, error)
	Types       *Types
	Lateness    time.Duration // how far the watermark is behind the clock
	Clock       *clock.Guard
}

// On returns the queries that x runs.
func (i *Index) On(x plan.Executor) annals.Query { return queries{Index: i, x: x} }

// Shape describes the index.
func (i *Index) Shape() plan.Index {
	return plan.Index{Name: i.Name, Hash: plan.Key{Name: i.Hash}, Range: plan.Key{Name: i.Time, Number: true}}
}

// EventsKey and StateKey return the hash key of the items of an entity. They are unambiguous, whatever the name of the type ends with.
func EventsKey(id annals.PersistenceID) string { return eventsKey(id.Type(), group(id)) }

// StateKey is EventsKey for the state.
func StateKey(id annals.PersistenceID) string { return stateKey(id.Type(), group(id)) }

// groupOf is the group of each slice.
var groupOf = func() (all [annals.SliceCount]uint8) {
	for g, r := range annals.SpreadRanges(groups) {
		for slice := range all {
			if r.Contains(slice) {
				all[slice] = uint8(g)
			}
		}
	}
	return all
}()

func group(id annals.PersistenceID) int { return int(groupOf[id.Slice()]) }

// groupsOf returns the groups that have slices of r: all, where r is of annals.SliceRanges and has many slices.
func groupsOf(r annals.SliceRange) (all []int) {
	var has [groups]bool
	for slice, g := range groupOf {
		has[g] = has[g] || r.Contains(slice)
	}
	for g := range has {
		if has[g] {
			all = append(all, g)
		}
	}
	return all
}

func eventsKey(entityType string, group int) string {
	return entityType + "#" + string([]byte{'0' + byte(group/10), '0' + byte(group%10)})
}

func stateKey(entityType string, group int) string { return eventsKey(entityType, group) + " state" }
