package entity

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/host"
	"github.com/annals-go/annals/internal/panics"
)

// Options configure a Runtime. The zero Options suit most programs.
type Options struct {
	MaxEntities int           // in memory at once; 0: 100,000. When all are busy, commands to other entities wait
	IdleAfter   time.Duration // drop an entity from memory that has had no commands for this time; 0: 2 minutes

	// MaxPending is how many commands may wait for an answer, of all entities together; 0: 100,000. Further ones are refused at once with
	// ErrOverloaded. A waiting command needs about 3 KiB of memory, most of it the stack of its caller.
	MaxPending int

	MaxBatch        int           // commands in one write; 0: 256, 1: each command is a write of its own
	WriteTimeout    time.Duration // of one write with all its tries, or up to an eighth less; independent of the callers' contexts; 0: 10 s
	RecoveryTimeout time.Duration // of reading an entity from the store; 0: 1 minute
	ConflictTimeout time.Duration // from the first conflict of a command with other owners until it is ErrConflict; 0: 30 s

	// SingleOwner declares that only this Runtime writes to its entities. Then a rejection, a View, or the reply to a command that
	// writes nothing, is answered from memory. Without SingleOwner such an answer is given only after the store has confirmed that no
	// other owner had written when the command was sent. That takes one read for a batch, and none for a batch that writes. With
	// DeleteEvents it also accepts a store that does not claim Capabilities.FenceAfterDelete: there, a second owner loses commands that
	// were answered.
	SingleOwner bool

	KeepSnapshots int  // the newest so many; 0: 1. Some stores keep only one: Capabilities.ManySnapshots
	DeleteEvents  bool // delete the events that the oldest kept snapshot covers, once it has been read back from the store; see SingleOwner

	// Projections are the names of projections in the store's OffsetStore: DeleteEvents deletes no event that one of them has
	// not handled. A projection that has never run, or was stopped, prevents the deletes of all entities.
	Projections []string

	// Metadata is added to what a command writes, its events or its state. The function encodes it from the context of the command's caller; the
	// behavior's Metadata decodes it with the same codec. nil, and a zero Payload: none. An error refuses the command, as ErrInvalid
	// or, if it is that, ErrUnavailable. A state that several commands of a batch wrote has the metadata of the last of them.
	Metadata func(ctx context.Context) (annals.Payload, error)

	// MayDrop accepts a store that drops what it does not claim: the tags of the behavior (Capabilities.Tags), Metadata and the times that
	// EvolveStored gets (Times, Metadata, StateMetadata). Without it New and NewState refuse the store with ErrUnsupported.
	MayDrop bool

	// Observer is told once of each operation of the Runtime: "ask" is a command, from its call to its answer, with the error that the caller gets;
	// "load" reads an entity, "write" writes what the commands of a batch
	// decided, with all tries, "confirm" asks the store whether another owner has written, "snapshot" saves a snapshot and deletes what it makes
	// superfluous. Call.Store is "entity". The operations of stores have other names, so a store and its hosts can share an Observer.
	// Result.Requests is 0: the store counts those. The context of an operation has the values of the caller's, or, where several
	// callers share the operation, annals.Callers has their contexts; the store gets the same. May be nil.
	Observer annals.Observer

	Logger *slog.Logger // for failed snapshots and stacks of panics; nil: slog.Default()
}

// config sets the defaults of o and returns what package host needs to know of o.
func (o *Options) config() host.Config {
	faults := errors.Join(
		host.Default("MaxEntities", &o.MaxEntities, 100_000),
		host.Default("IdleAfter", &o.IdleAfter, 2*time.Minute),
		host.Default("MaxPending", &o.MaxPending, 100_000),
		host.Default("MaxBatch", &o.MaxBatch, 256),
		host.Default("WriteTimeout", &o.WriteTimeout, 10*time.Second),
		host.Default("RecoveryTimeout", &o.RecoveryTimeout, time.Minute),
		host.Default("ConflictTimeout", &o.ConflictTimeout, 30*time.Second),
		host.Default("KeepSnapshots", &o.KeepSnapshots, 1))
	return host.Config{Host: "entity", Faults: faults, WriteTimeout: o.WriteTimeout, KeepSnapshots: o.KeepSnapshots, DeleteEvents: o.DeleteEvents,
		SingleOwner: o.SingleOwner, MayDrop: o.MayDrop, Projections: o.Projections, Metadata: o.Metadata,
		Observer: panics.Observer(o.Observer), Logger: panics.Logger(o.Logger)}
}
