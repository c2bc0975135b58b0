package j5ik2o_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// A recovery beside an owner whose deletes remove rows is complete, too.
func TestRecoverBesideHardDeletes(t *testing.T) {
	t.Parallel()
	for name, l := range byNumber() {
		l.Journal.HardDelete = true
		for _, c := range []struct{ before, after annals.SeqNr }{{3, 6}, {3, 5}, {0, 6}, {0, 5}} { // the snapshots; what they have is deleted
			t.Run(fmt.Sprintf("%s, %+v", name, c), func(t *testing.T) {
				t.Parallel()
				interleave(t, 13, func() (owner, []func()) {
					o := newOwner(t, l)
					if o.append(1, 4); c.before > 0 {
						o.save(c.before)
						o.delete(c.before)
					}
					return o, []func(){func() { o.append(5, 6) }, func() { o.save(c.after) }, func() { o.prune(c.after - 1); o.delete(c.after) }}
				}, func(o owner, x plan.Executor) { recoverWhole(o, x) })
			})
		}
	}
}

// A recovery notices an event that is lost behind the snapshot, also where the events up to the snapshot are flagged as deleted.
func TestLostBehindTheSnapshot(t *testing.T) {
	t.Parallel()
	for name, l := range layouts() {
		for _, c := range []struct {
			hard    bool
			deleted annals.SeqNr
		}{{false, 0}, {true, 0}, {false, 3}, {false, 2}} {
			for _, lost := range []int64{4, 5, 7} {
				o := newOwner(t, l(c.hard))
				o.append(1, 8)
				o.save(3)
				o.delete(c.deleted)
				for _, it := range o.x.Items("Journal") {
					if n, _ := plan.Number(it, "sequence-nr"); n == lost {
						if err := o.x.DeleteAll(t.Context(), "Journal", []plan.Item{o.offer.Tables[0].KeyOf(it)}); err != nil {
							t.Fatal(err)
						}
					}
				}
				_, err := o.offer.On(o.x).Recover(t.Context(), o.id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
				if !errors.Is(err, annals.ErrCorrupt) {
					t.Errorf("%s, %+v: without event %d: %v", name, c, lost, err)
				}
			}
		}
	}
}

// layouts are all ways in which events are found, with hard deletes or without.
func layouts() map[string]func(hard bool) j5ik2o.Layout {
	number := j5ik2o.SequenceNumberBased
	own := j5ik2o.PartitionKey{Key: func(id annals.PersistenceID, n annals.SeqNr, _ j5ik2o.Sharding) (string, error) {
		return fmt.Sprint(id, n%2), nil
	}}
	return map[string]func(hard bool) j5ik2o.Layout{
		"by id": func(hard bool) j5ik2o.Layout {
			return j5ik2o.Layout{Journal: j5ik2o.Journal{HardDelete: hard}}
		},
		"by number": func(hard bool) j5ik2o.Layout {
			return j5ik2o.Layout{ShardCount: 3, Journal: j5ik2o.Journal{PartitionKey: number, HardDelete: hard}, Snapshot: j5ik2o.Snapshot{PartitionKey: number}}
		},
		"padded, no index": func(hard bool) j5ik2o.Layout {
			return j5ik2o.Layout{ShardCount: 3, NoIndex: true, Journal: j5ik2o.Journal{PartitionKey: number, SortKey: j5ik2o.BySeqNrPadded, HardDelete: hard}}
		},
		"unordered keys": func(hard bool) j5ik2o.Layout {
			return j5ik2o.Layout{ShardCount: 3, Journal: j5ik2o.Journal{PartitionKey: number, SortKey: j5ik2o.BySeqNr, HardDelete: hard}, Snapshot: j5ik2o.Snapshot{SortKey: j5ik2o.BySeqNr}}
		},
		"the number as key": func(hard bool) j5ik2o.Layout {
			return j5ik2o.Layout{ShardCount: 3, Journal: j5ik2o.Journal{PartitionKey: number, SortKey: j5ik2o.ByNumber, HardDelete: hard}, Snapshot: j5ik2o.Snapshot{Legacy: true}}
		},
		"through the index": func(hard bool) j5ik2o.Layout {
			return j5ik2o.Layout{ByIndex: true, Journal: j5ik2o.Journal{HardDelete: hard}}
		},
		"own keys": func(hard bool) j5ik2o.Layout {
			return j5ik2o.Layout{Journal: j5ik2o.Journal{PartitionKey: own, HardDelete: hard}, Snapshot: j5ik2o.Snapshot{PartitionKey: own}}
		},
	}
}
