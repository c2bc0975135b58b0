package dynamostore

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pacer spreads requests to partition keys and tables that the service has throttled. A key has a lane from its first throttle
// until it has been left alone for a while; its rate falls by a factor with a throttle and grows by steps with time. Bare
// back-off sends every waiting request again into a full partition; a lane sends what fits.
//
// Lanes do not know of each other: where a whole table (or an index) is over its capacity, each of its keys would go on trying.
// So a table has a bound too, which is in force while a third of its requests and more are turned away.
type pacer struct {
	known   atomic.Int64 // lanes and tables, so that nobody takes the lock while nothing is throttled
	mu      sync.Mutex
	byKey   map[string]*lane
	byTable map[string]*bound
}

type lane struct {
	rate  float64   // requests a second
	step  float64   // added to rate every second
	next  time.Time // when the next request may go out
	cut   time.Time // when rate was last cut
	grown time.Time // when rate was last raised
}

const (
	laneLife  = 30 * time.Second       // without a throttle, until a lane or a bound is dropped
	laneCut   = 0.85                   // multiplicative decrease
	laneQuiet = 250 * time.Millisecond // throttles within it belong to one overload
	laneFirst = 200                    // requests a second after the first throttle
	laneLow   = 0.5
	lanesKept = 1000 // until those that have been left alone are looked for
)

// bound is how many requests a second a table may be sent. It counts the answers of a window: where a third or more are throttles
// it falls to what the table took, else it rises by half.
type bound struct {
	rate           float64   // infinite: it is not in force
	next           time.Time // when the next request may go out
	since          time.Time // begin of the window
	passed, turned int       // answers in it
	last           time.Time // throttle
}

const (
	boundWindow = 250 * time.Millisecond // at least
	boundEnough = 8                      // answers, to judge by
	boundStale  = 2 * time.Second        // a window without that many says nothing
	boundGrow   = 1.5                    // multiplicative increase, a window
	boundLow    = 20                     // requests a second: what it takes to notice soon that the table takes more again
	boundAhead  = 250 * time.Millisecond // no request plans further ahead, since the rate may rise meanwhile
)

// partition names a partition key of a table or index for the pacer. Reads and writes have capacities of their own. hash is ""
// for what touches no known key.
func partition(mode, table, hash string) string { return mode + table + "\x00" + hash }

// tableOf is the part of a partition that names the table, and whether the key is known.
func tableOf(key string) (table string, known bool) {
	table, hash, _ := strings.Cut(key, "\x00")
	return table, hash != ""
}

// busy reports whether anything is paced.
func (p *pacer) busy() bool { return p.known.Load() > 0 }

// wait returns when a request to keys may go out, or with ctx's error.
func (p *pacer) wait(ctx context.Context, keys []string) error {
	for {
		d, ok := p.reserve(keys)
		if err := pause(ctx, d); err != nil || ok {
			return err
		}
	}
}

// reserve says how long a request to keys has to wait; false: until it asks again.
func (p *pacer) reserve(keys []string) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	at := now
	var bounds []*bound
	for i, key := range keys {
		table, _ := tableOf(key)
		if i > 0 && strings.HasPrefix(keys[i-1], table+"\x00") {
			continue
		}
		b := p.byTable[table]
		if b != nil && now.Sub(b.last) > laneLife {
			delete(p.byTable, table)
			p.known.Add(-1)
			b = nil
		}
		if b == nil || math.IsInf(b.rate, 1) {
			continue
		}
		if b.judge(now); b.next.Sub(now) > boundAhead {
			return boundAhead/2 + rand.N(boundAhead), false
		}
		bounds = append(bounds, b)
	}
	for _, b := range bounds {
		at = reserved(&b.next, now, at, b.rate)
	}
	for _, key := range keys {
		l := p.byKey[key]
		if l == nil {
			continue
		}
		if now.Sub(l.cut) > laneLife {
			delete(p.byKey, key)
			p.known.Add(-1)
			continue
		}
		l.grow(now)
		at = reserved(&l.next, now, at, l.rate)
	}
	return at.Sub(now), true
}

// reserved takes the next place of a lane or bound, and returns it or at, whichever is later.
func reserved(next *time.Time, now, at time.Time, rate float64) time.Time {
	if next.Before(now) {
		*next = now
	}
	if next.After(at) {
		at = *next
	}
	*next = next.Add(time.Duration(float64(time.Second) / rate))
	return at
}

// pass is told that requests to keys were not throttled.
func (p *pacer) pass(keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		table, _ := tableOf(key)
		if b := p.byTable[table]; b != nil {
			b.passed++
			b.judge(time.Now())
		}
	}
}

// slow is told that requests to keys were throttled.
func (p *pacer) slow(keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, key := range keys {
		table, known := tableOf(key)
		b := p.byTable[table]
		if b == nil {
			if p.byTable == nil {
				p.byTable = map[string]*bound{}
			}
			b = &bound{rate: math.Inf(1), since: now}
			p.byTable[table] = b
			p.known.Add(1)
		}
		b.turned++
		b.last = now
		b.judge(now)
		if known {
			p.cut(key, now)
		}
	}
}

// cut lowers the rate of key's lane, which begins with it.
func (p *pacer) cut(key string, now time.Time) {
	l := p.byKey[key]
	if l == nil {
		p.sweep(now)
		l = &lane{rate: laneFirst / laneCut, grown: now}
		p.byKey[key] = l
		p.known.Add(1)
	} else if now.Sub(l.cut) < laneQuiet {
		return
	}
	l.rate = max(l.rate*laneCut, laneLow)
	l.step = l.rate / 20
	l.cut, l.grown = now, now
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
			p.known.Add(-1)
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

// judge ends the window when it says enough.
func (b *bound) judge(now time.Time) {
	window := now.Sub(b.since)
	answers := b.passed + b.turned
	switch {
	case window < boundWindow || answers < boundEnough && window < boundStale:
		return
	case answers < boundEnough: // few ask: the rate holds nobody up
	case 2*b.turned > b.passed:
		b.rate = max(float64(b.passed)/window.Seconds(), boundLow)
	default:
		b.rate *= boundGrow
	}
	b.since, b.passed, b.turned = now, 0, 0
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
