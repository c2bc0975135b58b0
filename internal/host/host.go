// Package host is what the hosts of behaviors share: package entity keeps entities in memory, package aggregate does
// not, but both load, decide, write and keep snapshots in the same way. Sourced and Durable are the two strategies.
package host

import (
	"context"
	"errors"
	"log/slog"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// Model is one behavior on one store. It is safe for concurrent use.
type Model[C, S, R any] interface {
	// ID is the persistence id of the entity named id, not checked.
	ID(id string) annals.PersistenceID
	// New is the entity named id, not loaded.
	New(id string, pid annals.PersistenceID) Entity[C, S, R]
	// Send tries once to write w.
	Send(ctx context.Context, w *Write) (annals.Receipt, error)
	// Last is the number of the entity's newest event or revision in the store.
	Last(ctx context.Context, pid annals.PersistenceID) (annals.SeqNr, error)
	// SaveSnapshot saves s, which an acknowledged write has made true, then deletes what it makes superfluous.
	SaveSnapshot(ctx context.Context, s NewSnapshot) error
	// Repeatable reports whether the store recognises a write that it has seen before.
	Repeatable() bool
}

// Entity is one entity in memory: what is stored and what has been decided on top of it. It belongs to one goroutine
// at a time.
type Entity[C, S, R any] interface {
	// Load reads the entity from the store in place of everything that was there. After an error it must be loaded again. The Result
	// has the events and bytes that were read and the tries beyond the first.
	Load(ctx context.Context) (annals.Result, error)
	// Decide runs c against the newest decided state.
	Decide(ctx context.Context, c C) Decision[R]
	// Seal moves what has been decided since the last Seal into w, whose memory it reuses; with a snapshot behind it
	// when one is due and wanted. After an error the entity must be loaded again.
	Seal(w *Write, snapshot bool) error
	// View calls fn with the newest decided state and its number. fn must not change the state. A panic in fn is an error.
	View(fn func(s S, number annals.SeqNr) error) error
	// SeqNr is the number of the newest decided state: that of its last event, or its revision.
	SeqNr() annals.SeqNr
	// Final reports whether SeqNr stays the number of this state alone. It is false while a durable state has changed since the last
	// Seal: further commands can change it under the same revision.
	Final() bool
}

// Decision is what became of a command.
type Decision[R any] struct {
	Reply  R
	Err    error // the domain's rejection, unchanged, or an *annals.Error about this command alone
	Wrote  bool  // the next Seal holds something of this command
	Full   bool  // did nothing: what is decided must be sealed first
	Broken bool  // Err, and the state is no longer sound: load again

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

	snapshot bool         // a snapshot is due, which Decision.Finish takes
	Snapshot *NewSnapshot // to be saved once the write is acknowledged, may be nil
}

// NewSnapshot is a snapshot that is due.
type NewSnapshot struct {
	annals.Snapshot
	Before annals.SeqNr // number of the one before it; 0: there is none
}

// ID is the entity that w writes to.
func (w *Write) ID() annals.PersistenceID {
	if w.State.ID != "" {
		return w.State.ID
	}
	return w.Commit.ID
}

// After is the number that w expects, and for an empty w the number of the state that its commands saw.
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

// Identify is the persistence id of the entity named id, or what is wrong with it.
func Identify[C, S, R any](m Model[C, S, R], op, id string, l annals.Limits) (pid annals.PersistenceID, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panics.Error(op, "", p)
		}
	}()
	pid = m.ID(id)
	if id == "" {
		return pid, &annals.Error{Op: op, ID: pid, Kind: annals.ErrInvalid, Err: errors.New("the entity id is empty")}
	}
	return pid, pid.ValidateRead(op, l)
}

// Config is what both strategies need beside behavior and store. All fields are required but Metadata. Logger does not panic:
// see panics.Logger.
type Config struct {
	KeepSnapshots int
	DeleteEvents  bool
	Projections   []string // have handled an event before it is deleted
	Metadata      func(ctx context.Context) annals.Payload
	Logger        *slog.Logger
}
