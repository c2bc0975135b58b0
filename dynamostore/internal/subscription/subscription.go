package subscription

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/annals-go/annals/internal/backoff"
)

// Source is what subscriptions read, and where they keep what was acknowledged.
type Source struct {
	Executor plan.Executor
	Journal  annals.Journal
	Feed     *plan.Feed
	Stream   Stream
	Table    string        // of Table
	Lease    time.Duration // how long a loop may show no sign of life; at least 10 ms
}

// Stream is the stream of the table with the events. There is an *annals.Error in the chain of its errors, and stream.ErrTrimmed when records
// were removed.
type Stream interface {
	// Name is the name of the stream. It changes when the stream is switched off and on again.
	Name(ctx context.Context) (string, error)
	// Shards lists a page of the shards of the stream name: those after the shard with the id after, and the first ones for "". The next page
	// is after next, which is "" for the last page.
	Shards(ctx context.Context, name, after string) (page []stream.Shard, next string, err error)
	// Reader reads a shard of the stream name after the record whose number is after, and from its oldest record for "".
	Reader(name, shard, after string) Reader
}

// Reader is a *stream.Reader.
type Reader interface {
	Next(ctx context.Context) (records []stream.Record, end bool, err error)
}

// Subscriptions are those of one store.
type Subscriptions struct {
	Source
	mu      sync.Mutex
	closed  bool
	closing chan struct{} // closed by Close
	loops   sync.WaitGroup
}

// New returns the subscriptions of s.
func New(s Source) *Subscriptions { return &Subscriptions{Source: s, closing: make(chan struct{})} }

// Close ends all loops, and waits until their shards are free.
func (s *Subscriptions) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.loops.Wait()
}

// Subscribe is ability.Subscriber.
func (s *Subscriptions) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		l, err := s.join(ctx, name, f)
		if err != nil {
			yield(ability.Delivery{}, err)
			return
		}
		defer l.leave()
		for {
			d, err := l.next(ctx)
			if !yield(d, err) || err != nil {
				return
			}
		}
	}
}

func (s *Subscriptions) join(ctx context.Context, name string, f annals.Filter) (*loop, error) {
	if len(name) > maxName {
		return nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the name of the subscription has %d bytes, the store takes %d", len(name), maxName)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // the loop lasts until its body has returned
	l := &loop{Subscriptions: s, name: name, filter: f, id: rand.Text()[:16], stop: stop, left: make(chan struct{}), offers: make(chan *delivery), changed: make(chan struct{}, 1), look: make(chan struct{}, 1)}
	s.loops.Go(func() {
		defer close(l.left)
		l.run(running)
	})
	return l, nil
}

// leave ends l, and waits until its shards are free.
func (l *loop) leave() {
	l.stop()
	<-l.left
}

// write stores w in a use of the backend that Close waits for.
func (s *Subscriptions) write(ctx context.Context, w plan.Write) error {
	return driver.Fetch(ctx, func(ctx context.Context) error {
		_, err := s.Executor.Write(ctx, w)
		return err
	})
}

var (
	errClosed = &annals.Error{Kind: annals.ErrClosed}
	errFilter = errors.New("the loops of a subscription must have the filter that it began with")
)

// patience is how long a loop repeats what is refused. Wrong clocks, rights that are missing, and a stream that is off can be put right meanwhile.
const patience = 5 * time.Minute

// last is how long a last request may take after the end of a loop.
func (s *Subscriptions) last() time.Duration { return max(s.Lease, time.Second) }

// failures are those of a task since it succeeded.
type failures struct {
	n       int
	refused time.Time // since when the task has been refused; zero: it was not refused last
}

// wait returns the time after which the task that ended with err is tried again; false when err ends the loop.
func (f *failures) wait(err error) (time.Duration, bool) {
	is := func(kind error) bool { return errors.Is(err, kind) }
	switch {
	case err == nil:
		*f = failures{}
		return 0, true
	case is(stream.ErrTrimmed), is(errFilter), is(annals.ErrClosed), is(annals.ErrFenced), is(annals.ErrCorrupt), is(annals.ErrUnsupported):
		return 0, false
	case is(annals.ErrConflict), is(annals.ErrUnknown), is(annals.ErrUnavailable), is(annals.ErrTruncated):
		f.refused = time.Time{}
	case f.refused.IsZero():
		f.refused = time.Now()
	case time.Since(f.refused) >= patience:
		return 0, false
	}
	f.n++
	return backoff.Delay(f.n - 1), true
}

// repeated calls fn until it succeeds, fails for good, or ctx ends. What fn has delivered is not delivered again.
func repeated(ctx context.Context, fn func() error) error {
	var failed failures
	for {
		err := fn()
		if err == nil {
			return nil
		}
		if wait, again := failed.wait(err); !again || backoff.Sleep(ctx, wait) != nil {
			return err
		}
	}
}
