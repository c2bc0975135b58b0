package rust5_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

func TestRequests(t *testing.T) {
	written := func(b *plantest.Bench) {
		b.Append(0, "a")
		b.Append(1, "b", "c")
	}
	with := func(b *plantest.Bench, after annals.SeqNr, data string) {
		s := annals.Snapshot{ID: b.ID, SeqNr: after + 1, Payload: annals.Payload{SerializerID: 31, Manifest: "chat.thread", Data: []byte("{}")}}
		b.Commit(annals.Commit{ID: b.ID, After: after, WriteID: plantest.WriteID(9), Events: []annals.NewEvent{plantest.Event(data)}, Snapshot: &s})
	}
	recovers := func(b *plantest.Bench) {
		var snapshot annals.SeqNr
		var events []annals.SeqNr
		last, err := b.Recover(b.Context(), b.ID, func(s annals.Snapshot) error { snapshot = s.SeqNr; return nil }, func(e annals.Event) error { events = append(events, e.SeqNr); return nil })
		b.Note("snapshot %d, events %v, last %d", snapshot, events, last)
		b.Told("recover", err)
	}
	plain, copies := esa.Layout{Peer: esa.Rust5}, esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 2}}
	marked := esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 1, Expire: time.Hour}}
	repeatable := esa.Layout{Peer: esa.Rust5, WriteIDs: true}

	plantest.Requests(t, "open", plain, nil, func(b *plantest.Bench) { b.Told("open", b.Offer.Check(b.Context(), b, true)) })
	plantest.Requests(t, "append", plain, nil, written)
	plantest.Requests(t, "append with a snapshot", plain, written, func(b *plantest.Bench) { with(b, 3, "d") })
	plantest.Requests(t, "append with a snapshot and a copy", copies, func(b *plantest.Bench) {
		for after := range annals.SeqNr(3) {
			with(b, after, "x")
		}
	}, func(b *plantest.Bench) { with(b, 3, "d") })
	plantest.Requests(t, "append that marks a copy", marked, func(b *plantest.Bench) { with(b, 0, "x") }, func(b *plantest.Bench) { with(b, 1, "y") })
	plantest.Requests(t, "append refused", plain, written, func(b *plantest.Bench) {
		b.Append(1, "x")
		b.Append(0, "x")
		b.Append(7, "x")
	})
	plantest.Requests(t, "append again", repeatable, written, func(b *plantest.Bench) {
		b.Append(1, "b", "c")
		b.Append(0, "a")
	})
	plantest.Requests(t, "append of other formats", repeatable, nil, func(b *plantest.Bench) {
		e := plantest.Event("x")
		e.SerializerID, e.Manifest = 4, ""
		e.Time = time.Date(2020, 1, 2, 3, 4, 5, 6789, time.UTC)
		b.Commit(annals.Commit{ID: b.ID, WriteID: plantest.WriteID(1), Events: []annals.NewEvent{e}})
	})
	plantest.Requests(t, "read", plain, written, func(b *plantest.Bench) {
		b.Last()
		b.Replay(1, annals.MaxSeqNr)
		b.Replay(2, 2)
		b.Replay(4, annals.MaxSeqNr)
		recovers(b)
		b.ID = "Thread|unknown"
		b.Replay(1, annals.MaxSeqNr)
		recovers(b)
	})
	plantest.Requests(t, "recover", plain, func(b *plantest.Bench) {
		written(b)
		b.Save(2, []byte("s"))
	}, recovers)
	plantest.Requests(t, "delete", plain, written, func(b *plantest.Bench) {
		b.Delete(2)
		b.Replay(1, annals.MaxSeqNr)
		b.Delete(annals.MaxSeqNr)
		b.Replay(1, annals.MaxSeqNr)
		b.Last()
		b.Append(3, "d")
		b.Replay(1, annals.MaxSeqNr)
		recovers(b)
	})
	plantest.Requests(t, "snapshots", copies, written, func(b *plantest.Bench) {
		b.Save(1, []byte("s1"))
		b.Save(2, []byte("s2"))
		b.Save(3, []byte("s3"))
		b.Save(2, []byte("late"))
		b.Latest(annals.SnapshotCriteria{})
		b.Latest(annals.SnapshotCriteria{MaxSeqNr: 2})
		b.Latest(annals.SnapshotCriteria{MaxSeqNr: 1})
		b.Prune(annals.SnapshotCriteria{MinSeqNr: 3, MaxSeqNr: 3})
		b.Latest(annals.SnapshotCriteria{})
		b.Prune(annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		b.Latest(annals.SnapshotCriteria{})
	})
	plantest.Requests(t, "skip", plain, nil, func(b *plantest.Bench) {
		b.Told("skip to 41", b.SkipTo(b.Context(), b.ID, 0, 41))
		b.Told("skip to 41 again", b.SkipTo(b.Context(), b.ID, 0, 41))
		b.Told("skip to 42", b.SkipTo(b.Context(), b.ID, 0, 42))
		b.Replay(1, annals.MaxSeqNr)
		b.Append(41, "a")
		b.Replay(1, annals.MaxSeqNr)
		b.Told("skip to 42", b.SkipTo(b.Context(), b.ID, 0, 42))
	})
	plantest.Requests(t, "refused before", plain, nil, func(b *plantest.Bench) {
		b.Commit(annals.Commit{ID: b.ID, Events: []annals.NewEvent{plantest.Event(strings.Repeat("x", 410_000))}})
		large := annals.Commit{ID: b.ID, After: 1}
		for range 3 {
			large.Events = append(large.Events, plantest.Event(strings.Repeat("x", 140_000)))
		}
		b.Commit(large) // each event fits, but not all of them into the head
		b.Commit(annals.Commit{ID: b.ID, After: 1<<53 - 1, Events: []annals.NewEvent{plantest.Event("x")}})
		late := plantest.Event("x")
		late.Time = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
		b.Commit(annals.Commit{ID: b.ID, Events: []annals.NewEvent{late}})
		b.Told("skip to 2^53", b.SkipTo(b.Context(), b.ID, 0, 1<<53))
		b.Save(1<<53, nil)
		for _, id := range []annals.PersistenceID{"order-item|1", annals.PersistenceID("Thread|" + strings.Repeat("x", 1018))} {
			b.ID = id
			b.Append(0, "x")
			b.Last()
			b.Replay(1, 2)
			b.Delete(1)
			b.Save(1, nil)
			b.Latest(annals.SnapshotCriteria{})
			b.Prune(annals.SnapshotCriteria{MaxSeqNr: 1})
			recovers(b)
			b.Told("skip", b.SkipTo(b.Context(), b.ID, 0, 1))
		}
	})
}

// The error of a refused append has the last number.
func TestConflictHasTheLastNumber(t *testing.T) {
	t.Parallel()
	b := newBench(t, esa.Layout{Peer: esa.Rust5})
	last := b.write("Thing|1", 0, 3)
	for _, after := range []annals.SeqNr{0, 2, 5} {
		_, err := b.append(annals.Commit{ID: "Thing|1", After: after, Events: events(1)})
		if e, ok := errors.AsType[*annals.Error](err); !ok || e.Kind != annals.ErrConflict || e.After != after || e.Last != last {
			t.Errorf("after %d: %v", after, err)
		}
	}
}
