package projection

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

const maxErrorText = 256 // bytes of ParkedEntity.Error

// ParkedEntity is an entity with an event that the handler could not handle (a dead letter). That event and the later ones of the entity
// wait in the journal, while the projection handles the events of other entities.
type ParkedEntity struct {
	ID   annals.PersistenceID `json:"id"`
	From annals.SeqNr         `json:"from"` // the event that failed, and the first that waits
	Time time.Time            `json:"time"` // when that event was stored
	// Kind is the kind of the handler's error, as "constraint" for annals.ErrConstraint; "" when the error is of none.
	Kind string `json:"kind,omitempty"`
	// Error is what Options.ErrorText made of the handler's error; without that option it is the Go type of the error, because the text of an
	// error may contain a payload.
	Error string    `json:"error"`
	Since time.Time `json:"since"` // when the entity was parked, by the clock of the runner
	Tries int       `json:"tries"` // how many retries have failed since
	// Retry says that a retry has been ordered and that no runner has carried it out yet.
	Retry bool `json:"retry,omitempty"`
	// DiscardTo is the last number that the retry leaves out, by Control.Discard; 0 leaves out none.
	DiscardTo annals.SeqNr `json:"discardTo,omitempty"`
	// LateTo says that the events From ≤ n ≤ LateTo have become visible after the projection had passed their time, and are about to be handled:
	// no handler has failed yet. When one does, Options.OnError decides. 0: the entity is parked.
	LateTo annals.SeqNr `json:"lateTo,omitempty"`
}

func (x ParkedEntity) offset() annals.Offset {
	return annals.Offset{Time: x.Time, ID: x.ID, SeqNr: x.From}
}

// failed is x after its event e failed with err.
func (x ParkedEntity) failed(e annals.Event, err error, text func(error) string) ParkedEntity {
	x.ID, x.From, x.Time = e.ID, e.SeqNr, e.Time
	x.Kind, x.Error = kindOf(err), textOf(err, text)
	x.Retry, x.DiscardTo, x.LateTo = false, 0, 0
	return x
}

// kinds are all kinds of errors of package annals.
var kinds = []error{
	annals.ErrInvalid, annals.ErrConflict, annals.ErrConstraint, annals.ErrUnknown, annals.ErrUnavailable, annals.ErrUnsupported,
	annals.ErrTruncated, annals.ErrTooLarge, annals.ErrCorrupt, annals.ErrFenced, annals.ErrPanic, annals.ErrClosed,
	annals.ErrOverloaded,
}

func kindOf(err error) string {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	return ""
}

// typeOf is the Go type of the innermost cause of err: the errors around it say where it happened, not what.
func typeOf(err error) string {
	for {
		cause := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok && len(joined.Unwrap()) > 0 {
			cause = joined.Unwrap()[0]
		}
		if cause == nil {
			return fmt.Sprintf("%T", err)
		}
		err = cause
	}
}

// textOf returns what text, the user's, makes of err.
func textOf(err error, text func(error) string) string {
	var s string
	if panics.Contain("make the text of an error", "", func() error { s = text(err); return nil }) != nil {
		s = typeOf(err)
	}
	return strings.ToValidUTF8(s[:min(len(s), maxErrorText)], "")
}
