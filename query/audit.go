package query

import (
	"context"
	"time"

	"github.com/annals-go/annals"
)

// auditIsDue reports whether to look behind the floor. A Feed that has not caught up has no time for that, but for the first audit, which comes
// before the first look: what becomes visible later was not handled before, and is missing before later events. Where the Feed has handed over all that
// the first audit reads, there is nothing to note, and the audit is not due at once.
func (f *Feed[T]) auditIsDue() bool {
	switch {
	case f.options.Audit <= 0:
		return false
	case f.lookedAt.IsZero():
		return f.audited.IsZero() && time.Since(f.begun.Time) < f.lateness+2*f.options.Audit
	case !f.caughtUp || f.full:
		return false
	}
	last := f.audited
	if last.IsZero() && f.auditFrom().Compare(f.begun) >= 0 {
		last, f.lowest = f.made, earlier(f.floor.Time, f.lowest) // the audit reads from there, however late it is
	}
	return time.Since(last) >= f.options.Audit
}

// auditFrom is where an audit begins, if the Feed knows what it has handed over since.
func (f *Feed[T]) auditFrom() annals.Offset {
	return annals.Offset{Time: earlier(f.floor.Time, f.lowest).Add(-2 * f.options.Audit)}
}

// beginAudit begins a look behind the floor, for items that have become visible after the floor has passed them. A watermark below the floor says
// that more will. Of those at or before the floor that the Feed began with, the first audit notes which are there: they were handled before.
func (f *Feed[T]) beginAudit(ctx context.Context) (err error) {
	if f.lookedAt.IsZero() { // no look has asked for the watermark
		if f.watermark, err = f.shown(ctx); err != nil {
			return err
		}
		f.noteWatermark()
	}
	after := f.auditFrom()
	if f.audited.IsZero() && f.handedOver.since.Compare(f.begun) == 0 && after.Compare(f.begun) < 0 {
		f.handedOver.since = after
	} else {
		f.begun = annals.Offset{}
	}
	f.lowest = time.Time{}
	f.noteWatermark()
	f.look = look[T]{open: true, audit: true, fromFloor: f.look.fromFloor, slices: f.filter.Slices, after: later(f.handedOver.since, after)}
	return nil
}

// noteWatermark notes the watermark if it is below the floor.
func (f *Feed[T]) noteWatermark() {
	if f.watermark.Before(f.floor.Time) {
		f.lowest = earlier(f.watermark, f.lowest)
	}
}

// earlier is a, or b if that is set and earlier.
func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b
}

// audit hands over at most max of what the look finds that was not handed over.
func (f *Feed[T]) audit(ctx context.Context, max int) (items []T, err error) {
	l := &f.look
	for len(l.page) > 0 && len(items) < max {
		o := f.offset(l.page[0])
		if o.Compare(f.floor) > 0 {
			l.cutOff()
			break
		}
		switch {
		case f.covers(o) || o.Compare(f.handedOver.since) <= 0:
		case o.Compare(f.begun) <= 0:
			f.handedOver.add(o, f.floor)
		default:
			late, all, err := f.late(ctx, o, max-len(items))
			items = append(items, late...)
			if err != nil || !all {
				return items, err
			}
		}
		l.page = l.page[1:]
	}
	if len(l.page) == 0 && l.last {
		l.open, f.audited = false, time.Now()
	}
	return items, nil
}

// late returns the item at o with what must be handed over before it, max at most, and whether that is all. The audit has read it without
// its payload.
func (f *Feed[T]) late(ctx context.Context, o annals.Offset, max int) (items []T, all bool, err error) {
	filter := f.filter
	filter.After = annals.Offset{Time: o.Time, SeqNr: o.SeqNr}
	for item, err := range f.read(ctx, filter) {
		if err != nil {
			return nil, false, err
		}
		if f.offset(item).Compare(o) < 0 {
			continue
		}
		if f.offset(item).Compare(o) > 0 {
			break // it was deleted
		}
		if f.missing != nil {
			if items, all, err = f.missing(ctx, item, max); err != nil || !all || len(items) == max {
				return items, false, err
			}
		}
		f.handedOver.add(o, f.floor)
		return append(items, item), true, nil
	}
	return nil, true, nil
}
