package hosttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/entity"
)

// Turns has hosts on here and on there, two stores that are open on the same data, write to one entity without a pause. Each must get its
// share, and no command may be refused. It checks two entity.Runtimes, two aggregate.Repositories, and one of each, and, if the store has
// durable states, those too.
func Turns(t *testing.T, here, there annals.Store) {
	t.Helper()
	for _, c := range []struct {
		hosts   string
		callers int
		most    float64 // the share of one, divided by that of the other
	}{
		{"EE", 4, 3}, {"EE", 16, 3}, {"EE", 64, 3}, {"AA", 16, 3},
		{"EA", 16, 8}, // writes: those of a repository wait for a read each
		{"ee", 16, 3}, {"aa", 16, 3},
	} {
		if strings.ToLower(c.hosts) == c.hosts && !here.Capabilities().States {
			continue
		}
		t.Run(fmt.Sprint(c.hosts, c.callers), func(t *testing.T) {
			owners, err := NewOwners(c.hosts, here, there)
			if err != nil {
				t.Fatal(err)
			}
			defer owners.Close()
			// A share may become right later. A time in which an owner was run too late for the gap that the other one left says nothing.
			const long = 600 * time.Millisecond
			var ratio float64
			for tries, times := 0, 0; tries < 10 && times < 100; times++ {
				late := lateness(t.Context())
				if err := owners.Run(t.Context(), "hot", c.callers, long); err != nil {
					t.Fatal(err)
				}
				if late() < 10*time.Millisecond {
					tries++
				}
				if ratio = owners.Ratio(); ratio <= c.most {
					return
				}
			}
			t.Errorf("one owner has written %.1f times as often as the other: %v", ratio, owners)
		})
	}
}

// lateness measures how late this process is run, at most, until the function that it returns is called.
func lateness(ctx context.Context) func() time.Duration {
	ctx, cancel := context.WithCancel(ctx)
	most := make(chan time.Duration, 1)
	go func() {
		const every = time.Millisecond
		var late time.Duration
		for ctx.Err() == nil {
			due := time.Now().Add(every)
			<-time.After(every)
			late = max(late, time.Since(due))
		}
		most <- late
	}()
	return func() time.Duration {
		cancel()
		return <-most
	}
}

// Owners are hosts that write to the same entities.
type Owners []*owner

type owner struct {
	host     rune
	ask      func(ctx context.Context, id string, amount int) (int, error)
	close    func(ctx context.Context) error
	commands atomic.Int64
	writes   atomic.Int64
}

// Start and End make an owner the Observer of its host. They count the writes that succeed.
func (*owner) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (o *owner) End(_ context.Context, c annals.Call, r annals.Result) {
	if c.Op == "write" && r.Err == nil {
		o.writes.Add(1)
	}
}

func (o *owner) String() string {
	return fmt.Sprintf("%d commands in %d writes", o.commands.Load(), o.writes.Load())
}

// NewOwners starts a host for each letter of hosts, E for an entity.Runtime and A for an aggregate.Repository, e and a for those of durable states,
// on stores in turn.
func NewOwners(hosts string, stores ...annals.Store) (Owners, error) {
	var owners Owners
	for i, h := range hosts {
		s, o, events, states := stores[i%len(stores)], &owner{host: h}, account, accountState
		if s.Capabilities().Snapshots {
			events.SnapshotEvery = 100
		}
		events.Type, states.Type = "Turns"+hosts, "Turns"+hosts
		var (
			rt  *entity.Runtime[int, int, int]
			r   *aggregate.Repository[int, int, int]
			err error
		)
		switch h {
		case 'E':
			rt, err = entity.New(s, events, entity.Options{Observer: o})
		case 'e':
			rt, err = entity.NewState(s, states, entity.Options{Observer: o})
		case 'A':
			r, err = aggregate.New(s, events, aggregate.Options{Observer: o})
		case 'a':
			r, err = aggregate.NewState(s, states, aggregate.Options{Observer: o})
		}
		switch {
		case err != nil:
			return nil, err
		case rt != nil:
			o.ask, o.close = rt.Ask, rt.Shutdown
		default:
			o.ask, o.close = r.Ask, r.Wait
		}
		owners = append(owners, o)
	}
	return owners, nil
}

// Close ends the hosts.
func (all Owners) Close() {
	for _, o := range all {
		_ = o.close(context.Background())
	}
}

// Run has so many callers of each owner send commands to the entity id without a pause, for so long. The error is of all commands that failed.
func (all Owners) Run(ctx context.Context, id string, callers int, long time.Duration) error {
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed error
		began  = time.Now()
	)
	for _, o := range all {
		for range callers {
			wg.Go(func() {
				for time.Since(began) < long {
					if _, err := o.ask(ctx, id, 1); err != nil {
						mu.Lock()
						failed = errors.Join(failed, err)
						mu.Unlock()
						return
					}
					o.commands.Add(1)
				}
			})
		}
	}
	wg.Wait()
	return failed
}

// Commands is how many commands the owners have executed.
func (all Owners) Commands() (n int64) {
	for _, o := range all {
		n += o.commands.Load()
	}
	return n
}

// Ratio is the most commands of an owner divided by the fewest of another. When there are hosts of both kinds it counts writes, because only a
// runtime puts commands of several callers into one.
func (all Owners) Ratio() float64 {
	mixed := slices.ContainsFunc(all, func(o *owner) bool { return o.host != all[0].host })
	var n []float64
	for _, o := range all {
		if mixed {
			n = append(n, float64(o.writes.Load()))
		} else {
			n = append(n, float64(o.commands.Load()))
		}
	}
	return slices.Max(n) / slices.Min(n)
}
