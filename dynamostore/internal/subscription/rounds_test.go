package subscription

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/annals-go/annals/internal/random"
)

// Shards are stored after their parents, which may take several transactions, whatever their ids are. So a shard that is stored never begins before
// its parent has ended.
func TestParentsFirst(t *testing.T) {
	t.Parallel()
	r := random.New(t)
	made := &listing{}
	for n := range 200 {
		s := stream.Shard{ID: fmt.Sprint(r.IntN(1000), "-", n)}
		if n > 0 && !r.OneIn(5) {
			s.Parent = made.shards[r.IntN(n)].ID
		}
		made.shards = append(made.shards, s)
	}
	r.Shuffle(len(made.shards), func(i, j int) { made.shards[i], made.shards[j] = made.shards[j], made.shards[i] })
	some := made.shards[0]
	all := joined([]shard{{id: some.ID, parent: some.Parent}}, made, head{})
	if len(all) != len(made.shards)-1 {
		t.Errorf("got %d of %d shards", len(all), len(made.shards)-1)
	}
	for i, s := range all {
		known := s.parent == catchUp || s.parent == some.ID || slices.ContainsFunc(all[:i], func(p shard) bool { return p.id == s.parent })
		if !known {
			t.Errorf("shard %s is stored before its parent %s", s.id, s.parent)
		}
	}
}

// When a shard ends, those after it are listed at once.
func TestShardsAfterOneThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		c := p.subscribe(t.Context(), "s", annals.Filter{})
		defer c.stop()
		p.append("A|1", 0, 1)
		c.handle(1)
		for n := range annals.SeqNr(4) {
			var written time.Time
			time.AfterFunc(lease/8, func() {
				w.stream.roll()
				written = time.Now()
				p.append("A|1", n+1, 1)
			})
			if c.handle(1); time.Since(written) >= lease/2 {
				t.Errorf("the first event of the next shard came after %v", time.Since(written))
			}
		}
	})
}

// A round begins once, also when the readers of several shards order it.
func TestOrdersOfOneRound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWorld(t, 1)
		p := w.process()
		defer p.Close()
		c := p.subscribe(ctx, "s", annals.Filter{})
		p.append("A|1", 0, 1)
		c.handle(1)
		idle := make(chan struct{})
		go func() {
			defer close(idle)
			_, _, _ = c.next()
		}()
		for range 3 {
			time.Sleep(2 * lease)
			if err := p.order(ctx, "s", 1); err != nil {
				t.Error(err)
			}
		}
		v, err := load(ctx, p, subscriptions, "s")
		if err != nil || v.head.round != 2 {
			t.Errorf("round %d, %v", v.head.round, err)
		}
		cancel()
		<-idle
		c.stop()
	})
}
