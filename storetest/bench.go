package storetest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Bench is the same workload for every store: appends of one writer, of many and in batches, replays, recoveries and
// state writes. Sub-benchmarks of what the store does not claim are left out.
func Bench(b *testing.B, c Config) {
	p := c.probe(b)
	caps := p.caps
	if caps.Events {
		b.Run("append", func(b *testing.B) { benchAppend(b, p, 1) })
		b.Run("append-100", func(b *testing.B) { benchAppend(b, p, 100) })
		b.Run("append-parallel", func(b *testing.B) { benchParallel(b, p) })
		for _, n := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("replay-%d", n), func(b *testing.B) { benchReplay(b, p, n) })
		}
	}
	if caps.Events && caps.Snapshots {
		b.Run("recover", func(b *testing.B) { benchRecover(b, p) })
	}
	if caps.States {
		b.Run("put-state", func(b *testing.B) { benchState(b, p) })
	}
}

func benchAppend(b *testing.B, p probe, size int) {
	h := newHarness(b, p)
	id, size := h.id(), h.batch(size)
	var after annals.SeqNr
	b.ReportAllocs()
	for b.Loop() {
		after = h.append(h.commit(id, after, size)).SeqNr
	}
	b.ReportMetric(float64(after)/b.Elapsed().Seconds(), "events/s")
}

// benchParallel appends with 64 goroutines per processor, each to its own entity.
func benchParallel(b *testing.B, p probe) {
	h := newHarness(b, p)
	var failed atomic.Pointer[error]
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		id := h.id()
		var after annals.SeqNr
		for pb.Next() {
			r, err := h.send(h.ctx, h.store, h.commit(id, after, 1))
			if err != nil {
				failed.Store(&err)
				return
			}
			after = r.SeqNr
		}
	})
	if err := failed.Load(); err != nil {
		b.Fatalf("parallel appends: got error %v, want none", *err)
	}
}

func benchReplay(b *testing.B, p probe, n int) {
	h := newHarness(b, p)
	id := h.id()
	h.write(id, 0, n)
	b.ReportAllocs()
	for b.Loop() {
		read := 0
		for _, err := range h.journal().Replay(h.ctx, id, 1, annals.MaxSeqNr) {
			if err != nil {
				b.Fatalf("replay: got error %v after %d events, want none", err, read)
			}
			read++
		}
		if read != n {
			b.Fatalf("replay: got %d events, want %d", read, n)
		}
	}
}

// benchRecover recovers an entity with a snapshot and ten events after it.
func benchRecover(b *testing.B, p probe) {
	h := newHarness(b, p)
	id := h.id()
	last := h.write(id, 0, 1000)
	h.saveSnapshot(snapshotOf(id, last-10))
	b.ReportAllocs()
	for b.Loop() {
		got, err := ability.Recover(h.ctx, h.store, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		if err != nil || got != last {
			b.Fatalf("recovery: got last number %d, error %v, want %d", got, err, last)
		}
	}
}

func benchState(b *testing.B, p probe) {
	h := newHarness(b, p)
	id := h.id()
	var after annals.SeqNr
	b.ReportAllocs()
	for b.Loop() {
		after = h.put(id, after).SeqNr
	}
}
