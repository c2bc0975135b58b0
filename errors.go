package annals

import (
	"errors"
	"fmt"
	"strings"

	"github.com/annals-go/annals/internal/quote"
)

// Kinds of errors, matched with errors.Is. Every error of a store or host is an *Error of one of these kinds; an *Error
// without a Kind carries the error of the caller's own function (a change handler, InTx's fn): everything was rolled back.
var (
	ErrInvalid     = errors.New("invalid")         // the request is wrong; nothing was written
	ErrConflict    = errors.New("conflict")        // another writer wrote first; this call wrote nothing
	ErrConstraint  = errors.New("constraint")      // the user's own column, table or item refused it; nothing was written
	ErrUnknown     = errors.New("outcome unknown") // it may have been written: retry with the same WriteID
	ErrUnavailable = errors.New("unavailable")     // nothing was written; a later try may work
	ErrUnsupported = errors.New("not supported")   // refused before anything was written
	ErrTruncated   = errors.New("truncated")       // what was being read was deleted at the same time: read again
	ErrTooLarge    = errors.New("too large")       // refused before anything was written
	ErrCorrupt     = errors.New("corrupt")         // what is stored is wrong: a missing number, a record that cannot be read
	ErrFenced      = errors.New("fenced")          // another worker has taken over
	ErrPanic       = errors.New("panic")           // domain code panicked; the command did nothing
	ErrClosed      = errors.New("closed")          // the store or runtime has been closed; nothing was written
	ErrOverloaded  = errors.New("overloaded")      // too many commands wait in the runtime; this one did nothing: try again later
)

// Error names the operation that failed, its entity and its numbers. errors.Is finds Kind and the driver's error.
// An Error never carries payloads.
type Error struct {
	Op    string        // "append", "put state", …
	ID    PersistenceID // "" where the operation is not about one entity
	After SeqNr         // what a conflicting write expected
	Last  SeqNr         // what the store has, 0 = not known or nothing
	Kind  error         // one of the kinds above
	Err   error         // the driver's error, or what is wrong; may be nil
}

// maxText is how much of a cause Error shows.
const maxText = 4 << 10

// Error is "annals: operation "id": kind: cause", with the numbers of a conflict. A long id or cause is cut.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("annals: " + e.Op)
	if e.ID != "" {
		b.WriteString(" " + quote.Text(string(e.ID)))
	}
	if e.Kind == ErrConflict {
		fmt.Fprintf(&b, " after %d", e.After)
		if e.Last != 0 {
			fmt.Fprintf(&b, " (last is %d)", e.Last)
		}
	}
	if e.Kind != nil {
		b.WriteString(": " + e.Kind.Error())
	}
	if e.Err != nil {
		text := e.Err.Error()
		b.WriteString(": " + quote.Cut(text, maxText))
		if len(text) > maxText {
			fmt.Fprintf(&b, "… (%d bytes)", len(text))
		}
	}
	return b.String()
}

// Is reports whether target is e's Kind.
func (e *Error) Is(target error) bool { return target == e.Kind }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// SafeToRetry reports whether the caller may send the same write again, with the same WriteID.
func SafeToRetry(err error) bool {
	return errors.Is(err, ErrUnknown) || errors.Is(err, ErrUnavailable)
}
