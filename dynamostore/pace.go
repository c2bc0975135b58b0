package dynamostore

import (
	"context"
	"github.com/annals-go/annals/internal/backoff"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pacer limits the rate of requests to partition keys and tables that the service has throttled. A key gets a rate limit with its
// first throttle and loses it when it has not been throttled for rateLife. The limit falls by a factor with each throttle and
// rises linearly with time (additive increase, multiplicative decrease). Backoff alone would send every waiting request again
// to a partition that is over its capacity.
//
// The limits of keys are independent: where a whole table or index is over its capacity, each of its keys would go on trying.
// So a table has a limit too. It applies while at least a third of the table's requests are throttled.
type pacer struct {
	known   atomic.Int64 // entries of byKey and byTable: while it is 0, no request takes the lock
	mu      sync.Mutex
	byKey   map[string]*keyRate
	byTable map[string]*tableRate
}

// keyRate is the rate limit of one partition key.
type keyRate struct {
	rate  float64   // requests a second
	step  float64   // added to rate every second
	next  time.Time // the earliest time of the next request
	cut   time.Time // when rate was last lowered
	grown time.Time // when rate was last raised
}

const (
	rateLife     = 30 * time.Second       // a limit is dropped after this time without a throttle
	keyCut       = 0.85                   // multiplicative decrease
	keyQuiet     = 250 * time.Millisecond // throttles within this time lower the rate once
	keyFirst     = 200                    // requests a second after the first throttle
	keyLow       = 0.5
	keyRatesKept = 1000 // from this number on, a new limit first drops those that are over
)

// tableRate is the rate limit of a table. It counts the answers of a time window: where a third or more are throttles, the rate
// falls to what the table accepted in that window; otherwise it rises by half.
type tableRate struct {
	rate           float64   // requests a second; infinite: no limit
	next           time.Time // when the next request may go out
	since          time.Time // start of the window
	passed, turned int       // requests accepted and throttled in the window
	last           time.Time // when a request was last throttled
}

const (
	tableWindow = 250 * time.Millisecond // the shortest window
	tableEnough = 8                      // answers in a window from which a rate is computed
	tableStale  = 2 * time.Second        // a window that has fewer answers after this time raises the rate
	tableGrow   = 1.5                    // factor of each window without overload
	tableLow    = 20                     // requests a second: enough to notice soon when the table accepts more again
	tableAhead  = 250 * time.Millisecond // a request reserves its time at most this far ahead, since the rate may rise meanwhile
)

// partition is the pacer's name of a partition key of a table or index, or of a table with some of its indexes. mode separates reads from
// writes, which have separate capacities. hash is "" for a request without a known key.
func partition(mode, table, hash string) string { return mode + table + "\x00" + hash }

// tableOf returns the part of a partition's name that is the table's, and whether the partition has a known key.
func tableOf(key string) (table string, known bool) {
	table, hash, _ := strings.Cut(key, "\x00")
	return table, hash != ""
}

// busy reports whether any limit exists.
func (p *pacer) busy() bool { return p.known.Load() > 0 }

// wait returns when a request to keys may be sent, or with ctx's error.
func (p *pacer) wait(ctx context.Context, keys []string) error {
	for {
		d, ok := p.reserve(keys)
		if err := backoff.Sleep(ctx, d); err != nil || ok {
			return err
		}
	}
}

// reserve returns how long a request to keys has to wait. ok is false when the request must then call reserve again.
func (p *pacer) reserve(keys []string) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	at := now
	var bounds []*tableRate
	for i, key := range keys {
		table, _ := tableOf(key)
		if i > 0 && strings.HasPrefix(keys[i-1], table+"\x00") {
			continue
		}
		b := p.byTable[table]
		if b != nil && now.Sub(b.last) > rateLife {
			delete(p.byTable, table)
			p.known.Add(-1)
			b = nil
		}
		if b == nil || math.IsInf(b.rate, 1) {
			continue
		}
		if b.judge(now); b.next.Sub(now) > tableAhead {
			return tableAhead/2 + rand.N(tableAhead), false
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
		if now.Sub(l.cut) > rateLife {
			delete(p.byKey, key)
			p.known.Add(-1)
			continue
		}
		l.grow(now)
		at = reserved(&l.next, now, at, l.rate)
	}
	return at.Sub(now), true
}

// reserved takes the next time of a limit and returns that time or at, whichever is later.
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

// pass records a request to keys that was not throttled.
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

// slow records a request to keys that was throttled.
func (p *pacer) slow(keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, key := range keys {
		table, known := tableOf(key)
		b := p.byTable[table]
		if b == nil {
			if p.byTable == nil {
				p.byTable = map[string]*tableRate{}
			}
			b = &tableRate{rate: math.Inf(1), since: now}
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

// cut lowers the rate of key, or gives the key its first limit.
func (p *pacer) cut(key string, now time.Time) {
	l := p.byKey[key]
	if l == nil {
		p.sweep(now)
		l = &keyRate{rate: keyFirst / keyCut, grown: now}
		p.byKey[key] = l
		p.known.Add(1)
	} else if now.Sub(l.cut) < keyQuiet {
		return
	}
	l.rate = max(l.rate*keyCut, keyLow)
	l.step = l.rate / 20
	l.cut, l.grown = now, now
}

// sweep drops limits that are over, before another is added: keys without further requests would keep theirs forever.
func (p *pacer) sweep(now time.Time) {
	if p.byKey == nil {
		p.byKey = map[string]*keyRate{}
	}
	if len(p.byKey) < keyRatesKept {
		return
	}
	for key, l := range p.byKey {
		if now.Sub(l.cut) > rateLife {
			delete(p.byKey, key)
			p.known.Add(-1)
		}
	}
}

func (l *keyRate) grow(now time.Time) {
	if quiet := l.cut.Add(keyQuiet); now.After(quiet) {
		since := l.grown
		if since.Before(quiet) {
			since = quiet
		}
		l.rate += l.step * now.Sub(since).Seconds()
		l.grown = now
	}
}

// judge ends the window when it has enough answers, or has lasted too long, and sets the rate.
func (b *tableRate) judge(now time.Time) {
	window := now.Sub(b.since)
	answers := b.passed + b.turned
	switch {
	case window < tableWindow || answers < tableEnough && window < tableStale:
		return
	case answers < tableEnough: // too few requests for the rate to matter
	case 2*b.turned > b.passed:
		b.rate = max(float64(b.passed)/window.Seconds(), tableLow)
	default:
		b.rate *= tableGrow
	}
	b.since, b.passed, b.turned = now, 0, 0
}
