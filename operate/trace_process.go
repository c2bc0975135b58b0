package operate

import (
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/process"
)

// stepOf is the step of a process in e; nil when it is none.
func stepOf(e annals.Event) *process.StoredStep {
	if s, ok := process.ReadStep(e); ok {
		return &s
	}
	return nil
}

// causesOf are the names of what caused a step of the instance id.
func causesOf(s *process.StoredStep, id annals.PersistenceID) (all []string) {
	if s.Waited > 0 {
		all = append(all, nameOf(id, s.Waited))
	}
	switch {
	case s.Answer != "":
		all = append(all, s.Answer)
	case s.Timer != "":
		all = append(all, timerName(id, s.Timer))
	case s.Entity != "":
		all = append(all, nameOf(s.Entity, s.SeqNr))
	}
	return all
}

// handledBy says which input s handles.
func handledBy(s *process.StoredStep) (text string) {
	switch {
	case s.Noted > 0:
		return "no input, and notes as executed: " + count(s.Noted, "command")
	case s.Timer != "":
		text = "timer " + s.Timer
	case s.Answer != "":
		text = "the answer to command " + s.Answer
	default:
		text = fmt.Sprintf("event %d of %s", s.SeqNr, s.Entity)
	}
	if s.Waited > 0 {
		text += fmt.Sprintf(", which had waited since number %d", s.Waited)
	}
	if s.Waits {
		text += ", which waits"
	}
	return text
}

// timerName is the name of a timer as a cause.
func timerName(id annals.PersistenceID, timer string) string { return string(id) + "\x00" + timer }

// addStep adds the commands and timers of a step below its node.
func (t *tracing) addStep(e annals.Event, n *traceNode, s *process.StoredStep) error {
	for _, timer := range s.Timers {
		t.put(&traceNode{What: "timer", Timer: &timerView{timer.Name, at(timer.Due)}}, n, timerName(e.ID, timer.Name))
	}
	for _, c := range s.Commands {
		node := &traceNode{What: "command", Command: &commandView{c.ID, c.Target, c.Recipient, t.show(c.Value, nil)}}
		t.put(node, n, c.ID)
		if err := t.executed(node, c); err != nil {
			return err
		}
	}
	return nil
}

// executed finds the events of a command that was given to AskOnce of an aggregate.Repository.
func (t *tracing) executed(node *traceNode, c process.StoredCommand) error {
	if !t.store.Capabilities().States {
		return nil
	}
	for _, entity := range t.Entities {
		id := pidOf(entity, c.Recipient)
		if id == "" {
			continue
		}
		first, last, err := c.Executed(t.ctx, t.store, id)
		if err != nil && !errors.Is(err, annals.ErrInvalid) && !errors.Is(err, annals.ErrCorrupt) { // the recipient may be an id of something else
			return err
		}
		for n := max(first, last-mostEvents+1, 1); n <= last; n++ {
			if name := nameOf(id, n); t.nodes[name] == nil {
				t.nodes[name] = node
			}
		}
	}
	return nil
}

// pidOf is the id in the store of the program's id, "" when the program's function panics.
func pidOf(e Entity, id string) (pid annals.PersistenceID) {
	defer func() {
		if recover() != nil {
			pid = ""
		}
	}()
	return e.pid(id)
}
