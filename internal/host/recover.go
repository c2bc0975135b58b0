package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/backoff"
)

// Load implements Entity.
func (e *sourced[C, E, S, R]) Load(ctx context.Context) (r annals.Result, err error) {
	e.read = &r
	defer func() { e.read = nil }()
	for ; ; r.Retries++ {
		err := e.load(ctx)
		// Deletes and snapshots of another owner overtook the read: what was built is dropped, and the entity is read again.
		if !truncated(err) || backoff.Wait(ctx, r.Retries) != nil {
			return r, loadFailed(e.pid, err)
		}
	}
}

// truncated reports whether err is ErrTruncated of a store. The error of a codec may be ErrTruncated, too, and that of a load with it is ErrCorrupt.
func truncated(err error) bool {
	e := (*annals.Error)(nil)
	return errors.As(err, &e) && e.Kind == annals.ErrTruncated
}

func (e *sourced[C, E, S, R]) load(ctx context.Context) error {
	if err := e.reset(); err != nil {
		return err
	}
	var unread *annals.Snapshot // the newest snapshot, when it cannot be decoded
	var fault error             // the reason
	last, err := ability.Recover(ctx, e.m.store, e.pid, func(s annals.Snapshot) (err error) {
		unread = nil
		if fault, err = e.restore(s); fault != nil {
			unread = &s
		}
		return err
	}, func(ev annals.Event) error {
		if unread != nil { // rebuild reads it again
			e.count(ev)
			return nil
		}
		return e.replay(ev)
	})
	if err == nil && unread != nil {
		return e.rebuild(ctx, *unread, last, fault)
	}
	e.last = last
	return err
}

// reset makes e an entity without events.
func (e *sourced[C, E, S, R]) reset() error {
	var zero S
	e.state, e.last, e.snapshot = zero, 0, 0
	e.drop()
	return e.m.c.guard("recover", e.pid, func() error { e.state = first(e.m.b.Init, e.id); return nil })
}

// restore makes s the state. fault is the reason when s cannot be decoded, also because of a panic.
func (e *sourced[C, E, S, R]) restore(s annals.Snapshot) (fault, err error) {
	e.read.Bytes += len(s.Data) + len(s.Metadata.Data)
	var state S
	fault = e.m.c.contain("recover", e.pid, func() (err error) {
		state, err = e.m.b.States.Decode(s.Payload)
		return err
	})
	switch {
	case errors.Is(fault, annals.ErrUnavailable): // the snapshot is not to blame
		return nil, e.unread(s.SeqNr, fmt.Errorf("snapshot %d: %w", s.SeqNr, fault))
	case fault != nil:
		return fault, nil
	}
	e.state, e.snapshot = state, s.SeqNr
	if e.m.b.Restore != nil {
		err = e.m.c.guard("recover", e.pid, func() error { e.state = e.m.b.Restore(e.id, state); return nil })
	}
	return nil, err
}

// count adds ev to what has been read.
func (e *sourced[C, E, S, R]) count(ev annals.Event) {
	e.read.Events++
	e.read.Bytes += len(ev.Data) + len(ev.Metadata.Data)
}

func (e *sourced[C, E, S, R]) replay(ev annals.Event) error {
	e.count(ev)
	return e.m.c.guard("recover", e.pid, func() error {
		v, err := e.m.b.Events.Decode(ev.Payload)
		if err != nil {
			return e.unread(ev.SeqNr, fmt.Errorf("event %d: %w", ev.SeqNr, err))
		}
		if e.m.b.EvolveStored == nil {
			e.state = e.m.b.Evolve(e.state, v)
			return nil
		}
		metadata, err := decodeMetadata(e.m.b.Metadata, ev.Metadata)
		if err != nil {
			return e.unread(ev.SeqNr, fmt.Errorf("event %d: %w", ev.SeqNr, err))
		}
		e.state = e.m.b.EvolveStored(e.state, v, newInfo(ev.SeqNr, ev.Time, metadata))
		return nil
	})
}

// rebuild loads the entity without unread, its newest snapshot, which cannot be decoded because of fault: from an older snapshot
// that is kept and can be decoded, or else from the first event. last is the entity's last number as Recover has found it.
//
// The next snapshot is due as soon as the entity has SnapshotEvery events after the number at which rebuild began. That snapshot replaces the unreadable one.
func (e *sourced[C, E, S, R]) rebuild(ctx context.Context, unread annals.Snapshot, last annals.SeqNr, fault error) error {
	if err := e.reset(); err != nil {
		return err
	}
	kept := 1
	if e.m.caps.ManySnapshots {
		kept = e.m.c.KeepSnapshots
	}
	if _, _, err := e.restoreNewest(ctx, annals.SnapshotCriteria{MaxSeqNr: unread.SeqNr - 1}, kept-1); err != nil {
		return err
	}
	begin := e.snapshot
	e.last = begin
	for ev, err := range e.m.journal.Replay(ctx, e.pid, begin+1, annals.MaxSeqNr) {
		if err != nil {
			return err
		}
		if e.last == begin && ev.SeqNr != begin+1 {
			break // events are deleted
		}
		if err := e.replay(ev); err != nil {
			return err
		}
		e.last = ev.SeqNr
	}
	if e.last < max(last, unread.SeqNr) {
		return e.notRebuilt(ctx, unread, fault)
	}
	e.m.c.Logger.LogAttrs(ctx, slog.LevelWarn, "annals: snapshot cannot be decoded, entity rebuilt from its events", slog.String("id", string(e.pid)),
		slog.Int64("seq_nr", int64(unread.SeqNr)), slog.Int64("from", int64(begin+1)), slog.Int64("to", int64(e.last)), slog.Any("error", fault))
	return nil
}

// restoreNewest makes the newest snapshot that can be decoded the state, among the first most of those that fit which. seen is the newest of them,
// also if it cannot be decoded, and fault says why the last one that cannot be decoded cannot.
func (e *sourced[C, E, S, R]) restoreNewest(ctx context.Context, which annals.SnapshotCriteria, most int) (seen annals.SeqNr, fault, err error) {
	for ; most > 0 && which.MaxSeqNr > 0; most-- {
		s, ok, err := e.m.store.Snapshots().Latest(ctx, e.pid, which)
		switch {
		case errors.Is(err, annals.ErrUnsupported), err == nil && !ok:
			return seen, fault, nil
		case err != nil:
			return seen, fault, err
		}
		unread, err := e.restore(s)
		if seen = max(seen, s.SeqNr); err != nil || unread == nil {
			return seen, fault, err
		}
		fault, which.MaxSeqNr = unread, s.SeqNr-1
	}
	return seen, fault, nil
}

// notRebuilt is the error when events that unread covers are missing. Another owner saves a snapshot before it deletes events, so
// the snapshot that is the newest after the events were missed decides: ErrTruncated, which reads again, when it is not unread any more.
func (e *sourced[C, E, S, R]) notRebuilt(ctx context.Context, unread annals.Snapshot, fault error) error {
	newest, ok, err := e.m.store.Snapshots().Latest(ctx, e.pid, annals.SnapshotCriteria{})
	switch {
	case err != nil:
		return err
	case !ok || newest.SeqNr != unread.SeqNr || e.m.readable(newest) == nil:
		return &annals.Error{Op: "recover", ID: e.pid, Kind: annals.ErrTruncated}
	}
	return e.unread(unread.SeqNr, fmt.Errorf("snapshot %d cannot be decoded, and events up to %d, from which it could be rebuilt, are deleted: %w",
		unread.SeqNr, unread.SeqNr, fault))
}

func (e *sourced[C, E, S, R]) unread(n annals.SeqNr, err error) error {
	return &annals.Error{Op: "recover", ID: e.pid, Last: n, Kind: kindOf(err, annals.ErrCorrupt), Err: err}
}

// kindOf is the kind of an error of a codec: ErrUnavailable if a later try may work, such as when a key cannot be read now; otherwise kind.
func kindOf(err, kind error) error {
	if errors.Is(err, annals.ErrUnavailable) {
		return annals.ErrUnavailable
	}
	return kind
}

// loadFailed gives err a kind: nothing was written, whatever it was.
func loadFailed(pid annals.PersistenceID, err error) error {
	if e := (*annals.Error)(nil); err == nil || errors.As(err, &e) {
		return err
	}
	return &annals.Error{Op: "recover", ID: pid, Kind: annals.ErrUnavailable, Err: err}
}
