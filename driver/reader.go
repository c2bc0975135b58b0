package driver

import (
	"context"
	"iter"

	"github.com/annals-go/annals"
)

// A Reader reads the journal of one entity, for one replay or recovery. It says what is stored; Replay and RecoverFrom decide what
// that means: which events are handed over, and when the read is ErrTruncated or ErrCorrupt. Its methods are not called concurrently.
//
// Numbers are deleted from the first one on: when a number is deleted, all numbers before it are.
type Reader interface {
	// Begin reads the newest snapshot, for a recovery. sure says that a snapshot must not be missed that was saved before the call and is
	// replaced by a newer one during the call. Without sure, Begin may look once.
	Begin(ctx context.Context, sure bool) (Beginning, error)
	// Rows yields what is stored of the numbers from … to, in their order: every event that was acknowledged before the call and is not
	// deleted by then. Several requests may each see another moment. What is written or deleted meanwhile may be missing, also in the
	// middle. But the end must be right: unless one request has read everything, the last Part has the Last and the Deleted of a moment
	// after all rows were read, or rows that show them.
	Rows(ctx context.Context, from, to annals.SeqNr) iter.Seq2[Part, error]
	// Gap looks again at the numbers from … to, for which Rows had no event: strongly consistent, and at one moment. A Part without
	// anything about number from says that its event is lost.
	Gap(ctx context.Context, from, to annals.SeqNr) (Part, error)
}

// Beginning is what a recovery begins with.
type Beginning struct {
	Snapshot annals.Snapshot
	Found    bool
	// Settled says that no snapshot replaces the numbers up to this one that are deleted and not in Snapshot: none was saved before they
	// were deleted. Zero: not known.
	Settled annals.SeqNr
	// AtOnce says that Snapshot and the first Part of Rows were read at one moment. So no snapshot replaces what is missing in front of the first
	// event of that Part: it had been deleted by then.
	AtOnce bool
	// Rows yields the numbers after Snapshot, as Reader.Rows does. nil: call Reader.Rows.
	Rows iter.Seq2[Part, error]
}

// Part is a part of what a Reader has read. The zero Part says nothing.
type Part struct {
	// Deleted is the number up to which events are deleted; zero where the Part does not tell. Events with lower numbers are left out.
	Deleted annals.SeqNr
	// Events are in the order of their numbers. They may be changed when the next Part is read.
	Events []annals.Event
	// Unused is for Gap: the numbers up to this one that have no event here never had one, as far as can be told. Another system left them
	// unused, or deleted them alone. Proven says that a mark proves it.
	Unused annals.SeqNr
	Proven bool
	// Last is the entity's last number; zero where the Part does not tell. Numbers up to Last that have no row are a gap.
	Last annals.SeqNr
}
