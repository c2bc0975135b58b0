package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// Past is a moment in the history of an entity.
type Past struct {
	Number annals.SeqNr // after this event
	Time   time.Time    // with Timed: after the events up to this time
	Timed  bool
}

// LoadAt is the state of the entity named id at p, and the number of its last event then. It belongs to the caller.
func (o *Observed[C, S, R]) LoadAt(ctx context.Context, id string, p Past) (s S, number annals.SeqNr, err error) {
	pid, err := o.Identify("load", id)
	if err != nil {
		return s, 0, err
	}
	e := o.New(id, pid)
	err = o.observe(ctx, annals.Call{Op: OpLoad, ID: pid}, func(ctx context.Context) (annals.Result, error) { return e.LoadAt(ctx, p) })
	if err == nil {
		err = e.View(func(then S, at annals.SeqNr) error { s, number = then, at; return nil })
	}
	return s, number, err
}

// errDeleted is in the error for a state whose events are deleted.
var errDeleted = errors.New("events before it are deleted, and no snapshot covers them")

// LoadAt implements Entity.
func (e *sourced[C, E, S, R]) LoadAt(ctx context.Context, p Past) (r annals.Result, err error) {
	switch {
	case p.Timed && !e.m.caps.Times:
		return r, &annals.Error{Op: "load", ID: e.pid, Kind: annals.ErrUnsupported, Err: errors.New("the store does not claim Times")}
	case !p.Timed && p.Number < 0:
		return r, &annals.Error{Op: "load", ID: e.pid, Kind: annals.ErrInvalid, Err: fmt.Errorf("the number is %d", p.Number)}
	}
	e.read = &r
	defer func() { e.read = nil }()
	for ; ; r.Retries++ {
		err := e.loadAt(ctx, p)
		if !truncated(err) || errors.Is(err, errDeleted) || backoff.Wait(ctx, r.Retries) != nil {
			return r, loadFailed(e.pid, err)
		}
	}
}

// reading is one try to load an entity at a moment of the past.
type reading struct {
	Past
	to    annals.SeqNr            // the last number that is read
	which annals.SnapshotCriteria // of the snapshots that may be used
	seen  annals.SeqNr            // the newest of them, also if it cannot be decoded
	fault error                   // why a snapshot cannot be decoded
}

// unbounded reports whether r.which would allow every snapshot, because the zero time does not bound it: none is so old.
func (r reading) unbounded() bool { return r.Timed && r.Time.IsZero() }

// loadAt is LoadAt once. ErrTruncated without errDeleted is tried again.
func (e *sourced[C, E, S, R]) loadAt(ctx context.Context, p Past) error {
	r := reading{Past: p, to: p.Number}
	if p.Timed {
		r.to = annals.MaxSeqNr
	}
	r.which = annals.SnapshotCriteria{MaxSeqNr: r.to, MaxTime: p.Time}
	for {
		if err := e.reset(); err != nil || r.to == 0 {
			return err
		}
		most := math.MaxInt
		if r.unbounded() {
			most = 0
		}
		var err error
		if r.seen, r.fault, err = e.restoreNewest(ctx, r.which, most); err != nil {
			return err
		}
		tooLate, err := e.replayTo(ctx, r)
		if !tooLate {
			if errors.Is(err, errDeleted) && r.fault != nil {
				return e.unread(r.seen, fmt.Errorf("snapshot %d cannot be decoded: %w: %w", r.seen, r.fault, err))
			}
			return err
		}
		r.which.MaxSeqNr = e.snapshot - 1
	}
}

// replayTo takes the state from its snapshot to the end of r. tooLate says that the event of the snapshot is after r.Time: its time is from
// another clock than that of the snapshot.
func (e *sourced[C, E, S, R]) replayTo(ctx context.Context, r reading) (tooLate bool, err error) {
	base := e.snapshot
	whole := false // the event of the snapshot is there, so no later one is deleted
	from, known := max(base, 1), annals.SeqNr(0)
	for e.last = base; e.last < r.to; from = e.last + 1 {
		for ev, err := range e.m.journal.Replay(ctx, e.pid, from, r.to) {
			if err != nil {
				return false, err
			}
			later := r.Timed && ev.Time.After(r.Time)
			if ev.SeqNr == base {
				if later {
					return true, nil
				}
				whole = true
				continue
			}
			if e.last == base && !whole && ev.SeqNr != base+1 {
				if err := e.beginsAt(ctx, r, base); err != nil {
					return false, err
				}
			}
			if later {
				return false, nil
			}
			if err := e.replay(ev); err != nil {
				return false, err
			}
			e.last = ev.SeqNr
		}
		if known > 0 || e.last == r.to {
			break
		}
		known, err = e.m.journal.LastSeqNr(ctx, e.pid) // what is written between the replay and this is read, too
		switch {
		case err != nil:
			return false, err
		case !r.Timed && known < r.to:
			return false, &annals.Error{Op: "load", ID: e.pid, Last: known, Kind: annals.ErrInvalid, Err: fmt.Errorf("number %d is above the last one, %d", r.to, known)}
		case known <= e.last:
			return false, nil
		}
	}
	switch {
	case e.last > base, whole, base == r.to: // numbers without events are unused
		return false, nil
	case base == 0:
		return false, e.deleted(r, known)
	}
	return false, e.beginsAt(ctx, r, base)
}

// beginsAt is nil when an entity that is loaded now begins at base, too, the number of a snapshot, or 0 without one: then the numbers after it are
// unused, or nothing replaces their events. It is ErrTruncated when a newer snapshot covers them, which r may use or not.
func (e *sourced[C, E, S, R]) beginsAt(ctx context.Context, r reading, base annals.SeqNr) error {
	for _, which := range []annals.SnapshotCriteria{r.which, {}} {
		if which == r.which && r.unbounded() {
			continue
		}
		s, ok, err := e.m.store.Snapshots().Latest(ctx, e.pid, which)
		switch {
		case err != nil && !errors.Is(err, annals.ErrUnsupported):
			return err
		case which == r.which && (s.SeqNr < base || s.SeqNr > r.seen): // that of base was deleted, or another one was saved, meanwhile
			return &annals.Error{Op: "load", ID: e.pid, Kind: annals.ErrTruncated}
		case ok && which != r.which && s.SeqNr > base:
			return e.deleted(r, s.SeqNr)
		}
	}
	return nil
}

func (e *sourced[C, E, S, R]) deleted(r reading, last annals.SeqNr) error {
	what := fmt.Sprintf("number %d", r.to)
	if r.Timed {
		what = r.Time.Format(time.RFC3339Nano)
	}
	return &annals.Error{Op: "load", ID: e.pid, Last: last, Kind: annals.ErrTruncated, Err: fmt.Errorf("%s: %w", what, errDeleted)}
}
