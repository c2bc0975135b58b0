package entity_test

import (
	"context"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/memstore"
)

func BenchmarkAsk(b *testing.B) {
	rt, err := entity.New(memstore.New(), account, entity.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rt.Ask(b.Context(), "a", 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAskToRead(b *testing.B) {
	rt, err := entity.New(memstore.New(), account, entity.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rt.Ask(b.Context(), "a", 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAskHotEntity(b *testing.B) {
	rt, err := entity.New(memstore.New(), account, entity.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := rt.Ask(b.Context(), "a", 1); err != nil {
				b.Error(err)
			}
		}
	})
}

// The store takes 5 ms for a write: what counts is how many commands share one.
func BenchmarkAskHotEntityWithLatency(b *testing.B) {
	s := newHooked()
	s.write = func(_ context.Context, _ written, next func() error) error {
		<-time.After(5 * time.Millisecond)
		return next()
	}
	rt, err := entity.New(s, account, entity.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := rt.Ask(b.Context(), "a", 1); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/float64(s.writes.Load()), "commands/write")
}

// What BenchmarkAsk is compared with: the same event, encoded before.
func BenchmarkAppend(b *testing.B) {
	journal := memstore.New().Journal()
	p, err := account.Events.Encode(1)
	if err != nil {
		b.Fatal(err)
	}
	events := []annals.NewEvent{{Payload: p}}
	var last annals.SeqNr
	b.ReportAllocs()
	for b.Loop() {
		r, err := journal.Append(b.Context(), annals.Commit{ID: "Account|a", After: last, Events: events})
		if err != nil {
			b.Fatal(err)
		}
		last = r.SeqNr
	}
}

// The yardstick: one request and its reply between two goroutines.
func BenchmarkChannelRoundTrip(b *testing.B) {
	requests, replies := make(chan int), make(chan int)
	go func() {
		for n := range requests {
			replies <- n
		}
	}()
	defer close(requests)
	for b.Loop() {
		requests <- 1
		<-replies
	}
}
