package subscription

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
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

// Subscribe is annals.Subscriber.
func (s *Subscriptions) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[annals.Delivery, error] {
	return func(yield func(annals.Delivery, error) bool) {
		l, err := s.join(ctx, name, f)
		if err != nil {
			yield(annals.Delivery{}, err)
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
	l := newLoop(s, name, f)
	running, stop := context.WithCancel(context.WithoutCancel(ctx)) // the loop lasts until its body has returned
	l.stop = stop
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

var errClosed = &annals.Error{Kind: annals.ErrClosed}

// transient reports whether the same may succeed later.
func transient(err error) bool {
	return errors.Is(err, annals.ErrConflict) || errors.Is(err, annals.ErrUnknown) || errors.Is(err, annals.ErrUnavailable) || errors.Is(err, annals.ErrTruncated)
}
