package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/valid"
)

// Sourced is the Model of an event-sourced behavior.
type Sourced[C, E, S, R any] struct {
	store     annals.Store
	journal   annals.Journal
	b         behavior.EventSourced[C, E, S, R]
	c         Config
	caps      annals.Capabilities
	perCommit annals.Limits // of the events of one command
}

// NewSourced reports everything that is wrong with b, c and store at once: ErrInvalid, ErrUnsupported or both. A nil codec becomes JSON.
func NewSourced[C, E, S, R any](store annals.Store, b behavior.EventSourced[C, E, S, R], c Config) (o Observed[C, S, R], err error) {
	if err := refuseSourced(store, b, c); err != nil {
		return o, err
	}
	if b.Events == nil {
		b.Events = codec.JSON[E](b.Type)
	}
	if b.States == nil {
		b.States = codec.JSON[S](b.Type)
	}
	m := &Sourced[C, E, S, R]{store: store, journal: store.Journal(), b: b, c: c, caps: store.Capabilities()}
	m.perCommit = m.caps.Limits
	m.perCommit.FirstSnapshot = false // Seal adds it
	return Observed[C, S, R]{m, b.ID, partsOf(store), c, m.caps.Limits, m.caps.Repeatable, new(atomic.Int64)}, nil
}

// Last implements Model.
func (m *Sourced[C, E, S, R]) Last(ctx context.Context, pid annals.PersistenceID) (annals.SeqNr, error) {
	return m.journal.LastSeqNr(ctx, pid)
}

// New implements Model.
func (m *Sourced[C, E, S, R]) New(id string, pid annals.PersistenceID) Entity[C, S, R] {
	return &sourced[C, E, S, R]{m: m, id: id, pid: pid}
}

type sourced[C, E, S, R any] struct {
	m        *Sourced[C, E, S, R]
	id       string
	pid      annals.PersistenceID
	state    S
	last     annals.SeqNr // of the newest event decided
	snapshot annals.SeqNr // of the newest snapshot stored or tried

	events []annals.NewEvent // decided since the last Seal
	bytes  int               // their size

	read *annals.Result // counts what Load reads; nil between loads
}

func (e *sourced[C, E, S, R]) View(fn func(s S, number annals.SeqNr) error) error {
	return e.m.c.guard("view", e.pid, func() error { return fn(e.state, e.last) })
}

func (e *sourced[C, E, S, R]) SeqNr() annals.SeqNr { return e.last }

func (e *sourced[C, E, S, R]) Final() bool { return true }

func (e *sourced[C, E, S, R]) Decide(ctx context.Context, c C, at annals.SeqNr) (d Decision[R]) {
	mark, bytes, evolving := len(e.events), e.bytes, false
	err := e.m.c.guard("decide", e.pid, func() error { d = e.decide(ctx, c, at, &evolving); return nil })
	if err != nil {
		d = Decision[R]{Err: err, Broken: evolving}
	}
	if !d.Wrote {
		e.events, e.bytes = e.events[:mark], bytes
	}
	return d
}

func (e *sourced[C, E, S, R]) decide(ctx context.Context, c C, at annals.SeqNr, evolving *bool) (d Decision[R]) {
	mark, b := len(e.events), &e.m.b
	events, err := b.Decide(e.state, c)
	if len(events) > 0 || err != nil {
		if missed := misses(e.pid, at, e.last); missed != nil {
			return Decision[R]{Err: missed}
		}
	}
	if err != nil {
		return Decision[R]{Err: err}
	}
	if len(events) > 0 {
		metadata, err := e.stage(ctx, events)
		if err != nil {
			return Decision[R]{Err: err}
		}
		first := e.last == annals.SeqNr(mark) // nothing is sealed yet
		if mark > 0 && !e.fits(first) {
			return Decision[R]{Full: true}
		}
		if b.EvolveStored != nil {
			e.last += annals.SeqNr(len(events))
			return Decision[R]{Wrote: true, Finish: e.finish(c, events, metadata)}
		}
		*evolving, d.Wrote = true, true
		for _, v := range events {
			e.state = b.Evolve(e.state, v)
		}
		e.last += annals.SeqNr(len(events))
	}
	if b.Reply != nil {
		d.Reply = b.Reply(e.state, c, events)
	}
	return d
}

// stage encodes the events of one command after those already decided and checks that they could be written alone. It returns
// their metadata as Info has it.
func (e *sourced[C, E, S, R]) stage(ctx context.Context, events []E) (known any, err error) {
	mark, b := len(e.events), &e.m.b
	metadata, known, err := e.m.c.metadata(ctx, b.Metadata, e.m.caps.Metadata)
	if err != nil {
		return nil, &annals.Error{Op: "decide", ID: e.pid, Kind: kindOf(err, annals.ErrInvalid), Err: err}
	}
	for i := range events {
		p, err := b.Events.Encode(events[i])
		if err != nil {
			return nil, &annals.Error{Op: "decide", ID: e.pid, Kind: kindOf(err, annals.ErrInvalid), Err: fmt.Errorf("event %d of the command: %w", i+1, err)}
		}
		n := annals.NewEvent{Payload: p, Metadata: metadata}
		if b.Tags != nil {
			n.Tags = b.Tags(events[i])
		}
		e.events = append(e.events, n)
		e.bytes += valid.EventSize(&n)
	}
	own := annals.Commit{ID: e.pid, After: e.last, Events: e.events[mark:]}
	return known, valid.Commit(own, e.m.perCommit)
}

// fits reports whether all that is decided is within the limits of one commit, the entity's first or a later one.
func (e *sourced[C, E, S, R]) fits(first bool) bool {
	l := &e.m.caps.Limits
	if l.FirstSnapshot && first {
		return false // the first commit has one command and its snapshot, so that an error of either is that command's
	}
	return (l.MaxEvents == 0 || len(e.events) <= l.MaxEvents) && (l.MaxBytes == 0 || e.bytes <= l.MaxBytes)
}

func (e *sourced[C, E, S, R]) Seal(w *Write, snapshot bool) error {
	reuse := w.Commit.Events[:0]
	*w = Write{Empty: len(e.events) == 0, Commit: annals.Commit{ID: e.pid, After: e.last - annals.SeqNr(len(e.events)), Events: e.events}}
	e.events, e.bytes = reuse, 0
	if w.Empty {
		return nil
	}
	w.Commit.WriteID = annals.NewWriteID()
	if e.m.caps.Limits.FirstSnapshot && w.Commit.After == 0 {
		s, err := e.take()
		w.Commit.Snapshot = s
		return err
	}
	every := annals.SeqNr(e.m.b.SnapshotEvery)
	if !snapshot || every == 0 || e.last-e.snapshot < every {
		return nil
	}
	if e.m.b.EvolveStored != nil {
		w.snapshot = true // the state after the events is not known yet
	} else {
		w.Snapshot = e.due()
	}
	return nil
}

// due is a snapshot of the state now, or nil when it cannot be encoded: no command is to blame for that.
func (e *sourced[C, E, S, R]) due() *NewSnapshot {
	before := e.snapshot
	s, err := e.take()
	if err != nil {
		e.m.c.Logger.LogAttrs(context.Background(), slog.LevelError, "annals: no snapshot taken", slog.Any("error", err))
		return nil
	}
	return &NewSnapshot{*s, before}
}

// take encodes the state now: the next command may change it in place.
func (e *sourced[C, E, S, R]) take() (s *annals.Snapshot, err error) {
	e.snapshot = e.last // also when it fails: the next try is SnapshotEvery events later
	err = e.m.c.contain("encode snapshot", e.pid, func() error {
		p, err := e.m.b.States.Encode(e.state)
		if err != nil {
			return &annals.Error{Op: "encode snapshot", ID: e.pid, Last: e.last, Kind: kindOf(err, annals.ErrInvalid), Err: err}
		}
		s = &annals.Snapshot{ID: e.pid, SeqNr: e.last, Payload: p}
		return nil
	})
	return s, err
}

// Rest keeps the memory of the few events that a single command decides, so that one command at a time allocates none.
func (e *sourced[C, E, S, R]) Rest() {
	if cap(e.events) > 2 {
		e.events = nil
	}
}

// drop discards what is decided and not sealed.
func (e *sourced[C, E, S, R]) drop() {
	clear(e.events)
	e.events, e.bytes = e.events[:0], 0
}

func first[S any](init func(id string) S, id string) (s S) {
	if init != nil {
		s = init(id)
	}
	return s
}
