package query

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/claims"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/internal/warning"
)

const (
	// pageSize is how many events or states are read at a time at first. After a full page a look reads twice as many, because each read
	// costs requests of its own, but at most maxPage.
	pageSize, maxPage = 1000, 8 * 1000
	// pageBytes is how many bytes of payloads a page has at most, but at least one event or state.
	pageBytes = 8 << 20
	// overlap is how much before the newest event a look at the head begins, so that it finds what is a little late.
	overlap = 100 * time.Millisecond
	// lookBack is the least time between two looks from the floor where much is beyond it, and the longest that a watermark is used while
	// the follower catches up.
	lookBack = time.Second
)

// follower reads what a store shows after a position, again and again, and hands over what is new. T is an event or a state.
type follower[T any] struct {
	store    annals.Store
	filter   annals.Filter
	options  Options
	lateness time.Duration // of the store
	read     func(ctx context.Context, f annals.Filter) iter.Seq2[T, error]
	offset   func(T) annals.Offset
	size     func(T) int // in bytes, more or less
	// newest is where a query with Options.Current ends. nil is at the end of the first look.
	newest func(ctx context.Context, f annals.Filter) (annals.Offset, error)
	// missing returns what must be handed over before item, max at most, and whether that is all. It is nil where nothing can be missing.
	missing func(ctx context.Context, item T, max int) (items []T, all bool, err error)

	floor      annals.Offset // everything at or before it has been handed over
	head       annals.Offset // the newest that has been handed over
	watermark  time.Time     // of the last look from the floor
	handedOver handedOver
	waker      waker
	look       look[T]

	full     bool           // the last look ended because of Options.Window
	lookedAt time.Time      // when the last look from the floor ended
	end      *annals.Offset // where a query with Options.Current ends, when it is known
	ended    bool           // it has come there
	handed   time.Time      // when next returned last
	through  annals.Offset  // what it returned
	caughtUp bool

	begun   annals.Offset // the floor of the position
	audited time.Time     // when the last audit ended
	lowest  time.Time     // of the watermarks below the floor since the last audit began; zero: there was none
}

// look is one pass over what the store shows, from the floor or from the head to the end.
type look[T any] struct {
	open      bool
	fromFloor bool      // of an audit: that of the look before it
	asked     time.Time // when the watermark was asked for; zero before the first page
	after     annals.Offset
	limit     int  // of the page; 0 before the first page
	page      []T  // read, and not handed over
	buffer    []T  // where pages are read to, with Options.Reuse
	last      bool // there is no page after it
	cut       bool // what follows is not read by this look
	audit     bool // it reads what is before the floor
}

// batch is what next returns.
type batch[T any] struct {
	items    []T
	through  annals.Offset
	caughtUp bool
}

// init makes f a follower of s from a position, which needs some features, or says what is wrong with that.
func (f *follower[T]) init(op string, s annals.Store, filter annals.Filter, from annals.Position, o Options, needs ...claims.Feature) error {
	o, err := o.withDefaults(s)
	err = errors.Join(err, valid.Filter(op, filter), valid.Filter(op, annals.Filter{Slices: from.Slices}))
	if filter.After != (annals.Offset{}) || filter.Limit != 0 || filter.Behind != 0 {
		err = errors.Join(err, errors.New("After, Limit and Behind must be zero: a feed begins at a position and goes on"))
	}
	if err == nil {
		filter.Slices, err = intersect(filter.Slices, from.Slices)
	}
	if err != nil {
		return &annals.Error{Op: op, Kind: annals.ErrInvalid, Err: err}
	}
	if filter.Tag != "" {
		needs = append(needs, claims.TagFeed)
	}
	if err := claims.Refusal(op, s.Capabilities(), needs...); err != nil {
		return err
	}
	f.store, f.filter, f.options, f.lateness = s, filter, o, s.Capabilities().Lateness
	f.floor, f.head, f.through = from.Through, from.Through, from.Through
	f.handedOver = newHandedOver(from, 2*max(o.Audit, 0), o.Window)
	f.begun = from.Through
	f.waker = newWaker(s, filter, o)
	return nil
}

// intersect returns the slices that are in both.
func intersect(a, b annals.SliceRange) (annals.SliceRange, error) {
	if a == (annals.SliceRange{}) {
		return b, nil
	}
	if b == (annals.SliceRange{}) {
		return a, nil
	}
	both := annals.SliceRange{From: max(a.From, b.From), To: min(a.To, b.To)}
	if both.From >= both.To {
		return both, errors.New("no slice is in both " + a.String() + " and " + b.String())
	}
	return both, nil
}

// next is Feed.Next.
func (f *follower[T]) next(ctx context.Context, max int) (batch[T], error) {
	for {
		if err := ctx.Err(); err != nil {
			return batch[T]{}, err
		}
		if !f.look.open {
			if f.ended {
				return batch[T]{}, io.EOF
			}
			if f.auditIsDue() {
				f.beginAudit()
			} else if err := f.wait(ctx); err != nil {
				return batch[T]{}, err
			} else {
				f.begin()
			}
		}
		items, err := f.step(ctx, max)
		if len(items) == 0 && err != nil {
			if err := f.waker.failed(ctx, err); err != nil {
				return batch[T]{}, err
			}
			continue
		}
		f.waker.succeeded() // an error after items comes again
		caughtUp := !f.look.open && !f.full
		emptyDue := caughtUp && !f.caughtUp || f.floor.Compare(f.through) > 0 && time.Since(f.handed) >= f.options.Poll*9/10
		if len(items) > 0 {
			f.waker.found = time.Now()
		}
		if len(items) > 0 || emptyDue {
			f.handed, f.through, f.caughtUp = time.Now(), f.floor, caughtUp
			return batch[T]{slices.Clip(items), f.floor, caughtUp}, nil
		}
	}
}

// span is how much is beyond the floor.
func (f *follower[T]) span() time.Duration { return f.head.Time.Sub(f.floor.Time) }

// due is when a look from the floor is due after looks at the head.
func (f *follower[T]) due() time.Time {
	return f.lookedAt.Add(max(lookBack, min(f.span(), f.lateness)/4))
}

// wait waits for the next look.
func (f *follower[T]) wait(ctx context.Context) error {
	var latest time.Time
	if !f.look.fromFloor {
		latest = f.due()
	}
	return f.waker.wait(ctx, latest, f.full)
}

// begin begins a look.
func (f *follower[T]) begin() {
	fromFloor := f.lookedAt.IsZero() || f.full || f.span() <= overlap || !time.Now().Before(f.due())
	f.full = false
	f.look = look[T]{open: true, fromFloor: fromFloor, after: f.floor}
	if near := (annals.Offset{Time: f.head.Time.Add(-overlap)}); !fromFloor && near.Compare(f.floor) > 0 {
		f.look.after = near
	}
}

// step hands over at most max of what the look finds. Without an error and items, the look has ended or there is more to read.
func (f *follower[T]) step(ctx context.Context, max int) (items []T, err error) {
	l := &f.look
	if len(l.page) == 0 && !l.last {
		if err := f.readPage(ctx); err != nil {
			return nil, err
		}
	}
	if l.audit {
		return f.audit(ctx, max)
	}
	items = l.page[:0] // what is handed over of the page is moved to its beginning
	for len(l.page) > 0 && len(items) < max {
		item := l.page[0]
		o := f.offset(item)
		if f.end != nil && o.Compare(*f.end) > 0 {
			l.cutOff()
			break
		}
		if !f.covers(o) {
			if !f.fits(o) {
				f.full = true
				l.cutOff()
				break
			}
			if f.missing != nil {
				before, all, err := f.missing(ctx, item, max-len(items))
				if len(before) > 0 {
					items = append(slices.Clip(items), before...)
				}
				if err != nil || !all || len(items) == max {
					return items, err
				}
			}
			items = append(items, item)
			f.pass(o)
			f.handedOver.add(o, f.floor)
		} else {
			f.pass(o)
		}
		l.page = l.page[1:]
	}
	if len(l.page) == 0 && l.last {
		f.finish()
	}
	return items, nil
}

func (l *look[T]) cutOff() { l.page, l.last, l.cut = nil, true, true }

// readPage reads the next page of the look.
func (f *follower[T]) readPage(ctx context.Context) error {
	l := &f.look
	if f.options.Current && f.newest != nil && f.end == nil {
		end, err := f.newest(ctx, f.filter)
		if err != nil {
			return err
		}
		f.end = &end
	}
	// A later watermark is right for a look that has not come to the one before: what it has read so far cannot change.
	if l.fromFloor && !l.audit && (l.asked.IsZero() || l.after.Time.Before(f.watermark) && time.Since(l.asked) > lookBack) {
		watermark, err := f.store.Query().Watermark(warning.Context(ctx, f.options.OnWarning))
		if err != nil {
			return err
		}
		if l.limit > 0 && !l.after.Time.Before(f.watermark) {
			watermark = earlier(watermark, f.watermark)
		}
		f.watermark, l.asked = watermark, time.Now()
		f.noteWatermark()
	}
	l.limit = min(max(2*l.limit, pageSize), maxPage)
	filter := f.filter
	filter.After, filter.Limit, filter.KeysOnly = l.after, l.limit, l.audit
	switch {
	case f.options.Reuse:
		l.page = l.buffer[:0]
		defer func() { l.buffer = l.page[:0] }()
	case l.limit > pageSize: // the page before was full
		l.page = make([]T, 0, l.limit)
	default:
		l.page = nil
	}
	bytes := 0
	for item, err := range f.read(ctx, filter) {
		if err != nil {
			l.asked = time.Time{} // the next read may be answered by another server, whose watermark is earlier
		}
		if err != nil && len(l.page) > 0 {
			return nil // what was read is right, and the next read goes on after it
		}
		if err != nil {
			return err
		}
		l.page = append(l.page, item)
		l.after = f.offset(item)
		if bytes += f.size(item); bytes >= pageBytes {
			l.limit = len(l.page) / 2 // the next page has about as many
			return nil
		}
	}
	l.last = len(l.page) < l.limit
	return nil
}

// covers reports whether o has been handed over, as far as f knows, or is not to be: the states of the library are for those who ask for their type.
func (f *follower[T]) covers(o annals.Offset) bool {
	return f.filter.Type == "" && progress.Internal(o.ID) || f.handedOver.covers(o)
}

// settled reports whether everything at or before o is visible.
func (f *follower[T]) settled(o annals.Offset) bool {
	return f.lateness == 0 || o.Time.Before(f.watermark)
}

// fits reports whether the entity of o can be remembered.
func (f *follower[T]) fits(o annals.Offset) bool {
	_, there := f.handedOver.beyond[o.ID]
	return there || o.Time.Before(f.watermark) || len(f.handedOver.beyond) < f.options.Window
}

// pass notes that the look has come to o.
func (f *follower[T]) pass(o annals.Offset) {
	if o.Compare(f.head) > 0 {
		f.head = o
	}
	f.raise(o)
}

// raise raises the floor to o, but not beyond the watermark.
func (f *follower[T]) raise(o annals.Offset) {
	if limit := (annals.Offset{Time: f.watermark}); o.Compare(limit) > 0 {
		o = limit
	}
	if o.Compare(f.floor) > 0 {
		f.floor = o
	}
}

// finish ends the look.
func (f *follower[T]) finish() {
	f.look.open, f.look.buffer = false, nil
	if f.look.fromFloor {
		if !f.look.cut {
			f.raise(annals.Offset{Time: f.watermark})
		}
		f.lookedAt = time.Now()
		f.handedOver.settle(f.floor)
	}
	f.waker.done()
	f.ended = f.options.Current && !f.full
}
