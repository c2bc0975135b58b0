package sqlitestore_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	manager "github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/sqlitestore"
)

// A thousand timers are set because of events, take effect, and send commands that take effect once. They take few COMMITs, and so few fsyncs.
func TestTimerCosts(t *testing.T) {
	t.Parallel()
	const timers = 1000
	s := open(t, sqlitestore.Options{})
	pings, err := aggregate.New(s, behavior.EventSourced[int, int, int, int]{
		Type:   "Ping",
		Decide: func(_, n int) ([]int, error) { return []int{n}, nil },
		Evolve: func(sum, n int) int { return sum + n },
	}, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	target := manager.NewTarget("pings", codec.JSON[int]("ping"))
	p := manager.Process[struct{}, struct{}]{Type: "Timers", React: func(_ struct{}, in manager.Input) (manager.Step[struct{}], error) {
		if _, ok := in.Value.(manager.Fired); ok {
			return manager.Step[struct{}]{Commands: []manager.Command{target.Tell(in.ID, 1)}, End: true}, nil
		}
		return manager.Step[struct{}]{Timers: []manager.Timer{{Name: "now", Due: in.Time.Add(-time.Second)}}}, nil
	}}
	words := codec.JSON[string]("word")
	from := manager.From(projection.Source[string]{Store: s, Type: "T", Codec: words}, func(e projection.Envelope[string]) string { return fmt.Sprint(e.SeqNr) })
	r, err := manager.New(s, p, []manager.Source{from}, []manager.Recipients{manager.To(target, pings.AskOnce)}, manager.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c := annals.Commit{ID: "T|1"}
	for range timers {
		word, err := words.Encode("x")
		if err != nil {
			t.Fatal(err)
		}
		c.Events = append(c.Events, annals.NewEvent{Payload: word})
	}
	mustAppend(t, s, c)
	var commits atomic.Int64
	if err := sqlitestore.AtCommits(s, func() {
		commits.Add(1)
		<-time.After(10 * time.Millisecond) // a disk
	}); err != nil {
		t.Fatal(err)
	}
	if err := r.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Log(commits.Load(), "commits for", timers, "timers")
	if n := commits.Load(); n > timers/4 {
		t.Errorf("%d commits for %d timers", n, timers)
	}
	for n := range timers {
		if got, _, err := pings.Load(context.Background(), fmt.Sprint(n+1)); got != 1 || err != nil {
			t.Fatalf("entity %d has got %d commands, %v", n+1, got, err)
		}
	}
}
