package projection_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	. "github.com/annals-go/annals/projection"
)

// told is an Observer that writes down what it is told.
type told struct {
	mu     sync.Mutex
	begun  int // calls without an end
	calls  []string
	events int
}

type inSpan struct{}

func (o *told) Start(ctx context.Context, c annals.Call) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun++
	return context.WithValue(ctx, inSpan{}, c.Op)
}

func (o *told) End(ctx context.Context, c annals.Call, r annals.Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun--
	o.events += r.Events
	o.calls = append(o.calls, fmt.Sprintf("%s %s %q: %d of %d, lag %v, took %v, retries %d, error %v, warning %v, in %v",
		c.Store, c.Op, c.ID, r.Events, c.Events, r.Lag, r.Duration, r.Retries, r.Err, r.Warning, ctx.Value(inSpan{})))
}

// take is what was told since the last time.
func (o *told) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := o.calls
	o.calls = nil
	return calls
}

// counts is the number of calls without an end and the number of events of the others.
func (o *told) counts() (begun, events int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun, o.events
}

// The Observer is told of each batch, of each decision and of a range that is stuck. Its context reaches the handler.
func TestObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := memstore.New(), &told{}
		add(t, s, 1, 1, 3)
		time.Sleep(time.Minute)
		hangs, failure := make(chan struct{}), errors.New("refused")
		r := must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(ctx context.Context, e envelope) error {
			if ctx.Value(inSpan{}) != "handle" {
				t.Error("the Observer's context does not reach the handler")
			}
			if !slices.ContainsFunc(annals.Batch(ctx), func(b annals.Event) bool { return b.Offset() == e.Offset() }) {
				t.Errorf("event %d is not in the batch %v", e.SeqNr, annals.Batch(ctx))
			}
			time.Sleep(time.Second)
			switch e.SeqNr {
			case 3:
				return failure
			case 4:
				<-hangs
			}
			return nil
		}, Options{Ranges: 1, Observer: o, Logger: silent, OnError: func(_ context.Context, f Failure) Verdict {
			if f.Try == 1 {
				return Retry
			}
			return Skip
		}}))
		catchUp(t, r)
		want := []string{
			`projection/p take "": 0 of 0, lag 0s, took 0s, retries 0, error <nil>, warning <nil>, in take`,
			`projection/p handle "": 2 of 3, lag 1m3s, took 3s, retries 0, error refused, warning <nil>, in handle`,
			`projection/p retry "T|1": 0 of 1, lag 0s, took 0s, retries 0, error refused, warning <nil>, in retry`,
			`projection/p handle "": 0 of 1, lag 0s, took 1s, retries 0, error refused, warning <nil>, in handle`,
			`projection/p skip "T|1": 0 of 1, lag 0s, took 0s, retries 1, error refused, warning <nil>, in skip`,
			`projection/p handle "": 0 of 0, lag 0s, took 0s, retries 0, error <nil>, warning <nil>, in handle`,
			`projection/p release "": 0 of 0, lag 0s, took 0s, retries 0, error <nil>, warning <nil>, in release`,
		}
		if got := o.take(); !slices.Equal(got, want) {
			t.Errorf("told %q\nwant %q", got, want)
		}
		running(t, r)
		synctest.Wait()
		add(t, s, 1, 1, 1)
		time.Sleep(50 * time.Second)
		stuck := 0
		for _, call := range o.take() {
			if len(call) > 18 && call[:18] == "projection/p stuck" {
				stuck++
			}
		}
		if begun, _ := o.counts(); stuck != 1 || begun != 1 {
			t.Errorf("told %d times that a range is stuck, and %d calls have not ended", stuck, begun)
		}
		close(hangs)
		time.Sleep(10 * time.Second)
		if begun, events := o.counts(); begun != 0 || events != 3 {
			t.Errorf("%d calls have not ended, %d events were handled", begun, events)
		}
	})
}

// A range that another runner has taken over, or that was set back meanwhile, is fenced, and taken anew. The Observer and the log say so.
func TestObserverOfLostRanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := memstore.New(), &told{}
		var log bytes.Buffer
		add(t, s, 1, 1, 1)
		r := must(t)(AtLeastOnce("p", Source[int]{Store: s, Type: "T", Codec: numbers}, s, func(context.Context, envelope) error { return nil },
			Options{Ranges: 2, Observer: o, Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		running(t, r)
		time.Sleep(time.Minute)
		fence := annals.Progress{Projection: "p", Slices: annals.SliceRange{To: 512}, Epoch: 100}
		if err := s.Offsets().Save(t.Context(), fence); err != nil {
			t.Fatal(err)
		}
		add(t, s, 1, 9, 1)
		time.Sleep(time.Minute)
		synctest.Wait() // for the log
		changes := map[string]int{}
		for _, call := range o.take() {
			if op, _, _ := strings.Cut(strings.TrimPrefix(call, "projection/p "), " "); op != "handle" {
				changes[op]++
			}
		}
		if changes["take"] != 3 || changes["lose"] != 1 || changes["release"] != 1 || len(changes) != 3 {
			t.Errorf("told %v", changes)
		}
		if n := strings.Count(log.String(), "another runner has taken over a range"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, log.String())
		}
	})
}
