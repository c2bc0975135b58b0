package query_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/watchers"
	"github.com/annals-go/annals/query"
)

// signalling is a store whose signals a test sends.
type signalling struct {
	*late.Store
	signals <-chan annals.SliceRange
}

func (s signalling) Watch(context.Context, annals.Filter) (<-chan annals.SliceRange, error) {
	return s.signals, nil
}

// What other processes write is signalled 100 milliseconds later than what this process writes, and more on the way. The look after the signal
// finds it.
func TestSignalsOfOtherProcessesComeLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := late.New(late.Options{Lateness: 8 * time.Second, Fixed: true, Delay: func(int) time.Duration { return 0 }})
		var set watchers.Set
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		feed := newFeed(t, signalling{s, set.Watch(ctx, annals.SliceRange{})}, annals.Filter{}, annals.Position{}, query.Options{Poll: time.Hour, Audit: -1})
		handled := map[string]int{}
		var writer sync.WaitGroup
		defer writer.Wait()
		defer stop()
		writer.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				write(t, s, "Here|1", 1)
				set.Wake(watchers.SignalOf("Here|1"))
				if n%5 == 0 {
					there := annals.NewPersistenceID("There", strconv.Itoa(n))
					write(t, s, there, 1)
					time.AfterFunc(120*time.Millisecond, func() { set.Wake(watchers.SignalOf(there)) })
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
		for ctx.Err() == nil {
			b, err := feed.Next(ctx, 100)
			if err != nil && ctx.Err() == nil {
				t.Fatal(err)
			}
			for _, e := range b.Items {
				if handled[e.ID.Type()]++; time.Since(e.Time) > 200*time.Millisecond {
					t.Fatalf("event %d of %s was handed over after %v", e.SeqNr, e.ID, time.Since(e.Time))
				}
			}
		}
		if handled["Here"] < 900 || handled["There"] < 180 {
			t.Errorf("%v events", handled)
		}
	})
}

// A signal that no valid range is leads to a look at all slices.
func TestSignalsThatAreNoRanges(t *testing.T) {
	t.Parallel()
	for i, r := range []annals.SliceRange{{From: 3, To: 3}, {From: 7, To: 2}, {From: -1, To: 5}, {From: 1000, To: 3000}, {From: 1, To: 1500}} {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, signals := late.New(late.Options{Lateness: 8 * time.Second, Fixed: true, Delay: func(int) time.Duration { return 0 }}), make(chan annals.SliceRange, 1)
				feed := newFeed(t, signalling{s, signals}, annals.Filter{}, annals.Position{}, query.Options{Poll: time.Hour, Audit: -1})
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				for n := range 10 {
					write(t, s, "T|1", 1)
					select {
					case signals <- r:
					default:
					}
					b, err := feed.Next(ctx, 10)
					if err != nil || len(b.Items) != 1 {
						t.Fatalf("after write %d: %v, error %v", n, b.Items, err)
					}
				}
			})
		})
	}
}

// A signal that a call of Next has received before its ctx ended counts for the next call.
func TestSignalsOfCallsThatEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, signals := late.New(late.Options{}), make(chan annals.SliceRange, 1)
		feed := newFeed(t, signalling{s, signals}, annals.Filter{}, annals.Position{}, query.Options{Poll: time.Hour, Audit: -1})
		if _, err := feed.Next(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		write(t, s, "T|1", 1)
		signals <- annals.SliceRange{}
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		if b, err := feed.Next(ctx, 10); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%v, error %v", b.Items, err)
		}
		began := time.Now()
		for n := 0; n == 0; {
			b, err := feed.Next(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			n = len(b.Items)
		}
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("it took %v", d)
		}
	})
}
