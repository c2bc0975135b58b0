package process

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/valid"
)

// Target is a kind of recipients, such as the entities of a type, which get commands C. It makes commands; To says how they are sent.
type Target[C any] struct {
	name  string
	codec codec.Codec[C]
}

// NewTarget returns a Target. name is stored with each command, and so is what c encodes: as long as commands may wait, keep the name, and
// keep c able to decode them.
func NewTarget[C any](name string, c codec.Codec[C]) *Target[C] { return &Target[C]{name, c} }

// Tell returns a command to a recipient, whose answer is of no interest.
func (t *Target[C]) Tell(recipient string, c C) Command {
	return Command{Target: t.name, Recipient: recipient, Value: c, target: t}
}

// Ask returns a command to a recipient, whose answer is an input of the process: see Answer.
func (t *Target[C]) Ask(recipient string, c C) Command {
	return Command{Target: t.name, Recipient: recipient, Value: c, Asks: true, target: t}
}

// Command is what Tell and Ask of a Target return.
type Command struct {
	Target    string // its name
	Recipient string
	Value     any  // of the type C of the Target
	Asks      bool // the answer is an input
	target    encoder
}

type encoder interface {
	encode(value any) (annals.Payload, error)
}

// Encode returns the stored form of the command's value. ErrInvalid when the command was not made by a Target, or has another value.
func (c Command) Encode() (annals.Payload, error) {
	if c.target == nil {
		return annals.Payload{}, &annals.Error{Op: "encode command", Kind: annals.ErrInvalid, Err: errors.New("it was not made by a Target")}
	}
	return c.target.encode(c.Value)
}

func (t *Target[C]) encode(value any) (annals.Payload, error) {
	c, ok := value.(C)
	if !ok || t.codec == nil {
		return annals.Payload{}, &annals.Error{Op: "encode command", Kind: annals.ErrInvalid, Err: fmt.Errorf("target %q has no codec for a %T", t.name, value)}
	}
	return t.codec.Encode(c)
}

// Recipients are those of a Target, as To makes them.
type Recipients struct {
	name   string
	faults error
	decode func(annals.Payload) (Command, error) // without the recipient
	// reply is the stored form of a reply; nil when what is read from it would be another one.
	reply   func(reply any) *payload
	replied func(annals.Payload) (any, error)
	send    func(ctx context.Context, key, recipient string, value any) (any, error)
}

// To says how the commands of t are sent. key is the id of the command, the same whenever it is sent. What send returns is:
//
//   - no error: the reply, of a command that has had its effect, now or earlier;
//   - an *annals.Error, the error of a context, any error after ctx has ended, or a panic: a failure. The command is sent again, with the same key;
//   - another error: a rejection. It is an answer as a reply is.
//
// A reply that React cannot handle is stored with the instance until it can: as JSON, whatever codec t has, and so not sealed. Where it must not be stored, give R a
// MarshalJSON that returns an error: the command is sent again then.
//
// AskOnce of an aggregate.Repository is such a send. One that calls another service returns an annals.Error, of kind ErrUnavailable, when
// the service gives no answer. send is called from many goroutines at once; its ctx ends after Options.SendTimeout.
func To[C, R any](t *Target[C], send func(ctx context.Context, key, recipient string, c C) (R, error)) Recipients {
	if t == nil || t.codec == nil || t.name == "" || send == nil {
		return Recipients{faults: errors.New("To needs a Target with a name and a codec, and a function that sends")}
	}
	r := Recipients{name: t.name}
	if err := valid.Codec(t.codec); err != nil {
		r.faults = fmt.Errorf("target %q: %w", t.name, err)
	}
	r.decode = func(p annals.Payload) (Command, error) {
		c, err := t.codec.Decode(p)
		return Command{Target: t.name, Value: c, target: t}, err
	}
	replies := codec.JSON[R]("annals.process.reply")
	r.replied = func(p annals.Payload) (any, error) { return replies.Decode(p) }
	r.reply = func(reply any) *payload {
		value, _ := reply.(R)
		p, err := replies.Encode(value)
		if err != nil {
			return nil
		}
		if again, err := replies.Decode(p); err != nil || !reflect.DeepEqual(again, value) {
			return nil
		}
		stored := newPayload(p)
		return &stored
	}
	r.send = func(ctx context.Context, key, recipient string, value any) (any, error) {
		reply, err := send(ctx, key, recipient, value.(C))
		if err != nil {
			reply = *new(R)
		}
		return reply, err
	}
	return r
}

// failed reports whether err, which send returned, is a failure and no rejection.
func failed(err error) bool {
	return errors.As(err, new(*annals.Error)) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
