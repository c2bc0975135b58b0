package writes

import (
	"errors"
	"fmt"

	"github.com/annals-go/annals"
)

// EventMisfit is the error of a state write with an event, after the revision after, when the journal ends at another number: last.
func EventMisfit(after, last annals.SeqNr) error {
	return &annals.Error{Kind: annals.ErrInvalid,
		Err: fmt.Errorf("the write carries event %d, but the journal's last number is %d: every write of the entity must carry one", after+1, last)}
}

// Undeleted is the error of Forget for an entity that has events, a snapshot or a state; nil when it has none of them. last is its last
// number.
func Undeleted(last annals.SeqNr, events, snapshot, state bool) error {
	var left string
	switch {
	case events:
		left = "there are events"
	case snapshot:
		left = "there is a snapshot"
	case state:
		left = "there is a state"
	default:
		return nil
	}
	return &annals.Error{Last: last, Kind: annals.ErrConflict, Err: errors.New(left)}
}
