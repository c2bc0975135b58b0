package watchers_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/watchers"
)

// A write is signalled to the watch of its slice, whatever the ranges are, and not to those of distant slices.
func TestSignalsOfSlices(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 7, 16, 64, 100, annals.SliceCount} {
		w := &watchers.Set{}
		ranges := annals.SliceRanges(n)
		watches := make([]<-chan annals.SliceRange, n)
		for i, r := range ranges {
			watches[i] = w.Watch(t.Context(), r)
		}
		for i := range 300 {
			id := annals.NewPersistenceID("T", fmt.Sprint(i))
			w.Wake(watchers.SignalOf(id))
			for i, r := range ranges {
				signalled := len(watches[i]) > 0
				near := r.From-16 < id.Slice() && id.Slice() < r.To+15
				if r.Contains(id.Slice()) && !signalled || signalled && !near {
					t.Fatalf("slice %d, watch of %v: signalled %v", id.Slice(), r, signalled)
				}
				if signalled {
					if written := <-watches[i]; !written.Contains(id.Slice()) || written.To-written.From != 16 {
						t.Fatalf("slice %d: the signal says %v", id.Slice(), written)
					}
				}
			}
		}
		w.Wake(0)
		w.Wake(watchers.SignalOf())
		for i, signals := range watches {
			if len(signals) > 0 {
				t.Fatalf("nothing was written, watch of %v: signalled", ranges[i])
			}
		}
		w.Wake(watchers.Everywhere)
		for i, signals := range watches {
			if len(signals) == 0 {
				t.Fatalf("a signal for all, watch of %v: not signalled", ranges[i])
			}
		}
	}
}

// Follow runs while there are watches, and no longer.
func TestWatchers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var did []string
		w := &watchers.Set{Follow: func(ctx context.Context) {
			did = append(did, "begin")
			<-ctx.Done()
			did = append(did, "end")
		}}
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		a, b := w.Watch(first, annals.SliceRange{}), w.Watch(second, annals.SliceRange{})
		w.Wake(watchers.Everywhere)
		w.Wake(watchers.SignalOf("T|1"))
		<-a
		<-b
		select {
		case <-a:
			t.Error("two signals for writes between two receives")
		default:
		}
		cancelFirst()
		synctest.Wait()
		if _, open := <-a; open || !slices.Equal(did, []string{"begin"}) {
			t.Errorf("after the end of one of two watches: %q", did)
		}
		cancelSecond()
		synctest.Wait()
		if _, open := <-b; open || !slices.Equal(did, []string{"begin", "end"}) {
			t.Errorf("without watches: %q", did)
		}
		c := w.Watch(t.Context(), annals.SliceRange{})
		synctest.Wait()
		w.Close()
		if _, open := <-c; open || !slices.Equal(did, []string{"begin", "end", "begin", "end"}) {
			t.Errorf("after Close: %q", did)
		}
	})
}
