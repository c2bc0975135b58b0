package j5ik2o_test

import (
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// The golden files have the requests that write and read rows. TestGoldenWrite compares the rows with the plugin's.
func TestRequests(t *testing.T) {
	byID := j5ik2o.Layout{ShardCount: 4}
	byNumber := j5ik2o.Layout{ShardCount: 3, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}}
	unordered := j5ik2o.Layout{ShardCount: 3, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, SortKey: j5ik2o.BySeqNr}}
	hard := j5ik2o.Layout{ShardCount: 3, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, HardDelete: true}}
	legacy := j5ik2o.Layout{ShardCount: 4, Snapshot: j5ik2o.Snapshot{Legacy: true}}
	through := j5ik2o.Layout{ShardCount: 3, ByIndex: true}

	// The plugin's default keys contain the last part of an id.
	named := func(do func(*plantest.Bench)) func(*plantest.Bench) {
		return func(b *plantest.Bench) {
			b.ID = "Thread-42"
			if do != nil {
				do(b)
			}
		}
	}
	requests := func(name string, layout j5ik2o.Layout, prepare, do func(*plantest.Bench)) {
		t.Helper()
		plantest.Requests(t, name, layout, named(prepare), do)
	}
	five := func(b *plantest.Bench) { b.Append(0, "1", "2"); b.Append(2, "3"); b.Append(3, "4", "5") }

	requests("append", byID, nil, func(b *plantest.Bench) {
		b.Append(0, "1")
		c := annals.Commit{ID: b.ID, After: 1, WriteID: plantest.WriteID(7), Events: []annals.NewEvent{plantest.Event("2"), plantest.Event("3"), plantest.Event("4")}}
		c.Events[1].Tags, c.Events[1].Metadata = []string{"red", "blue"}, annals.Payload{SerializerID: 4, Manifest: "meta", Data: []byte("m")}
		b.Commit(c)
		b.Commit(c) // again
		b.Append(0, "other")
		c.WriteID = plantest.WriteID(8)
		b.Commit(c)
	})
	requests("append-over-shards", byNumber, nil, five)
	requests("append-refused", byID, nil, func(b *plantest.Bench) {
		for _, e := range []annals.NewEvent{{Payload: annals.Payload{SerializerID: 4}, Tags: []string{"a,b"}}, plantest.Event(strings.Repeat("x", plan.MaxItemBytes))} {
			b.Commit(annals.Commit{ID: b.ID, WriteID: plantest.WriteID(1), Events: []annals.NewEvent{e}})
		}
		b.ID = "no piece" // the plugin's sort key needs one
		b.Append(0, "1")
	})
	requests("append-collision", byID, func(b *plantest.Bench) { b.ID = "Counter|4"; b.Append(0, "1") }, func(b *plantest.Bench) {
		b.ID = "Counter|10"
		b.Append(0, "1")
	})
	reads := func(b *plantest.Bench) {
		b.Replay(1, annals.MaxSeqNr)
		b.Replay(3, 4)
		b.Replay(9, 20)
		b.Last()
	}
	requests("read", byID, five, reads)
	requests("read-over-shards", byNumber, five, reads)
	requests("read-unordered-keys", unordered, five, reads)
	requests("read-through-index", through, five, reads)
	deletes := func(b *plantest.Bench) {
		b.Delete(3)
		b.Delete(3)
		b.Replay(1, annals.MaxSeqNr)
		b.Delete(annals.MaxSeqNr)
		b.Last()
		b.Commit(annals.Commit{ID: b.ID, WriteID: plantest.WriteID(99), Events: []annals.NewEvent{plantest.Event("late")}})
	}
	requests("delete", byID, five, deletes)
	requests("delete-hard", hard, five, deletes)
	// Number 3 is missing. It was lost, or a delete during the read has removed it.
	holed := func(b *plantest.Bench) {
		five(b)
		if err := b.DeleteAll(b.Context(), "Journal", []plan.Item{{"pkey": plan.S("Thread-42-0"), "skey": plan.S("42-0000000000000000003")}}); err != nil {
			b.Fatal(err)
		}
	}
	requests("replay-over-a-hole", byNumber, holed, func(b *plantest.Bench) { b.Replay(1, annals.MaxSeqNr) })
	requests("replay-overtaken-by-a-delete", byNumber, holed, func(b *plantest.Bench) {
		for e, err := range b.Journal.Replay(b.Context(), b.ID, 1, annals.MaxSeqNr) {
			switch {
			case err != nil:
				b.Told("replay", err)
			case e.SeqNr == 2:
				b.Delete(2)
			}
		}
	})
	requests("skip", byNumber, nil, func(b *plantest.Bench) {
		for _, n := range []annals.SeqNr{100, 100, 99} {
			b.Told("skip", b.SkipTo(b.Context(), b.ID, 0, n))
		}
	})
	snapshots := func(b *plantest.Bench) {
		b.Save(3, []byte("three"))
		b.Save(3, []byte("again"))
		b.Save(5, []byte("five"))
		b.Latest(annals.SnapshotCriteria{})
		b.Latest(annals.SnapshotCriteria{MaxSeqNr: 4})
		b.Prune(annals.SnapshotCriteria{MinSeqNr: 1, MaxSeqNr: 4})
		b.Latest(annals.SnapshotCriteria{MaxSeqNr: 4})
	}
	requests("snapshots", byID, nil, snapshots)
	requests("snapshots-legacy", legacy, nil, snapshots)
	states := func(b *plantest.Bench) {
		b.Put(0, nil)
		b.Put(1, func(w *plan.StateWrite) { w.Tags = []string{"red"} })
		b.Put(1, nil) // too late
		b.State()
		if b.Offer.Capabilities.DeletesStates {
			b.Put(2, func(w *plan.StateWrite) { w.Deleted = true })
			b.State()
		}
	}
	requests("states", byID, nil, states)
	requests("states-tombstones", j5ik2o.Layout{ShardCount: 4, State: j5ik2o.State{Tombstones: true, TagSeparator: ","}}, nil, states)
	requests("states-metadata", byID, nil, func(b *plantest.Bench) {
		meta := func(w *plan.StateWrite) {
			w.Metadata = annals.Payload{SerializerID: 4, Manifest: "meta", Data: []byte("m")}
		}
		b.Put(0, meta)
		b.State()
		b.Put(1, func(w *plan.StateWrite) { meta(w); w.Columns = annals.Columns{"title": "Go"} })
		b.State()
		b.Put(2, func(w *plan.StateWrite) { w.Columns = annals.Columns{} })
		b.State()
	})
	requests("states-skip", j5ik2o.Layout{ShardCount: 4, State: j5ik2o.State{Tombstones: true}}, nil, func(b *plantest.Bench) {
		b.SkipState(41, 41, 42)
		b.State()
		b.Put(40, nil)
		b.Put(41, func(w *plan.StateWrite) { w.Columns = annals.Columns{} })
		b.SkipState(41)
	})
	requests("states-skip-written", j5ik2o.Layout{ShardCount: 4, State: j5ik2o.State{Tombstones: true}}, nil, func(b *plantest.Bench) {
		b.Put(0, nil)
		b.SkipState(1)
		b.Put(1, func(w *plan.StateWrite) { w.Deleted = true })
		b.SkipState(2)
	})
	requests("states-old", j5ik2o.Layout{ShardCount: 4, State: j5ik2o.State{NoSortKey: true, SameRevision: true}}, nil, states)
	requests("settings", byID, five, func(b *plantest.Bench) { b.Told("check", b.Offer.Check(b.Context(), b, false)) })
	requests("settings-misfit", byID, func(b *plantest.Bench) {
		other, err := byNumber.Plan()
		if err != nil {
			b.Fatal(err)
		}
		fitting := b.Contracts
		b.Contracts = other.On(b)
		b.Append(0, "1")
		b.Contracts = fitting
	}, func(b *plantest.Bench) { b.Told("check", b.Offer.Check(b.Context(), b, false)) })
}
