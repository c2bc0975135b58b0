package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/claims"
)

// Durable is the Model of a durable-state behavior.
type Durable[C, S, R any] struct {
	states annals.StateStore
	b      behavior.DurableState[C, S, R]
	c      Config
	caps   annals.Capabilities
}

// NewDurable is NewSourced for a durable-state behavior.
func NewDurable[C, S, R any](store annals.Store, b behavior.DurableState[C, S, R], c Config) (o Observed[C, S, R], err error) {
	if err := refuseDurable(store, b, c); err != nil {
		return o, err
	}
	if b.States == nil {
		b.States = codec.JSON[S](b.Type)
	}
	m := &Durable[C, S, R]{states: store.States(), b: b, c: c, caps: store.Capabilities()}
	return Observed[C, S, R]{m, b.ID, partsOf(store), c, m.caps.Limits, m.caps.IdempotentState, new(atomic.Int64)}, nil
}

// Last implements Model.
func (m *Durable[C, S, R]) Last(ctx context.Context, pid annals.PersistenceID) (annals.SeqNr, error) {
	s, _, err := m.states.Get(ctx, pid)
	return s.Revision, err
}

// SaveSnapshot implements Model. A durable state has no snapshots.
func (m *Durable[C, S, R]) SaveSnapshot(context.Context, NewSnapshot) error { return nil }

// New implements Model.
func (m *Durable[C, S, R]) New(id string, pid annals.PersistenceID) Entity[C, S, R] {
	return &durable[C, S, R]{m: m, id: id, pid: pid}
}

type durable[C, S, R any] struct {
	m     *Durable[C, S, R]
	id    string
	pid   annals.PersistenceID
	state S
	last  annals.SeqNr // revision of the newest sealed write

	dirty, deleted bool           // what was decided since the last Seal
	metadata       annals.Payload // of the newest command that decided it
}

// LoadAt implements Entity.
func (e *durable[C, S, R]) LoadAt(context.Context, Past) (annals.Result, error) {
	return annals.Result{}, &annals.Error{Op: "load", ID: e.pid, Kind: annals.ErrUnsupported, Err: errors.New("a durable state has no past")}
}

func (e *durable[C, S, R]) View(fn func(s S, number annals.SeqNr) error) error {
	return e.m.c.guard("view", e.pid, func() error { return fn(e.state, e.SeqNr()) })
}

func (e *durable[C, S, R]) SeqNr() annals.SeqNr {
	if e.dirty {
		return e.last + 1
	}
	return e.last
}

func (e *durable[C, S, R]) Final() bool { return !e.dirty }

func (e *durable[C, S, R]) Rest() {}

func (e *durable[C, S, R]) Load(ctx context.Context) (r annals.Result, err error) {
	var zero S
	e.state, e.last, e.dirty, e.metadata = zero, 0, false, annals.Payload{}
	stored, ok, err := e.m.states.Get(ctx, e.pid)
	if err != nil {
		return r, loadFailed(e.pid, err)
	}
	r.Bytes = len(stored.Data) + len(stored.Metadata.Data)
	return r, e.m.c.guard("recover", e.pid, func() error {
		if e.last = stored.Revision; !ok {
			e.state = first(e.m.b.Init, e.id)
			return nil
		}
		var metadata any
		if e.state, err = e.m.b.States.Decode(stored.Payload); err == nil {
			metadata, err = decodeMetadata(e.m.b.Metadata, stored.Metadata)
		}
		if err != nil {
			return &annals.Error{Op: "recover", ID: e.pid, Last: stored.Revision, Kind: kindOf(err, annals.ErrCorrupt), Err: fmt.Errorf("revision %d: %w", stored.Revision, err)}
		}
		if e.m.b.Restore != nil {
			e.state = e.m.b.Restore(e.id, e.state)
		}
		if e.m.b.Stored != nil {
			e.state = e.m.b.Stored(e.state, newInfo(stored.Revision, stored.Time, metadata))
		}
		return nil
	})
}

func (e *durable[C, S, R]) Decide(ctx context.Context, c C, at annals.SeqNr) (d Decision[R]) {
	before := *e // Decide must not change the state, so a panic after the decision can be undone
	err := e.m.c.guard("decide", e.pid, func() error { d = e.decide(ctx, c, at); return nil })
	if err != nil {
		*e, d = before, Decision[R]{Err: err}
	}
	return d
}

func (e *durable[C, S, R]) decide(ctx context.Context, c C, at annals.SeqNr) (d Decision[R]) {
	effect, err := e.m.b.Decide(e.state, c)
	next, save, del := effect.Outcome()
	if save || del || err != nil {
		if missed := misses(e.pid, at, e.last); missed != nil {
			return Decision[R]{Err: missed}
		}
	}
	if err != nil {
		return Decision[R]{Err: err}
	}
	if del {
		if err := claims.DeletedState.Missing(e.m.caps); err != nil {
			return Decision[R]{Err: &annals.Error{Op: "decide", ID: e.pid, Kind: annals.ErrUnsupported, Err: err}}
		}
	}
	if save || del {
		metadata, known, err := e.m.c.metadata(ctx, e.m.b.Metadata, e.m.caps.StateMetadata)
		if err != nil {
			return Decision[R]{Err: &annals.Error{Op: "decide", ID: e.pid, Kind: kindOf(err, annals.ErrInvalid), Err: err}}
		}
		if del {
			next = first(e.m.b.Init, e.id)
		}
		d.Wrote, e.state, e.dirty, e.deleted, e.metadata = true, next, true, del, metadata
		if e.m.b.Stored != nil {
			d.Finish = e.finish(c, known)
			return d
		}
	}
	if e.m.b.Reply != nil {
		d.Reply = e.m.b.Reply(e.state, c)
	}
	return d
}

// Seal encodes the state that the last of the commands left. When that fails, the host finds out which command caused it.
func (e *durable[C, S, R]) Seal(w *Write, _ bool) error {
	*w = Write{Empty: !e.dirty, Delete: e.deleted, State: annals.StateWrite{ID: e.pid, After: e.last, Metadata: e.metadata}}
	e.metadata = annals.Payload{}
	if w.Empty {
		return nil
	}
	w.State.WriteID = annals.NewWriteID()
	e.dirty = false
	e.last++
	if w.Delete {
		return nil
	}
	return e.m.c.guard("encode state", e.pid, func() (err error) {
		if w.State.Payload, err = e.m.b.States.Encode(e.state); err != nil {
			return &annals.Error{Op: "encode state", ID: e.pid, Kind: kindOf(err, annals.ErrInvalid), Err: err}
		}
		if e.m.b.Tags != nil {
			w.State.Tags = e.m.b.Tags(e.state)
		}
		return nil
	})
}
