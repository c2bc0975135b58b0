package process

import (
	"context"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/keys"
)

// StoredStep is a step as the journal of an instance has it, for programs that show what an event has caused. ReadStep returns it.
type StoredStep struct {
	// What was handled: an event with Entity and SeqNr, or the answer to a command with the id Answer, or the timer of the name Timer.
	Entity annals.PersistenceID
	SeqNr  annals.SeqNr
	Answer string
	Timer  string

	Waits  bool         // it could not be handled, and waits
	Waited annals.SeqNr // the number of the step with which it began to wait; 0: it did not wait
	Noted  int          // nothing was handled, but so many commands were noted as executed; 0: something was handled

	Commands []StoredCommand
	Timers   []Timer // that were set
}

// StoredCommand is a command of a StoredStep.
type StoredCommand struct {
	ID                string // the key with which it is sent
	Target, Recipient string
	Value             annals.Payload // as the codec of the Target has encoded it
}

// ReadStep returns the step in e, which may be any event of any entity; false when e is no step, or one that cannot be decoded.
func ReadStep(e annals.Event) (StoredStep, bool) {
	s, err := stepsOnly{}.Decode(e.Payload)
	if err != nil || s == nil {
		return StoredStep{}, false
	}
	stored := StoredStep{Entity: s.Cause.Entity, SeqNr: s.Cause.SeqNr, Timer: s.Cause.Timer, Waits: s.Waits != nil, Waited: s.Cause.Waited, Noted: len(s.Sent)}
	if s.Cause.Answer != "" {
		stored.Answer = string(e.ID) + "/" + s.Cause.Answer
	}
	for i, c := range s.Commands {
		stored.Commands = append(stored.Commands, StoredCommand{commandID(e.ID, e.SeqNr, i), c.Target, c.Recipient, c.Value.payload()})
	}
	for _, t := range s.Timers {
		stored.Timers = append(stored.Timers, Timer{t.Name, time.UnixMicro(t.Due).UTC()})
	}
	return stored, true
}

// Executed returns the numbers of the events with which entity has executed c, when c was given to AskOnce of an aggregate.Repository and entity
// still knows its key; 0 and 0 when it does not, or has stored no event. store is that of the entity; ErrUnsupported when it has no durable states.
func (c StoredCommand) Executed(ctx context.Context, store annals.Store, entity annals.PersistenceID) (first, last annals.SeqNr, err error) {
	list, _, err := keys.Of(entity).Load(ctx, store)
	if err != nil {
		return 0, 0, err
	}
	if x, found := list.Find(c.ID); found && x.Events > 0 {
		return x.SeqNr - annals.SeqNr(x.Events) + 1, x.SeqNr, nil
	}
	return 0, 0, nil
}

// commandID is the id of a command of a step of an instance: the first of the step has place 0.
func commandID(instance annals.PersistenceID, step annals.SeqNr, place int) string {
	return fmt.Sprintf("%s/%s", instance, number(step, place))
}
