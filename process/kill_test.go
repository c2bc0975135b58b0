package process_test

import (
	"cmp"
	"context"
	"flag"
	"strconv"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/internal/servers/stores"
	"github.com/annals-go/annals/process"
)

// rounds is how often a process with a Runner is killed: make soak has 20.
var rounds = flag.Int("rounds", 2, "how often a process with a Runner is killed")

// many is for other numbers of instances than those of make test, which are less on slower stores.
var many = flag.Int("instances", 0, "how many instances there are while a process is killed; 0: 1,000 on SQLite, and fewer on the others")

// killed are the Options of a process that is killed, and of the one that goes on.
var killed = process.Options{Precision: 20 * time.Millisecond, Lease: 300 * time.Millisecond}

func TestMain(m *testing.M) {
	stores.Main(m, func(ctx context.Context, store annals.Store) error {
		w, err := newWorld(store)
		if err != nil {
			return err
		}
		r, err := w.runner(store, listing, killed)
		if err != nil {
			return err
		}
		return r.Run(ctx)
	})
}

// Many instances with timers and commands go on wherever the process is killed that runs them.
func TestInstancesUnderKill(t *testing.T) {
	t.Parallel()
	for name, instances := range map[string]int{"sqlite": 1000, "postgres": 100, "dynamodb": 50} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := stores.New[name](t)
			x := newTrial(t, stores.Open(t, address), random.New(t), 0, 300*time.Millisecond)
			x.ids, x.recipients = nil, nil
			for i := range cmp.Or(*many, instances) {
				x.ids = append(x.ids, "i-"+strconv.Itoa(i))
			}
			for i := range 50 {
				x.recipients = append(x.recipients, "r-"+strconv.Itoa(i))
			}
			x.begin(t)
			for range *rounds {
				_, kill := stores.Start(t, address)
				for range 20 {
					x.wish(t)
				}
				wait(t.Context(), 100*time.Millisecond+x.r.Below(500*time.Millisecond))
				kill()
			}
			x.finish(t, killed)
			x.check(t)
		})
	}
}

// begin has each instance set a timer, and some send a command.
func (x *trial) begin(t *testing.T) {
	t.Helper()
	for i := range 8 {
		id := annals.NewPersistenceID(sourceTypes[i%2], strconv.Itoa(i))
		first := annals.Commit{ID: id}
		for k := i; k < len(x.ids); k += 8 {
			wishes := []wish{{For: x.ids[k], Do: "set", Name: "begin", After: x.r.Below(2 * time.Second)}}
			if k%10 == 0 {
				wishes = append(wishes, wish{For: x.ids[k], Do: "ask", Name: random.OneOf(x.r, x.recipients...)})
			}
			for _, w := range wishes {
				p, err := codec.JSON[wish](id.Type()).Encode(w)
				if err != nil {
					t.Fatal(err)
				}
				first.Events, x.made[string(id)] = append(first.Events, annals.NewEvent{Payload: p}), append(x.made[string(id)], w)
			}
		}
		if _, err := x.store.Journal().Append(t.Context(), first); err != nil {
			t.Fatal(err)
		}
	}
}
