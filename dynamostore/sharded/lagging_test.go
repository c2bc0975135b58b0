package sharded_test

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/sharded"
)

// lagging is an executor whose indexes show each row as it was at one of several moments, the same one for all requests up to the last of
// lags. From then on they show the rows as they are.
type lagging struct {
	*plantest.Executor
	tables  []plan.Table
	moments []*plantest.Executor
	random  *rand.Rand
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
func options() map[string]sharded.Layout {
	own := sharded.PartitionKey{Key: func(id annals.PersistenceID, n annals.SeqNr, s sharded.Sharding) (string, error) {
		return "own-" + string(id) + strconv.Itoa(int(n)%s.Count), nil
	}}
	keys := func(p sharded.PartitionKey, k sharded.SortKey) (sharded.Journal, sharded.Snapshot) {
		return sharded.Journal{PartitionKey: p, SortKey: k}, sharded.Snapshot{PartitionKey: p, SortKey: k}
	}
	all := map[string]sharded.Layout{}
	add := func(name string, j sharded.Journal, s sharded.Snapshot, r sharded.ReadThrough) {
		all[name] = sharded.Layout{ShardCount: 3, Journal: j, Snapshot: s, ReadThrough: r}
		j.HardDelete = true
		all[name+", hard deletes"] = sharded.Layout{ShardCount: 3, Journal: j, Snapshot: s, ReadThrough: r}
	}
	for name, k := range map[string]sharded.SortKey{"padded": sharded.BySeqNrPadded, "plain": sharded.BySeqNr, "number": sharded.ByNumber, "default": {}} {
		for partition, p := range map[string]sharded.PartitionKey{"id": {}, "number": sharded.SequenceNumberBased, "own": own} {
			j, s := keys(p, k)
			if name == "number" {
				s.SortKey = sharded.BySeqNr
			}
			add(partition+" and "+name, j, s, sharded.Keys)
			add(partition+" and "+name+", through the index", j, s, sharded.Index)
		}
	}
	add("legacy, through the index", sharded.Journal{}, sharded.Snapshot{Legacy: true}, sharded.Index)
	add("snapshots by number", sharded.Journal{}, sharded.Snapshot{PartitionKey: sharded.SequenceNumberBased}, sharded.Keys)
	add("snapshots plain", sharded.Journal{}, sharded.Snapshot{SortKey: sharded.BySeqNr}, sharded.Keys)
	add("events plain", sharded.Journal{SortKey: sharded.BySeqNr}, sharded.Snapshot{}, sharded.Keys)
	return all
}

// A recovery returns a state that has existed, however far the indexes lag: the events from 1 on, or a snapshot and all events after it.
func TestRecoverBehindIndexes(t *testing.T) {
	t.Parallel()
	for name, layout := range options() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seeds := uint64(60)
			if testing.Short() {
				seeds = 8
			}
			for seed := range seeds {
				random := rand.New(rand.NewPCG(seed, 1))
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
					t.Fatalf("seed %d: %s", seed, history)
				}
			}
		})
	}
}
