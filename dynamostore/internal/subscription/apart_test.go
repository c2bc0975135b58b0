package subscription

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// The items of an entity are in two shards, and two loops have deliveries of the same 100 events, each from its own shard. One of them can acknowledge
// these events, and can repeat that when the answer was lost, also when the other one has acknowledged what follows.
func TestSameEventsInTwoShards(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.stream.apart = true
			id := annals.PersistenceID("A|0")
			half := func(n int) bool {
				return w.stream.hashOf(plan.Item{"pid": plan.S(string(id)), "seq": plan.N(n)}) < hashes/2
			}
			for n := 1; half(1) == half(101); n++ {
				id = annals.PersistenceID(fmt.Sprint("A|", n))
			}
			var processes [2]*process
			var consumers [2]*consumer
			var deliveries [2]chan ability.Delivery
			take := func(i int) { go func() { deliveries[i] <- consumers[i].delivery() }() }
			for i := range processes {
				processes[i], deliveries[i] = w.process(), make(chan ability.Delivery)
				defer processes[i].Close()
				consumers[i] = processes[i].subscribe(t.Context(), "s", annals.Filter{})
				defer consumers[i].stop()
				take(i)
			}
			time.Sleep(20 * lease) // the catch-up ends, and each loop has a shard
			p := processes[0]
			p.append(id, 0, 100)
			for n := 101; ; n++ {
				if p.append(id, annals.SeqNr(n-1), 1); half(n) == half(1) { // then both shards have events after number 100
					break
				}
			}
			first, second := <-deliveries[0], <-deliveries[1]
			for _, d := range []ability.Delivery{first, second} {
				if len(d.Events) != 100 || d.Events[99].SeqNr != 100 {
					t.Fatalf("got %d events", len(d.Events))
				}
			}
			unanswered := lost
			p.fault = func(w plan.Write) (before, after error) {
				if len(w.Ops) > 1 && unanswered {
					unanswered = false
					return nil, &annals.Error{Kind: annals.ErrUnknown}
				}
				return nil, nil
			}
			if err := first.Ack(t.Context()); lost != errors.Is(err, annals.ErrUnknown) || !lost && err != nil {
				t.Errorf("acknowledge, the answer is lost: %t: got %v", lost, err)
			}
			if err := second.Ack(t.Context()); !errors.Is(err, annals.ErrFenced) {
				t.Errorf("acknowledge what the other loop has acknowledged: got %v, want ErrFenced", err)
			}
			if lost {
				take(1)
				next := <-deliveries[1]
				if e := next.Events[0]; e.SeqNr != 101 {
					t.Errorf("got number %d after 100", e.SeqNr)
				}
				consumers[1].ack(next)
				if err := first.Ack(t.Context()); err != nil {
					t.Errorf("acknowledge again: got %v", err)
				}
			}
		})
	}
}
