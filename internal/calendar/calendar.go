// Package calendar has durable timers on every store with durable states. A timer that was added is handed over at least once, at its time or
// later, also when processes are killed and stores fail meanwhile.
//
// # How timers are stored
//
// Time is divided into ticks. A slot is some successive ticks: 1 at level 0, 64 at level 1, and so on up to 64⁵ at level 5. A timer is put into a slot
// of the lowest level at which the slot begins less than 64 slots from now. When a slot begins, its timers that are due are handed over, and the others
// are put into slots of lower levels. So a timer is moved five times at most, and a timer that is due in half an hour once.
//
// The slots of a level share 128 places in turn, and the timers of a place are in one or more chunks, which are durable states. So the states
// of a calendar are used again and again, and nothing remains of old timers.
//
// One more durable state, the record, says which places have timers, and when each has to be looked at. Add writes a chunk, and then reads
// the record and adds the place if it is not there. The runner takes a place off the record, and then reads its chunks. So one of the two sees the
// other: a timer that the runner did not read was written after the runner had taken the place, so its Add finds that the place is not there.
// No clock takes part in that.
package calendar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/document"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/quote"
	"github.com/annals-go/annals/internal/valid"
)

// MaxName is how many bytes the name of a timer may have.
const MaxName = 1024

// Timer is a time at which something has to happen. Two timers may be equal.
type Timer struct {
	ID   annals.PersistenceID `json:"id"`   // of the entity that the timer belongs to
	Name string               `json:"name"` // valid UTF-8, at most 1,024 bytes; may be empty
	Due  time.Time            `json:"due"`  // in the years 1 to 9999; is handed over in UTC
}

// Options configure a Calendar. The zero Options suit most.
type Options struct {
	// Precision is the length of a tick: a timer is handed over up to so much after it is due, and the runner reads a small durable state so
	// often. At least 1 ms; 0: 1 s. The first call of Add or Run of a new calendar decides; then the calendar keeps it.
	Precision time.Duration
	Lease     time.Duration // of the runner: see lease.Options.Lease
	Logger    *slog.Logger  // for failures; nil: slog.Default()
}

// Calendar is a set of timers in a store. It may be used from many goroutines at once, and by many processes with a Calendar of the same name.
type Calendar struct {
	store annals.Store
	name  string
	o     Options
	now   func() time.Time // time.Now; tests set it
	tick  atomic.Int64     // in microseconds; 0: not known yet
	added chan struct{}    // a timer was added that may be due; holds one

	mu     sync.Mutex
	places map[place]*writer
}

// New returns the calendar of that name in store. ErrUnsupported when the store has no durable states, ErrInvalid when something else is wrong.
func New(store annals.Store, name string, o Options) (*Calendar, error) {
	var faults []error
	if name == "" {
		faults = append(faults, errors.New("the calendar has no name"))
	}
	if o.Precision != 0 && o.Precision < time.Millisecond {
		faults = append(faults, fmt.Errorf("Options.Precision is %v, less than 1 ms", o.Precision))
	}
	if o.Lease != 0 && o.Lease < 10*time.Millisecond {
		faults = append(faults, fmt.Errorf("Options.Lease is %v, less than 10 ms", o.Lease))
	}
	c := &Calendar{store: store, name: name, o: o, now: time.Now, added: make(chan struct{}, 1), places: map[place]*writer{}}
	op := "make calendar " + quote.Text(name)
	if store == nil {
		faults = append(faults, errors.New("the store is missing"))
	} else {
		faults = append(faults, valid.ID(op, c.chunk(place{levels, ring}, 1e6).ID, store.Capabilities().Limits))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, &annals.Error{Op: op, Kind: annals.ErrInvalid, Err: err}
	}
	if err := claims.Refusal(op, store.Capabilities(), claims.Calendar); err != nil {
		return nil, err
	}
	c.o.Precision, c.o.Logger = cmp.Or(o.Precision, time.Second), panics.Logger(o.Logger)
	return c, nil
}

// Add adds timers. When it returns nil, each of them will be handed over at least once, at its time or later. After an error some of them may be
// handed over, too: call Add again with all of them. A timer that was added twice may be handed over twice.
//
// After ErrUnavailable, ErrUnknown and ErrConflict of the store Add tries again until ctx ends. ErrInvalid for a timer that is wrong; then none is
// added.
func (c *Calendar) Add(ctx context.Context, ts []Timer) error {
	var faults []error
	limits := c.store.Capabilities().Limits
	for _, t := range ts {
		if err := t.fault(limits); err != nil && len(faults) < 10 {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return &annals.Error{Op: "add timers to calendar " + quote.Text(c.name), Kind: annals.ErrInvalid, Err: err}
	}
	if len(ts) == 0 {
		return nil
	}
	return c.add(ctx, ts)
}

// fault is what is wrong with t.
func (t Timer) fault(l annals.Limits) error {
	err := valid.ID("add timer", t.ID, l)
	if len(t.Name) > MaxName || !utf8.ValidString(t.Name) {
		err = errors.Join(err, fmt.Errorf("the name %s of a timer is not UTF-8 of at most %d bytes", quote.Text(t.Name), MaxName))
	}
	if year := t.Due.UTC().Year(); year < 1 || year > 9999 {
		err = errors.Join(err, fmt.Errorf("a timer is due in the year %d", year))
	}
	return err
}

func (c *Calendar) add(ctx context.Context, ts []Timer) error {
	if err := c.begin(ctx); err != nil {
		return err
	}
	now := c.ticks(c.now())
	slots := map[slot][]Timer{}
	for _, t := range ts {
		t.Due = t.Due.UTC().Round(0)
		s := slotOf(c.dueTick(t), now)
		slots[s] = append(slots[s], t)
	}
	var occupied []slot
	soon := false
	for _, s := range slices.SortedFunc(maps.Keys(slots), slot.compare) {
		chunks, err := c.writer(s.place()).add(ctx, slots[s])
		if err != nil {
			return err
		}
		soon = soon || s.start() <= now
		s.Chunks = chunks
		occupied = append(occupied, s)
	}
	// This comes after the chunks were written: see the comment of the package.
	err := c.change(ctx, func(r *record) error {
		changed := false
		for _, s := range occupied {
			changed = r.occupy(s) || changed
		}
		if !changed {
			return document.ErrUnchanged
		}
		return nil
	})
	if err == nil && soon {
		select {
		case c.added <- struct{}{}:
		default:
		}
	}
	return err
}

// begin finds out the length of a tick, which the first one decides.
func (c *Calendar) begin(ctx context.Context) error {
	if c.tick.Load() > 0 {
		return nil
	}
	var tick int64
	err := c.change(ctx, func(r *record) error {
		if tick = r.Tick; tick > 0 {
			return document.ErrUnchanged
		}
		tick = c.o.Precision.Microseconds()
		r.Tick = tick
		return nil
	})
	if err == nil {
		c.tick.Store(tick)
	}
	return err
}

// change changes the record.
func (c *Calendar) change(ctx context.Context, fn func(r *record) error) error {
	return retried(ctx, func() error { return c.record().Change(ctx, c.store, fn) })
}

// retried calls fn until it succeeds, fails for another reason than the store's or another writer's, or ctx ends.
func retried(ctx context.Context, fn func() error) error {
	for try := 0; ; try++ {
		err := fn()
		if err == nil || !annals.SafeToRetry(err) && !errors.Is(err, annals.ErrConflict) || backoff.Wait(ctx, try) != nil {
			return err
		}
	}
}

// ticks is the tick of t, rounded down.
func (c *Calendar) ticks(t time.Time) int64 {
	us, tick := t.UnixMicro(), c.tick.Load()
	n := us / tick
	if us < n*tick {
		n--
	}
	return n
}

// dueTick is the first tick at whose begin t is due.
func (c *Calendar) dueTick(t Timer) int64 { return c.ticks(t.Due.Add(-1)) + 1 }

// until is how long it takes until the next tick begins.
func (c *Calendar) until(now time.Time) time.Duration {
	tick := c.tick.Load()
	return time.UnixMicro((c.ticks(now) + 1) * tick).Sub(now)
}
