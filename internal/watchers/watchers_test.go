package watchers_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/annals-go/annals/internal/watchers"
)

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
		a, b := w.Watch(first), w.Watch(second)
		w.Wake()
		w.Wake()
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
		c := w.Watch(t.Context())
		synctest.Wait()
		w.Close()
		if _, open := <-c; open || !slices.Equal(did, []string{"begin", "end", "begin", "end"}) {
			t.Errorf("after Close: %q", did)
		}
	})
}
