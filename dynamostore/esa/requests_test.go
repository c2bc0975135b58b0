package esa

import (
	"fmt"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

var (
	shared     = Layout{Shards: 3, Format: Plain()} // as a peer of the Go library
	repeatable = Layout{Shards: 3, Format: Plain(), WriteIDs: true}
)

// snapshotOf returns a snapshot of number n.
func snapshotOf(id annals.PersistenceID, n annals.SeqNr) *annals.Snapshot {
	return &annals.Snapshot{ID: id, SeqNr: n, Payload: annals.Payload{SerializerID: 4, Manifest: "chat.thread", Data: fmt.Appendf(nil, "state %d", n)}}
}

// commit appends a commit of size events after a number, with a snapshot if snapshot is set.
func commit(b *plantest.Bench, after annals.SeqNr, size int, snapshot bool) {
	c := annals.Commit{ID: b.ID, After: after, WriteID: plantest.WriteID(byte(after) + 1)}
	for i := range size {
		c.Events = append(c.Events, plantest.Event(fmt.Sprint(int(after)+1+i)))
	}
	if snapshot {
		c.Snapshot = snapshotOf(b.ID, after+annals.SeqNr(size))
	}
	b.Commit(c)
}

// wrote writes the events 1 … to, ten in a commit. The first commit has a snapshot.
func wrote(to annals.SeqNr) func(*plantest.Bench) {
	return func(b *plantest.Bench) {
		for after := annals.SeqNr(0); after < to; after = min(after+10, to) {
			commit(b, after, int(min(10, to-after)), after == 0 && b.Offer.Capabilities.Limits.FirstSnapshot)
		}
	}
}

// peerWrites writes an event as the Go library does.
func peerWrites(b *plantest.Bench, l Layout, version, n annals.SeqNr, state *annals.Snapshot) {
	out, err := newLibrary(l).write(b.Context(), b.Executor, b.ID, version, n, state)
	b.Told(fmt.Sprintf("the library writes event %d at version %d, refused %v", n, version, out.Refused), err)
}

// lose removes the rows of events.
func lose(b *plantest.Bench, l Layout, numbers ...annals.SeqNr) {
	p := newLibrary(l)
	for _, n := range numbers {
		key, err := p.key(b.ID, n)
		if err == nil {
			err = b.DeleteAll(b.Context(), p.journal, []plan.Item{key})
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// recovers reads the entity.
func recovers(b *plantest.Bench) {
	b.Helper()
	var got []any
	last, err := b.Recover(b.Context(), b.ID, func(s annals.Snapshot) error {
		got = append(got, fmt.Sprintf("snapshot %d", s.SeqNr))
		return nil
	}, func(e annals.Event) error {
		got = append(got, e.SeqNr)
		return nil
	})
	b.Told(fmt.Sprintf("recover: %v, last %d", got, last), err)
}

// The golden files have the requests of the journal.
func TestRequests(t *testing.T) {
	requests := plantest.Requests
	requests(t, "append", shared, nil, func(b *plantest.Bench) {
		commit(b, 0, 1, true)
		commit(b, 1, 1, false)
		commit(b, 2, 2, true)
		commit(b, 1, 1, false)
		commit(b, 5, 1, false)
	})
	requests(t, "append-write-ids", repeatable, nil, func(b *plantest.Bench) {
		commit(b, 0, 1, true)
		commit(b, 1, 1, false)
		commit(b, 1, 1, false)
		commit(b, 2, 10, false)
		commit(b, 12, 1, true)
	})
	requests(t, "append-to-gaps", shared, wrote(2), func(b *plantest.Bench) {
		peerWrites(b, shared, 2, 4, nil)
		commit(b, 4, 1, false)
		commit(b, 5, 1, false)
		commit(b, 4, 1, false)
		commit(b, 3, 1, false)
		commit(b, 2, 1, false)
	})
	requests(t, "last", shared, wrote(2), func(b *plantest.Bench) {
		b.Last()
		peerWrites(b, shared, 2, 4, nil)
		b.Last()
	})
	requests(t, "recover", shared, wrote(12), recovers)
	requests(t, "recover-nothing", shared, nil, func(b *plantest.Bench) {
		recovers(b)
		recovers(b)
	})
	requests(t, "recover-gaps", shared, wrote(2), func(b *plantest.Bench) {
		peerWrites(b, shared, 2, 5, nil)
		recovers(b)
		peerWrites(b, shared, 3, 6, snapshotOf(b.ID, 6))
		b.Executor.Log()
		recovers(b)
	})
	requests(t, "replay", shared, wrote(3), func(b *plantest.Bench) {
		b.Replay(1, annals.MaxSeqNr)
		b.Replay(2, 2)
	})
	requests(t, "replay-long", shared, wrote(120), func(b *plantest.Bench) {
		b.Replay(1, 30)
		b.Replay(2, annals.MaxSeqNr)
	})
	requests(t, "replay-of-a-loss", shared, wrote(5), func(b *plantest.Bench) {
		lose(b, shared, 3)
		b.Executor.Log()
		b.Replay(1, annals.MaxSeqNr)
		b.Replay(4, annals.MaxSeqNr)
	})
	requests(t, "replay-without-the-last", repeatable, wrote(5), func(b *plantest.Bench) {
		lose(b, repeatable, 5)
		b.Executor.Log()
		b.Replay(1, annals.MaxSeqNr)
	})
	requests(t, "delete", repeatable, wrote(12), func(b *plantest.Bench) {
		b.Delete(2)
		b.Replay(1, annals.MaxSeqNr)
		b.Delete(annals.MaxSeqNr)
		recovers(b)
		commit(b, 4, 1, false)
		commit(b, 12, 1, false)
		b.Delete(1)
	})
}
