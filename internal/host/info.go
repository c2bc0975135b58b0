package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/contexts"
)

// metadata is what the option Metadata adds to a write with the caller's context ctx, and the same as Info will have it after a
// recovery: decoded by c, and nil where the store does not keep it.
func (c *Config) metadata(ctx context.Context, decoder codec.Codec[any], kept bool) (p annals.Payload, known any, err error) {
	if c.Metadata == nil {
		return p, nil, nil
	}
	if p, err = c.Metadata(ctx); err != nil {
		return p, nil, fmt.Errorf("metadata: %w", err)
	}
	if kept {
		known, err = decodeMetadata(decoder, p)
	}
	return p, known, err
}

// decodeMetadata is the Metadata of an Info: nil where p is zero or the behavior does not ask for it.
func decodeMetadata(decoder codec.Codec[any], p annals.Payload) (any, error) {
	if decoder == nil || p.SerializerID == 0 {
		return nil, nil
	}
	known, err := decoder.Decode(p)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	return known, nil
}

// newInfo is the same for a number, time and metadata that come from a receipt and for those that come from a recovery.
func newInfo(n annals.SeqNr, at time.Time, metadata any) behavior.Info {
	return behavior.Info{SeqNr: n, Time: at.UTC().Round(0), Metadata: metadata} // Round strips a monotonic clock
}

// finish is Decision.Finish of a command that decided events, where the state depends on what the store says of them.
func (e *sourced[C, E, S, R]) finish(c C, events []E, metadata any) func(context.Context, *Write, annals.Receipt) (R, error) {
	return func(ctx context.Context, w *Write, r annals.Receipt) (reply R, err error) {
		at := r.Time
		if r.Repeated && e.m.caps.Times {
			if at, err = e.storedAt(ctx, w); err != nil {
				return reply, unfinished(w, err)
			}
		}
		b := &e.m.b
		err = e.m.c.contain("evolve", e.pid, func() error {
			for i, v := range events {
				e.state = b.EvolveStored(e.state, v, newInfo(w.Commit.After+1+annals.SeqNr(i), at, metadata))
			}
			if b.Reply != nil {
				reply = b.Reply(e.state, c, events)
			}
			return nil
		})
		if err != nil {
			return reply, unfinished(w, err)
		}
		if w.snapshot && !contexts.InTx(ctx, nil) { // in a transaction the event may get a later time than its receipt has
			w.Snapshot = e.due()
		}
		return reply, nil
	}
}

// storedAt is the time of the events of w, which an earlier try has stored: that of the receipt may be the time at which another owner
// deleted them. All events of a commit have one time, so one of them suffices.
func (e *sourced[C, E, S, R]) storedAt(ctx context.Context, w *Write) (time.Time, error) {
	for ev, err := range e.m.journal.Replay(ctx, e.pid, w.Commit.After+1, w.Commit.After+annals.SeqNr(len(w.Commit.Events))) {
		return ev.Time, err
	}
	return time.Time{}, errors.New("another owner has deleted the events, so their time is not known")
}

// finish is Decision.Finish of a command that saved or deleted a state, where the behavior adds to the state what the store says of it.
func (e *durable[C, S, R]) finish(c C, metadata any) func(context.Context, *Write, annals.Receipt) (R, error) {
	return func(_ context.Context, w *Write, r annals.Receipt) (reply R, err error) {
		err = e.m.c.contain("evolve", e.pid, func() error {
			if !w.Delete {
				e.state = e.m.b.Stored(e.state, newInfo(r.SeqNr, r.Time, metadata))
			}
			if e.m.b.Reply != nil {
				reply = e.m.b.Reply(e.state, c)
			}
			return nil
		})
		if err != nil {
			return reply, unfinished(w, err)
		}
		return reply, nil
	}
}

// unfinished is the error of a command whose write w is stored and whose reply cannot be made.
func unfinished(w *Write, err error) error {
	return &annals.Error{Op: w.Op(), ID: w.ID(), After: w.After(), Kind: annals.ErrUnknown, Err: fmt.Errorf("the write is stored, but there is no reply: %w", err)}
}
