package j5ik2o_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/random"
)

// lagging is an executor whose indexes show each row as it was at one of several moments, the same one for all requests up to the last of
// lags. From then on they show the rows as they are.
type lagging struct {
	*plantest.Executor
	tables  []plan.Table
	moments []*plantest.Executor
	random  *random.Source
	past    *plantest.Executor // what the indexes show
	lags    int                // requests for which the indexes lag
}

func (l *lagging) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	if q.Index == "" {
		return l.Executor.Query(ctx, q)
	}
	if l.lags--; l.lags < 0 {
		return l.Executor.Query(ctx, q)
	}
	return l.index().Query(ctx, q)
}

// index returns tables with the rows that the indexes show.
func (l *lagging) index() *plantest.Executor {
	if l.past != nil {
		return l.past
	}
	l.past = plantest.New(l.tables)
	shown := map[string]int{} // index of a moment, by key
	for _, t := range l.tables {
		for i, m := range l.moments {
			for _, it := range m.Items(t.Name) {
				key := t.Name + plan.QuoteKey(t.KeyOf(it))
				if _, ok := shown[key]; !ok {
					shown[key] = l.random.IntN(len(l.moments))
				}
				if shown[key] == i {
					if _, err := l.past.Write(context.Background(), plan.Write{Ops: []plan.Op{{Table: t.Name, Put: it}}}); err != nil {
						panic(err)
					}
				}
			}
		}
	}
	return l.past
}

// options are layouts that find rows in each way that there is, with soft and with hard deletes.
func options() map[string]j5ik2o.Layout {
	own := j5ik2o.PartitionKey{Key: func(id annals.PersistenceID, n annals.SeqNr, s j5ik2o.Sharding) (string, error) {
		return "own-" + string(id) + strconv.Itoa(int(n)%s.Count), nil
	}}
	keys := func(p j5ik2o.PartitionKey, k j5ik2o.SortKey) (j5ik2o.Journal, j5ik2o.Snapshot) {
		return j5ik2o.Journal{PartitionKey: p, SortKey: k}, j5ik2o.Snapshot{PartitionKey: p, SortKey: k}
	}
	all := map[string]j5ik2o.Layout{}
	add := func(name string, j j5ik2o.Journal, s j5ik2o.Snapshot, r bool) {
		all[name] = j5ik2o.Layout{ShardCount: 3, Journal: j, Snapshot: s, ByIndex: r}
		j.HardDelete = true
		all[name+", hard deletes"] = j5ik2o.Layout{ShardCount: 3, Journal: j, Snapshot: s, ByIndex: r}
	}
	for name, k := range map[string]j5ik2o.SortKey{"padded": j5ik2o.BySeqNrPadded, "plain": j5ik2o.BySeqNr, "number": j5ik2o.ByNumber, "default": {}} {
		for partition, p := range map[string]j5ik2o.PartitionKey{"id": {}, "number": j5ik2o.SequenceNumberBased, "own": own} {
			j, s := keys(p, k)
			if name == "number" {
				s.SortKey = j5ik2o.BySeqNr
			}
			add(partition+" and "+name, j, s, false)
			add(partition+" and "+name+", through the index", j, s, true)
		}
	}
	add("legacy, through the index", j5ik2o.Journal{}, j5ik2o.Snapshot{Legacy: true}, true)
	add("snapshots by number", j5ik2o.Journal{}, j5ik2o.Snapshot{PartitionKey: j5ik2o.SequenceNumberBased}, false)
	add("snapshots plain", j5ik2o.Journal{}, j5ik2o.Snapshot{SortKey: j5ik2o.BySeqNr}, false)
	add("events plain", j5ik2o.Journal{SortKey: j5ik2o.BySeqNr}, j5ik2o.Snapshot{}, false)
	return all
}

// A recovery returns a state that has existed, however far the indexes lag: the events from 1 on, or a snapshot and all events after it.
func TestRecoverBehindIndexes(t *testing.T) {
	t.Parallel()
	for name, layout := range options() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rounds := 60
			if testing.Short() {
				rounds = 8
			}
			for random := range random.Rounds(t, rounds) {
				o := newOwner(t, layout)
				x := &lagging{Executor: o.x, tables: o.offer.Tables, random: random, lags: 100}
				var last, saved annals.SeqNr
				history := ""
				for range 1 + random.IntN(8) {
					more := annals.SeqNr(1 + random.IntN(4))
					if layout.Journal.HardDelete && last+more > numbered.Lag {
						break // removed rows can hide more than numbered.Lag numbers that the index does not have
					}
					o.append(last+1, last+more)
					last += more
					history += fmt.Sprintf("append up to %d", last)
					if random.IntN(3) > 0 {
						before := saved
						saved = last - annals.SeqNr(random.IntN(int(more)))
						o.save(saved)
						history += fmt.Sprintf(", save %d", saved)
						if before > 0 && random.IntN(2) > 0 {
							o.prune(before)
							history += fmt.Sprintf(", prune %d", before)
						}
					}
					if to := saved - annals.SeqNr(random.IntN(3)); to > 0 && random.IntN(2) > 0 {
						o.delete(to)
						history += fmt.Sprintf(", delete %d", to)
					}
					x.moments = append(x.moments, o.x.Clone())
					history += "; "
				}
				x.moments = slices.Insert(x.moments, 0, plantest.New(o.offer.Tables))
				recovered := annals.SeqNr(-1)
				for tries := 0; recovered < 0 && tries < 100; tries++ {
					recovered = recoverWhole(o, x)
				}
				if recovered != last && !t.Failed() {
					t.Errorf("recovered up to %d, want %d", recovered, last)
				}
				if t.Failed() {
					t.Fatal(history)
				}
			}
		})
	}
}
