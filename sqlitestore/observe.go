package sqlitestore

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// observed is one call under way; nil where there is no Observer.
type observed struct {
	observer annals.Observer
	call     annals.Call
	begun    time.Time
	result   annals.Result
}

func (s *shared) observe(ctx context.Context, c annals.Call) (context.Context, *observed) {
	if s.observer == nil {
		return ctx, nil
	}
	c.Store = "sqlite"
	o := &observed{observer: s.observer, call: c, begun: time.Now()}
	return s.observer.Start(ctx, c), o
}

// requests counts transactions and queries that were waited for.
func (o *observed) requests(n int) {
	if o != nil {
		o.result.Requests += n
	}
}

// moved counts what was read or written.
func (o *observed) moved(events, bytes int) {
	if o != nil {
		o.result.Events += events
		o.result.Bytes += bytes
	}
}

// end reports the call and returns err.
func (o *observed) end(ctx context.Context, err error) error {
	if o != nil {
		o.result.Duration = time.Since(o.begun)
		o.result.Err = err
		o.observer.End(ctx, o.call, o.result)
	}
	return err
}
