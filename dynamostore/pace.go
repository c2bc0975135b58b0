package dynamostore

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals/internal/backoff"
)

// pacer limits the rate of requests to partition keys, and to tables and indexes, that the service throttles. Backoff alone would send every
// waiting request again to a partition that is over its capacity. The limits of keys are independent: where a whole table or index is over
// its capacity, each of its keys would go on trying. So a table has a limit too, by the same rule.
type pacer struct {
	known  atomic.Int64 // entries of byName: while it is 0, no request takes the lock
	mu     sync.Mutex
	byName map[string]*rate // of partitions, and of tables
}

// rate is the rate limit of a partition key or of a table. It counts the answers of a time window. It begins where a third or more are
// throttles, with what was accepted in that window. Then it falls to what was accepted where a tenth are. Otherwise it grows, the faster
// the longer there was no throttle.
type rate struct {
	limit          float64   // requests a second; infinite: no limit
	grow           float64   // by which part the limit rises with the next window
	next           time.Time // when the next request may go out
	since          time.Time // start of the window
	passed, turned int       // requests accepted and throttled in the window
	last           time.Time // when a request was last throttled
}

const (
	rateLife   = 30 * time.Second       // a limit is dropped after this time without a throttle
	ratesKept  = 1000                   // from this number on, a new limit first drops those that are over
	rateWindow = 250 * time.Millisecond // the shortest window
	rateEnough = 8                      // answers in a window from which a rate is computed
	rateStale  = 2 * time.Second        // a window that has fewer answers after this time raises the rate
	rateGrow   = 0.03                   // the rise after a throttle; without further ones it doubles with each window, up to 1
	rateLow    = 20                     // requests a second: enough to notice soon when more are accepted again
	rateAhead  = 250 * time.Millisecond // a request reserves its time at most this far ahead, since the rate may rise meanwhile
)

// partition is the pacer's name of a partition key of a table or index, or of a table with some of its indexes. mode separates reads from
// writes, which have separate capacities. hash is "" for a request without a known key.
func partition(mode, table, hash string) string { return mode + table + "\x00" + hash }

// limited returns the names of the limits for requests to partitions: their tables, each once, and those whose key is known.
func limited(partitions []string) (names []string) {
	for _, name := range partitions {
		table, hash, _ := strings.Cut(name, "\x00")
		if !slices.Contains(names, table) {
			names = append(names, table)
		}
		if hash != "" {
			names = append(names, name)
		}
	}
	return names
}

// busy reports whether any limit exists.
func (p *pacer) busy() bool { return p.known.Load() > 0 }

// wait returns when a request to partitions may be sent, or with ctx's error.
func (p *pacer) wait(ctx context.Context, partitions []string) error {
	for {
		d, ok := p.reserve(partitions)
		if err := backoff.Sleep(ctx, d); err != nil || ok {
			return err
		}
	}
}

// reserve returns how long a request to partitions has to wait. ok is false when the request must then call reserve again.
func (p *pacer) reserve(partitions []string) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var limits []*rate
	for _, name := range limited(partitions) {
		r := p.byName[name]
		switch {
		case r == nil:
			continue
		case now.Sub(r.last) > rateLife:
			p.drop(name)
			continue
		}
		if r.judge(now); math.IsInf(r.limit, 1) {
			continue
		}
		if r.next.Sub(now) > rateAhead {
			return rateAhead/2 + rand.N(rateAhead), false
		}
		limits = append(limits, r)
	}
	at := now
	for _, r := range limits {
		if r.next.Before(now) {
			r.next = now
		}
		if r.next.After(at) {
			at = r.next
		}
		r.next = r.next.Add(time.Duration(float64(time.Second) / r.limit))
	}
	return at.Sub(now), true
}

// pass records a request to partitions that was not throttled.
func (p *pacer) pass(partitions []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range limited(partitions) {
		if r := p.byName[name]; r != nil {
			r.passed++
			r.judge(time.Now())
		}
	}
}

// slow records a request to partitions that was throttled.
func (p *pacer) slow(partitions []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, name := range limited(partitions) {
		r := p.byName[name]
		if r == nil {
			p.sweep(now)
			r = &rate{limit: math.Inf(1), since: now}
			p.byName[name] = r
			p.known.Add(1)
		}
		r.turned++
		r.last = now
		r.judge(now)
	}
}

// sweep drops limits that are over, before another is added: those without further requests would stay forever.
func (p *pacer) sweep(now time.Time) {
	if p.byName == nil {
		p.byName = map[string]*rate{}
	}
	if len(p.byName) < ratesKept {
		return
	}
	for name, r := range p.byName {
		if now.Sub(r.last) > rateLife {
			p.drop(name)
		}
	}
}

func (p *pacer) drop(name string) {
	delete(p.byName, name)
	p.known.Add(-1)
}

// judge ends the window when it has enough answers, or has lasted too long, and sets the limit.
func (r *rate) judge(now time.Time) {
	window := now.Sub(r.since)
	answers := r.passed + r.turned
	few := 10 // accepted requests for each throttled one
	if math.IsInf(r.limit, 1) {
		few = 2
	}
	switch {
	case window < rateWindow || answers < rateEnough && window < rateStale:
		return
	case answers >= rateEnough && r.turned*few > r.passed:
		r.limit, r.grow = max(float64(r.passed)/window.Seconds(), rateLow), rateGrow
	case r.turned > 0:
		r.grow = rateGrow
		r.limit *= 1 + r.grow
	default:
		r.limit *= 1 + r.grow
		r.grow = min(2*r.grow, 1)
	}
	r.since, r.passed, r.turned = now, 0, 0
}
