// Package host is what the two hosts of behaviors have in common. Package entity keeps entities in memory, package aggregate does not;
// both load, decide, write and save snapshots in the same way. Sourced runs event-sourced behaviors, Durable those with durable states.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/valid"
)

// Model is one behavior with one store. It is safe for concurrent use.
type Model[C, S, R any] interface {
	// New is the entity named id, not loaded.
	New(id string, pid annals.PersistenceID) Entity[C, S, R]
	// Last is the number of the entity's newest event or revision in the store.
	Last(ctx context.Context, pid annals.PersistenceID) (annals.SeqNr, error)
	// SaveSnapshot saves s, whose events are stored, and then deletes what s makes superfluous.
	SaveSnapshot(ctx context.Context, s NewSnapshot) error
}

// Entity is one entity in memory: its stored state with what has been decided since. One goroutine at a time may use it.
type Entity[C, S, R any] interface {
	// Load reads the entity from the store and replaces everything that e held. After an error it must be loaded again. The Result
	// has the events and bytes that were read and the tries beyond the first.
	Load(ctx context.Context) (annals.Result, error)
	// LoadAt is Load for the state at p, of which nothing may be decided. ErrTruncated when events are deleted that it needs, ErrInvalid when the
	// number is above the last one, ErrUnsupported where the past is not kept.
	LoadAt(ctx context.Context, p Past) (annals.Result, error)
	// Reply loads the entity at the number n and returns the reply to c, whose events are the last of those up to n. Nothing may be decided then.
	// ErrTruncated when events are deleted that it needs. Of a durable state it is the reply on the newest state.
	Reply(ctx context.Context, c C, n annals.SeqNr, events int) (R, annals.Result, error)
	// Decide runs c on the newest decided state. When at is not AnyNumber and not the number of that state, only a c that decides nothing,
	// such as a repetition that the behavior recognises by its key, gets its reply; any other is ErrConflict. Then Final must be true.
	Decide(ctx context.Context, c C, at annals.SeqNr) Decision[R]
	// Seal moves what has been decided since the last Seal into w, whose memory it reuses. It adds a snapshot of the state when snapshot
	// is true and one is due. After an error the entity must be loaded again.
	Seal(w *Write, snapshot bool) error
	// View calls fn with the newest decided state and its number. fn must not change the state. A panic in fn is an error.
	View(fn func(s S, number annals.SeqNr) error) error
	// SeqNr is the number of the newest decided state: that of its last event, or its revision.
	SeqNr() annals.SeqNr
	// Final reports whether SeqNr stays the number of this state alone. It is false while a durable state has changed since the last
	// Seal: further commands can change it under the same revision.
	Final() bool
	// Rest frees the memory that is needed only while commands are decided. Everything decided must be sealed.
	Rest()
}

// Decision is what became of a command.
type Decision[R any] struct {
	Reply  R
	Err    error // the rejection of Decide, unchanged, or an *annals.Error about this command alone
	Wrote  bool  // the command changed something, which the next Seal contains
	Full   bool  // nothing was done: what is already decided must be sealed first
	Broken bool  // Err is set and the state is no longer valid: the entity must be loaded again

	// Finish is set when state and reply depend on what the store says of the write. Then no further command may be decided before the
	// write has been acknowledged and Finish has been called, once, and has returned the reply. After an error of it, which is
	// ErrUnknown because the write is stored, the entity must be loaded again.
	Finish func(ctx context.Context, w *Write, r annals.Receipt) (R, error)
}

// Write is what one or more commands decided, ready to be sent any number of times.
type Write struct {
	Empty  bool
	Commit annals.Commit     // of an event-sourced entity
	State  annals.StateWrite // of a durable state
	Delete bool              // State is a delete

	Began    time.Time    // of the call of Observed.Write or Confirm; zero: they look at the clock
	snapshot bool         // a snapshot is due, which Decision.Finish takes
	Snapshot *NewSnapshot // to be saved once the write is acknowledged, may be nil
}

// NewSnapshot is a snapshot that is due.
type NewSnapshot struct {
	annals.Snapshot
	Before annals.SeqNr // number of the previous snapshot; 0: there is none
}

// ID is the entity that w writes to.
func (w *Write) ID() annals.PersistenceID {
	if w.State.ID != "" {
		return w.State.ID
	}
	return w.Commit.ID
}

// After is the number that the entity must have for w to be stored; for an empty w, the number of the state that its commands saw.
func (w *Write) After() annals.SeqNr { return max(w.Commit.After, w.State.After) }

// Op is w's operation as in annals.Error.
func (w *Write) Op() string {
	switch {
	case w.State.ID == "":
		return "append"
	case w.Delete:
		return "delete state"
	}
	return "put state"
}

// AnyNumber is the at of a command that is executed whatever the entity's number is.
const AnyNumber annals.SeqNr = -1

// OpAsk is the operation of a command as in annals.Error.
const OpAsk = "ask"

// misses is the error of a command that demands the number at of an entity that is at last; nil when they are the same.
func misses(pid annals.PersistenceID, at, last annals.SeqNr) error {
	if at == AnyNumber || at == last {
		return nil
	}
	return &annals.Error{Op: OpAsk, ID: pid, After: at, Last: last, Kind: annals.ErrConflict}
}

// CheckNumber is ErrInvalid when no entity can be at the number at, which the caller of a DoAt gave.
func (o *Observed[C, S, R]) CheckNumber(id string, at annals.SeqNr) error {
	if at >= 0 {
		return nil
	}
	pid, _ := o.Identify(OpAsk, id)
	return &annals.Error{Op: OpAsk, ID: pid, Kind: annals.ErrInvalid, Err: fmt.Errorf("the number is %d", at)}
}

// Identify is the persistence id of the entity named id. The error is ErrInvalid when the id is, ErrPanic when domain code panicked.
func (o *Observed[C, S, R]) Identify(op, id string) (annals.PersistenceID, error) {
	switch pid, err := o.name(op, id); {
	case err != nil:
		return "", err
	case id == "":
		return pid, &annals.Error{Op: op, ID: pid, Kind: annals.ErrInvalid, Err: errors.New("the entity id is empty")}
	default:
		return pid, valid.ID(op, pid, o.limits)
	}
}

// name is Identify without a check of the id.
func (o *Observed[C, S, R]) name(op, id string) (pid annals.PersistenceID, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panics.Error(op, "", p)
		}
	}()
	return o.ID(id), nil
}

// Config is what a host says of itself and the options that the hosts have in common. Metadata, Projections and Observer may be nil. Observer
// and Logger must not panic: see package panics.
type Config struct {
	Host          string        // "entity" or "aggregate"
	Faults        error         // of all options, from Default
	WriteTimeout  time.Duration // of saving a snapshot
	KeepSnapshots int
	DeleteEvents  bool
	SingleOwner   bool     // nobody else writes to the entities
	MayDrop       bool     // the store may drop tags, metadata and times
	Projections   []string // have handled an event before it is deleted
	Metadata      func(ctx context.Context) (annals.Payload, error)
	Observer      annals.Observer
	Logger        *slog.Logger
}
