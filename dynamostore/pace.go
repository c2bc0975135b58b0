package dynamostore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// pacer spreads requests to partition keys that the service has throttled. A key has a lane from its first throttle until it
// has been left alone for a while; its rate falls by a factor with a throttle and grows by steps with time. Bare back-off
// sends every waiting request again into a full partition; a lane sends what fits.
type pacer struct {
	lanes atomic.Int64 // so that nobody takes the lock while nothing is throttled
	mu    sync.Mutex
	byKey map[string]*lane
}

type lane struct {
	rate  float64   // requests a second
	step  float64   // added to rate every second
	next  time.Time // when the next request may go out
	cut   time.Time // when rate was last cut
	grown time.Time // when rate was last raised
}

const (
	laneLife  = 30 * time.Second       // without a throttle, until a lane is dropped
	laneCut   = 0.85                   // multiplicative decrease
	laneQuiet = 250 * time.Millisecond // throttles within it belong to one overload
	laneFirst = 200                    // requests a second after the first throttle
	laneLow   = 0.5
	lanesKept = 1000 // until those that have been left alone are looked for
)

// busy reports whether any key has a lane.
func (p *pacer) busy() bool { return p.lanes.Load() > 0 }

// wait returns when a request to keys may go out, or with ctx's error.
func (p *pacer) wait(ctx context.Context, keys []string) error {
	now := time.Now()
	at := now
	p.mu.Lock()
	for _, key := range keys {
		l := p.byKey[key]
		if l == nil {
			continue
		}
		if now.Sub(l.cut) > laneLife {
			delete(p.byKey, key)
			p.lanes.Add(-1)
			continue
		}
		l.grow(now)
		if l.next.Before(now) {
			l.next = now
		}
		if l.next.After(at) {
			at = l.next
		}
		l.next = l.next.Add(time.Duration(float64(time.Second) / l.rate))
	}
	p.mu.Unlock()
	return pause(ctx, at.Sub(now))
}

// slow is told that requests to keys were throttled.
func (p *pacer) slow(keys []string) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		l := p.byKey[key]
		if l == nil {
			p.sweep(now)
			l = &lane{rate: laneFirst / laneCut, grown: now}
			p.byKey[key] = l
			p.lanes.Add(1)
		} else if now.Sub(l.cut) < laneQuiet {
			continue
		}
		l.rate = max(l.rate*laneCut, laneLow)
		l.step = l.rate / 20
		l.cut, l.grown = now, now
	}
}

// sweep makes room for a new lane: keys that nobody asks for any more would keep theirs for ever.
func (p *pacer) sweep(now time.Time) {
	if p.byKey == nil {
		p.byKey = map[string]*lane{}
	}
	if len(p.byKey) < lanesKept {
		return
	}
	for key, l := range p.byKey {
		if now.Sub(l.cut) > laneLife {
			delete(p.byKey, key)
			p.lanes.Add(-1)
		}
	}
}

func (l *lane) grow(now time.Time) {
	if quiet := l.cut.Add(laneQuiet); now.After(quiet) {
		since := l.grown
		if since.Before(quiet) {
			since = quiet
		}
		l.rate += l.step * now.Sub(since).Seconds()
		l.grown = now
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
