package process

import (
	"strconv"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/valid"
)

// step is the first event of each commit of an instance. It says which input was handled, and what is to be done about it. The events of the
// process follow. Times are in microseconds since 1970.
type step struct {
	Version  int       `json:"version"`            // of the process, under which the instance began
	Cause    cause     `json:"cause"`              // the input
	Waits    *waiting  `json:"waits,omitempty"`    // the input was not handled: it waits, and nothing else is to be done
	Commands []command `json:"commands,omitempty"` // the id of the first is "<persistence id>/<number of the step>/1"
	Timers   []timer   `json:"timers,omitempty"`
	Cancel   []string  `json:"cancel,omitempty"` // before Timers
	End      bool      `json:"end,omitempty"`
	Sent     []place   `json:"sent,omitempty"` // no input was handled: these commands were executed, and others that belong to the instance have failed
}

// place names a command of an instance.
type place struct {
	Step    annals.SeqNr `json:"step"`
	Command int          `json:"command"` // 0 is the first one of the step
}

// cause names an input: an event, an answer or a timer. An input that has waited is named by its step.
type cause struct {
	Entity annals.PersistenceID `json:"entity,omitempty"` // of an event
	SeqNr  annals.SeqNr         `json:"seqNr,omitempty"`  // of an event
	Time   int64                `json:"time,omitempty"`   // of an event
	Answer string               `json:"answer,omitempty"` // which command was answered: "<number of its step>/<its place>"
	Timer  string               `json:"timer,omitempty"`
	Due    int64                `json:"due,omitempty"`    // of the timer, as it was fired
	Waited annals.SeqNr         `json:"waited,omitempty"` // the number of the step with which the input began to wait
}

// waiting is what is needed of an event, or of an answer, to handle it later; of a timer it is empty.
type waiting struct {
	Value    *payload `json:"value,omitempty"`   // of an answer: the reply
	Command  *command `json:"command,omitempty"` // of an answer
	Metadata *payload `json:"metadata,omitempty"`
	Tags     []string `json:"tags,omitempty"`
}

type command struct {
	Target    string  `json:"target"`
	Recipient string  `json:"recipient"`
	Value     payload `json:"value"`
	Asks      bool    `json:"asks,omitempty"`
}

type timer struct {
	Name string `json:"name"`
	Due  int64  `json:"due"`
}

type payload struct {
	Serializer int32  `json:"serializer"`
	Manifest   string `json:"manifest,omitempty"`
	Data       []byte `json:"data"`
}

func newPayload(p annals.Payload) payload { return payload{p.SerializerID, p.Manifest, p.Data} }

func (p *payload) payload() annals.Payload {
	if p == nil {
		return annals.Payload{}
	}
	return annals.Payload{SerializerID: p.Serializer, Manifest: p.Manifest, Data: p.Data}
}

// micros is t in microseconds since 1970, rounded up; 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Add(time.Microsecond - 1).UnixMicro()
}

func number(n annals.SeqNr, i int) string {
	return strconv.FormatInt(int64(n), 10) + "/" + strconv.Itoa(i+1)
}

const stepManifest = "annals.process.step"

var steps = codec.JSON[step](stepManifest)

// record is an event of an instance: a step, or an event of the process.
type record[E, S any] struct {
	step  *step
	event E
	after *S // the state after the event, when it was decided now; nil when the event was read
}

type records[E, S any] struct{ events codec.Codec[E] }

func (c records[E, S]) Encode(r record[E, S]) (annals.Payload, error) {
	if r.step != nil {
		return steps.Encode(*r.step)
	}
	return c.events.Encode(r.event)
}

func (c records[E, S]) Decode(p annals.Payload) (r record[E, S], err error) {
	if p.Manifest == stepManifest && p.SerializerID == codec.JSONSerializer {
		s, err := steps.Decode(p)
		return record[E, S]{step: &s}, err
	}
	r.event, err = c.events.Decode(p)
	return r, err
}

// Validate is that of the codec of events.
func (c records[E, S]) Validate() error { return valid.Codec(c.events) }

// stepsOnly is records without the events of the process, which are decoded as nothing.
type stepsOnly struct{}

func (stepsOnly) Encode(s *step) (annals.Payload, error) { return steps.Encode(*s) }

func (stepsOnly) Decode(p annals.Payload) (*step, error) {
	if p.Manifest != stepManifest || p.SerializerID != codec.JSONSerializer {
		return nil, nil
	}
	s, err := steps.Decode(p)
	return &s, err
}
