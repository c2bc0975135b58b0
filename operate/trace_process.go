package operate

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// processStep is the stored form of a step of package process.
type processStep struct {
	Cause    processCause `json:"cause"`
	Commands []struct {
		Target    string `json:"target"`
		Recipient string `json:"recipient"`
		Value     struct {
			Serializer int32  `json:"serializer"`
			Manifest   string `json:"manifest"`
			Data       []byte `json:"data"`
		} `json:"value"`
	} `json:"commands"`
	Timers []struct {
		Name string `json:"name"`
		Due  int64  `json:"due"` // in microseconds since 1970
	} `json:"timers"`
	Waits *struct{}  `json:"waits"`
	Sent  []struct{} `json:"sent"` // commands that were executed beside one that failed; then there is no cause
}

// processCause is the input that a step handles: an event, an answer to a command, or a timer.
type processCause struct {
	Entity annals.PersistenceID `json:"entity"`
	SeqNr  annals.SeqNr         `json:"seqNr"`
	Answer string               `json:"answer"` // "<number of the step>/<place of the command>"
	Timer  string               `json:"timer"`
	Waited annals.SeqNr         `json:"waited"` // the step with which the input began to wait
}

const stepManifest = "annals.process.step"

// stepOf is the step in e; nil when it is none.
func stepOf(e annals.Event) *processStep {
	if e.Manifest != stepManifest || e.SerializerID != codec.JSONSerializer {
		return nil
	}
	s, err := codec.JSON[processStep](stepManifest).Decode(e.Payload)
	if err != nil {
		return nil
	}
	return &s
}

// causes are the names of what caused a step of the instance id.
func (s *processStep) causes(id annals.PersistenceID) (all []string) {
	c := s.Cause
	if c.Waited > 0 {
		all = append(all, nameOf(id, c.Waited))
	}
	switch {
	case c.Answer != "":
		all = append(all, fmt.Sprintf("%s/%s", id, c.Answer))
	case c.Timer != "":
		all = append(all, timerName(id, c.Timer))
	case c.Entity != "":
		all = append(all, nameOf(c.Entity, c.SeqNr))
	}
	return all
}

// handles says which input s handles.
func (s *processStep) handles() string {
	text := s.Cause.String()
	switch {
	case len(s.Sent) > 0:
		return "no input, and notes as executed: " + count(len(s.Sent), "command")
	case s.Waits != nil:
		text += ", which waits"
	}
	return text
}

func (c processCause) String() (text string) {
	switch {
	case c.Timer != "":
		text = "timer " + c.Timer
	case c.Answer != "":
		text = "the answer to command " + c.Answer
	default:
		text = fmt.Sprintf("event %d of %s", c.SeqNr, c.Entity)
	}
	if c.Waited > 0 {
		text += fmt.Sprintf(", which had waited since number %d", c.Waited)
	}
	return text
}

// timerName is the name of a timer as a cause.
func timerName(id annals.PersistenceID, timer string) string { return string(id) + "\x00" + timer }

// addStep adds the commands and timers of a step below its node.
func (t *tracing) addStep(e annals.Event, n *traceNode, s *processStep) error {
	for _, timer := range s.Timers {
		t.put(&traceNode{What: "timer", Timer: &timerView{timer.Name, at(time.UnixMicro(timer.Due))}}, n, timerName(e.ID, timer.Name))
	}
	for i, c := range s.Commands {
		id := fmt.Sprintf("%s/%d", nameOf(e.ID, e.SeqNr), i+1)
		p := annals.Payload{SerializerID: c.Value.Serializer, Manifest: c.Value.Manifest, Data: c.Value.Data}
		node := &traceNode{What: "command", Command: &commandView{id, c.Target, c.Recipient, t.show(p, nil)}}
		t.put(node, n, id)
		if err := t.executed(node, id, c.Recipient); err != nil {
			return err
		}
	}
	return nil
}

// executed finds the events of a command that was given to AskOnce of an aggregate.Repository: the entity has its key.
func (t *tracing) executed(command *traceNode, key, recipient string) error {
	if !t.store.Capabilities().States {
		return nil
	}
	sum := sha256.Sum256([]byte(key))
	hash := base64.RawURLEncoding.EncodeToString(sum[:16])
	for _, entity := range t.Entities {
		id := pidOf(entity, recipient)
		s, ok, err := t.store.States().Get(t.ctx, annals.NewPersistenceID("annals.keys", string(id)))
		if err != nil && !errors.Is(err, annals.ErrInvalid) { // the recipient may be an id of something else
			return err
		}
		if !ok || id == "" {
			continue
		}
		list, _ := codec.JSON[[]struct {
			Key    string       `json:"k"`
			SeqNr  annals.SeqNr `json:"n"` // of the entity after the command
			Events int          `json:"e"`
		}]("annals.keys").Decode(s.Payload)
		for _, x := range list {
			for n := range min(x.Events, mostEvents) {
				if name := nameOf(id, x.SeqNr-annals.SeqNr(n)); x.Key == hash && t.nodes[name] == nil {
					t.nodes[name] = command
				}
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
