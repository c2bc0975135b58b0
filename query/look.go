package query

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/annals-go/annals"
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
	// overlap is how much before the newest event a look at the head begins, so that it finds what is a little late. A look in the slices of a
	// signal begins twice as much before it.
	overlap = 100 * time.Millisecond
	// lookBack is the least time between two looks from the floor where much is beyond it, and the longest that a watermark is used while
	// a Feed catches up.
	lookBack = time.Second
)

// look is one pass over what the store shows, from the floor or from the head to the end.
type look[T any] struct {
	open      bool
	fromFloor bool // of an audit: that of the look before it
	slices    annals.SliceRange
	asked     time.Time // when the watermark was asked for; zero before the first page
	after     annals.Offset
	limit     int  // of the page; 0 before the first page
	page      []T  // read, and not handed over
	buffer    []T  // where pages are read to, with Options.Reuse
	last      bool // there is no page after it
	cut       bool // what follows is not read by this look
	audit     bool // it reads what is before the floor
}

// Next returns the next items, at most max; max below 1 counts as 1. It waits until there are some. Without items it returns when the
// feed has caught up for the first time since the last Batch with more to come, and from then on after Options.Poll.
// With Options.Current it is io.EOF after everything that was visible when the first Next began; a feed of states is read to the end once.
//
// A read that fails is repeated until it works, with OnRetry. The errors are that of ctx, ErrUnsupported and ErrClosed of the store, and its
// ErrInvalid before the first read that works: from then on it is repeated, too, because what the feed asks for is right, and a server may
// refuse it for a while. After an error Next may be called again, and goes on without a loss.
func (f *Feed[T]) Next(ctx context.Context, max int) (Batch[T], error) {
	if max < 1 {
		max = 1
	}
	for {
		err := ctx.Err()
		if err != nil {
			return Batch[T]{}, err
		}
		if !f.look.open {
			if f.ended {
				return Batch[T]{}, io.EOF
			}
			if f.auditIsDue() {
				err = f.beginAudit(ctx)
			} else if written, err := f.wait(ctx); err != nil {
				return Batch[T]{}, err
			} else {
				f.begin(written)
			}
		}
		var items []T
		if err == nil {
			items, err = f.step(ctx, max)
		}
		if len(items) == 0 && err != nil {
			if err := f.waker.failed(ctx, err); err != nil {
				return Batch[T]{}, err
			}
			continue
		}
		f.waker.succeeded()                                         // an error after items comes again
		caughtUp := !f.look.open && !f.full && !f.lookedAt.IsZero() // the first audit is no look
		emptyDue := caughtUp && !f.caughtUp || (caughtUp || f.floor.Compare(f.through) > 0) && time.Since(f.handed) >= f.options.Poll*9/10
		if len(items) > 0 || emptyDue {
			f.handed, f.through, f.caughtUp = time.Now(), f.floor, caughtUp
			return Batch[T]{slices.Clip(items), f.floor, caughtUp}, nil
		}
	}
}

// span is how much is beyond the floor.
func (f *Feed[T]) span() time.Duration { return f.head.Time.Sub(f.floor.Time) }

// due is when a look from the floor is due after looks at the head.
func (f *Feed[T]) due() time.Time {
	return f.lookedAt.Add(max(lookBack, min(f.span(), f.lateness)/4))
}

// wait waits for the next look.
func (f *Feed[T]) wait(ctx context.Context) (written annals.SliceRange, err error) {
	var latest time.Time
	if !f.look.fromFloor {
		latest = f.due()
	}
	return f.waker.wait(ctx, latest, f.full)
}

// begin begins a look. It is from the floor where such a look would be due long before the next one. Otherwise it is in the slices in which
// something was written, as far as signals tell: what they do not tell of, the next look from the floor finds.
func (f *Feed[T]) begin(written annals.SliceRange) {
	next := time.Now()
	if f.waker.signals == nil {
		next = next.Add(max(f.waker.pause()-pollBusy, 0))
	}
	fromFloor := f.lookedAt.IsZero() || f.full || f.span() <= overlap || !next.Before(f.due())
	f.full = false
	f.look = look[T]{open: true, fromFloor: fromFloor, slices: f.filter.Slices, after: f.floor}
	if fromFloor {
		return
	}
	back := overlap
	if within, err := intersect(f.filter.Slices, written); err == nil && written != (annals.SliceRange{}) && valid.Filter("", annals.Filter{Slices: written}) == nil {
		f.look.slices, back = within, 2*overlap // a signal of another process comes later, and the looks before it have moved the head
	}
	if near := (annals.Offset{Time: f.head.Time.Add(-back)}); near.Compare(f.floor) > 0 {
		f.look.after = near
	}
}

// step hands over at most max of what the look finds. Without an error and items, the look has ended or there is more to read.
func (f *Feed[T]) step(ctx context.Context, max int) (items []T, err error) {
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
					f.waker.found += len(before)
				}
				if err != nil || !all || len(items) == max {
					return items, err
				}
			}
			items = append(items, item)
			f.waker.found++
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
func (f *Feed[T]) readPage(ctx context.Context) error {
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
		watermark, err := f.shown(ctx)
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
	filter.Slices, filter.After, filter.Limit, filter.KeysOnly = l.slices, l.after, l.limit, l.audit
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
			if len(l.page) > 0 {
				return nil // what was read is right, and the next read goes on after it
			}
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

// shown asks the store for its watermark.
func (f *Feed[T]) shown(ctx context.Context) (time.Time, error) {
	return f.store.Query().Watermark(warning.Context(ctx, f.options.OnWarning))
}

// covers reports whether o has been handed over, as far as f knows, or is not to be: the states of the library are for those who ask for their type.
func (f *Feed[T]) covers(o annals.Offset) bool {
	return f.filter.Type == "" && progress.Internal(o.ID) || f.handedOver.covers(o)
}

// settled reports whether everything at or before o is visible.
func (f *Feed[T]) settled(o annals.Offset) bool {
	return f.lateness == 0 || o.Time.Before(f.watermark)
}

// fits reports whether the entity of o can be remembered.
func (f *Feed[T]) fits(o annals.Offset) bool {
	_, there := f.handedOver.beyond[o.ID]
	return there || o.Time.Before(f.watermark) || len(f.handedOver.beyond) < f.options.Window
}

// pass notes that the look has come to o.
func (f *Feed[T]) pass(o annals.Offset) {
	f.head = later(o, f.head)
	f.raise(o)
}

// raise raises the floor to o, but not beyond the watermark.
func (f *Feed[T]) raise(o annals.Offset) {
	if limit := (annals.Offset{Time: f.watermark}); o.Compare(limit) > 0 {
		o = limit
	}
	f.floor = later(o, f.floor)
}

// finish ends the look.
func (f *Feed[T]) finish() {
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
