package driver

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Replay yields the events from … to that r reads: annals.Journal.
func Replay(ctx context.Context, r Reader, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		w := walk{reader: r, to: to, next: from, settled: annals.MaxSeqNr, event: func(e *annals.Event) error {
			if !yield(*e, nil) {
				return errLeft
			}
			return nil
		}}
		if err := w.all(ctx, r.Rows(ctx, from, to)); err != nil && err != errLeft { //nolint:errorlint // returned as it is
			yield(annals.Event{}, err)
		}
	}
}

// errLeft ends a walk whose caller has left the loop.
var errLeft = errors.New("the loop was left")

// RecoverFrom hands over the newest snapshot and the events after it that r reads, and returns the last number: ability.Recoverer.
//
// A gap behind the snapshot has one of two causes: the events were deleted and nothing replaces them, or a newer snapshot was saved, and
// then they were deleted, after the snapshot was read. A snapshot is saved before events are deleted, and its number only grows. So the
// snapshot that is read after the gap was seen tells the cause.
func RecoverFrom(ctx context.Context, r Reader, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	w := walk{reader: r, to: annals.MaxSeqNr, event: func(e *annals.Event) error { return event(*e) }}
	handed := false // something was handed over: from then on only a snapshot can replace it
	for sure := false; ; sure = true {
		if err := ctx.Err(); err != nil {
			return 0, &annals.Error{Kind: annals.ErrUnavailable, Err: err}
		}
		b, err := r.Begin(ctx, sure)
		switch {
		case err != nil:
			return 0, err
		case b.Found:
			if err := snapshot(b.Snapshot); err != nil {
				return 0, err
			}
		case handed:
			return 0, truncated()
		}
		last := b.Snapshot.SeqNr
		if last == annals.MaxSeqNr {
			return last, nil
		}
		w.next, w.begun, w.atOnce, w.settled = last+1, false, b.AtOnce, max(w.settled, w.deleted, b.Settled)
		rows := b.Rows
		if rows == nil {
			rows = r.Rows(ctx, w.next, w.to)
		}
		switch err = w.all(ctx, rows); {
		case err == nil:
			return max(w.next-1, w.last), nil
		case w.stopped || !errors.Is(err, annals.ErrTruncated):
			return 0, err
		}
		handed = handed || b.Found || w.begun
	}
}

// walk goes over the numbers of an entity in their order and hands over the events.
type walk struct {
	reader Reader
	event  func(*annals.Event) error
	to     annals.SeqNr

	next    annals.SeqNr // the next number: all before are handed over, deleted or unused; negative after MaxSeqNr
	begun   bool         // events were handed over
	stopped bool         // event has returned an error
	last    annals.SeqNr // the entity's last number, as far as it is known
	deleted annals.SeqNr // the number up to which events are deleted, as far as it is known
	settled annals.SeqNr // deleted numbers up to this one are passed over before the first event
	atOnce  bool         // the next part is of the moment of the snapshot
}

// all takes all parts, and then looks for what is missing behind them.
func (w *walk) all(ctx context.Context, rows iter.Seq2[Part, error]) error {
	for p, err := range rows {
		if err == nil {
			err = w.take(ctx, &p)
		}
		if err != nil {
			return err
		}
	}
	return w.gap(ctx, min(w.last, w.to))
}

// take takes the next part.
func (w *walk) take(ctx context.Context, p *Part) error {
	switch {
	case w.atOnce && len(p.Events) > 0:
		w.settled = max(w.settled, p.Events[0].SeqNr-1)
	case w.atOnce:
		w.settled = max(w.settled, p.Last)
	}
	w.atOnce = false
	if err := w.learn(p); err != nil {
		return err
	}
	for i := range p.Events {
		e := &p.Events[i]
		if err := w.gap(ctx, e.SeqNr-1); err != nil {
			return err
		}
		if err := w.hand(e); err != nil {
			return err
		}
	}
	return nil
}

// hand hands e over if it is the next event.
func (w *walk) hand(e *annals.Event) error {
	if e.SeqNr != w.next {
		return nil
	}
	w.begun = true
	w.next++
	err := w.event(e)
	w.stopped = err != nil
	return err
}

// learn notes what a part says beside its events. Deleted numbers after an event that was handed over end the walk.
func (w *walk) learn(p *Part) error {
	w.last = max(w.last, p.Last, p.Deleted)
	w.deleted = max(w.deleted, p.Deleted)
	switch {
	case w.deleted < w.next || w.next < 0:
	case w.begun || w.deleted > w.settled:
		return truncated()
	default:
		w.next = w.deleted + 1
	}
	return nil
}

// gap goes over the numbers up to to, for which no row was read. Events that were written meanwhile are handed over.
func (w *walk) gap(ctx context.Context, to annals.SeqNr) error {
	for 0 < w.next && w.next <= to {
		from := w.next
		p, err := w.reader.Gap(ctx, from, to)
		if err == nil {
			err = w.learn(&p)
		}
		if err != nil {
			return err
		}
		for i := range p.Events {
			e := &p.Events[i]
			if err := w.pass(ctx, min(p.Unused, e.SeqNr-1), p.Proven); err != nil {
				return err
			}
			if err := w.hand(e); err != nil {
				return err
			}
		}
		if err := w.pass(ctx, min(p.Unused, to), p.Proven); err != nil {
			return err
		}
		if w.next == from {
			return &annals.Error{Kind: annals.ErrCorrupt, Err: &ability.Damage{Code: ability.Missing, From: from, To: to, Err: fmt.Errorf("events %d to %d are missing", from, to)}}
		}
	}
	return nil
}

// pass passes over unused numbers.
func (w *walk) pass(ctx context.Context, to annals.SeqNr, proven bool) error {
	if to < w.next {
		return nil
	}
	from := w.next
	w.next = to + 1
	if proven {
		return nil
	}
	return accept(ctx, from, to)
}

func truncated() error { return &annals.Error{Kind: annals.ErrTruncated} }
