package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

// Entity is a behavior of the program. Sourced and Durable make one.
type Entity interface {
	entityType() string
	// types are those of commands, events and states.
	types() []reflect.Type
	kind() string // "event-sourced" or "durable state"
	// named returns the id that the program has for pid, and false when pid is not of this behavior.
	named(pid annals.PersistenceID) (string, bool)
	// pid is the id in the store of the program's id.
	pid(id string) annals.PersistenceID
	// event and state decode; event is nil for a durable state.
	event(p annals.Payload) (any, error)
	state(p annals.Payload) (any, error)
	// load is the state of the entity at a moment, as its codec encodes it, and its number. Without sealed it is not sealed.
	load(ctx context.Context, s annals.Store, id string, m moment, sealed bool) (annals.Payload, annals.SeqNr, error)
	// try is what Decide answers to a command at a moment.
	try(ctx context.Context, s annals.Store, id string, m moment, command string) (tried, error)
}

// durableKind is the kind of entities with a durable state.
const durableKind = "durable state"

// moment is one in the history of an entity: the newest when it is zero.
type moment struct {
	number *annals.SeqNr
	time   time.Time
}

// tried is what Decide answers to a command.
type tried struct {
	number   annals.SeqNr // of the state that decided
	rejected error
	events   []annals.Payload // of an event-sourced entity
	state    *annals.Payload  // of a durable state that would be saved
	deleted  bool             // the durable state would be
}

// host is what the repositories of both kinds of entities have.
type host[S any] interface {
	Load(ctx context.Context, id string) (S, annals.SeqNr, error)
	LoadAt(ctx context.Context, id string, n annals.SeqNr) (S, annals.SeqNr, error)
	LoadAsOf(ctx context.Context, id string, t time.Time) (S, annals.SeqNr, error)
}

// common is what both kinds of entities have: their states are read in the same way.
type common[C, S any] struct {
	name     string
	id       func(id string) annals.PersistenceID
	states   codec.Codec[S]
	commands []C
	open     func(s annals.Store) (host[S], error)
}

func (e *common[C, S]) entityType() string { return e.name }

func (e *common[C, S]) pid(id string) annals.PersistenceID { return e.id(id) }

// named finds the program's id in an id that a program of its own may have made: after the type and a separator.
func (e *common[C, S]) named(pid annals.PersistenceID) (string, bool) {
	candidates := []string{pid.EntityID()}
	if rest, ok := strings.CutPrefix(string(pid), e.name); ok {
		_, size := utf8.DecodeRuneInString(rest)
		candidates = append(candidates, rest[size:])
	}
	for _, id := range candidates {
		if id != "" && e.id(id) == pid {
			return id, true
		}
	}
	return "", false
}

func (e *common[C, S]) state(p annals.Payload) (any, error) { return decode(e.states, p) }

// decode decodes with a codec of the program.
func decode[T any](c codec.Codec[T], p annals.Payload) (v any, err error) {
	defer contain("decode", &err)
	return c.Decode(p)
}

// plainly is the codec in one that seals, for what is shown only: sealing may store a key. Or it is c.
func plainly[T any](c codec.Codec[T]) codec.Codec[T] {
	if w, ok := c.(interface{ Unwrap() codec.Codec[T] }); ok {
		return plainly(w.Unwrap())
	}
	return c
}

// contain makes a panic of the program the error of a call. Its text may have a part of a payload.
func contain(op string, err *error) {
	if recover() != nil {
		*err = &annals.Error{Op: op, Kind: annals.ErrPanic, Err: errors.New("code of the program panicked")}
	}
}

func (e *common[C, S]) load(ctx context.Context, s annals.Store, id string, m moment, sealed bool) (p annals.Payload, n annals.SeqNr, err error) {
	state, n, err := e.at(ctx, s, id, m)
	c := e.states
	if !sealed {
		c = plainly(c)
	}
	if err == nil {
		p, err = c.Encode(state)
	}
	return p, n, err
}

// at is the state at m. The repository is only read with.
func (e *common[C, S]) at(ctx context.Context, s annals.Store, id string, m moment) (state S, n annals.SeqNr, err error) {
	h, err := e.open(s)
	switch {
	case err != nil:
		return state, 0, err
	case m.number != nil:
		return h.LoadAt(ctx, id, *m.number)
	case !m.time.IsZero():
		return h.LoadAsOf(ctx, id, m.time)
	}
	return h.Load(ctx, id)
}

// decide calls decide with the state at m and a command.
func (e *common[C, S]) decide(ctx context.Context, s annals.Store, id string, m moment, command string, decide func(S, C) error) (n annals.SeqNr, err error) {
	c, err := e.command(command)
	if err != nil {
		return 0, err
	}
	state, n, err := e.at(ctx, s, id, m)
	if err != nil {
		return 0, err
	}
	defer contain("decide", &err)
	return n, decide(state, c)
}

// command reads a command from JSON. Where C is an interface, the JSON is an object whose one member has the name of a type.
func (e *common[C, S]) command(text string) (c C, err error) {
	if reflect.TypeFor[C]().Kind() != reflect.Interface {
		return c, strict([]byte(text), &c)
	}
	byName := map[string]reflect.Type{}
	for _, known := range e.commands {
		if t := reflect.TypeOf(known); t != nil {
			byName[strings.TrimPrefix(t.String()[strings.LastIndex(t.String(), ".")+1:], "*")] = t
		}
	}
	names := slices.Sorted(maps.Keys(byName))
	if len(names) == 0 {
		return c, usage("the program names no commands of %s: give them to operate.Sourced or Durable", e.name)
	}
	var member map[string]json.RawMessage
	if err := strict([]byte(text), &member); err != nil || len(member) != 1 {
		return c, usage(`--try is a JSON object with one of these members: %s`, strings.Join(names, ", "))
	}
	for n, value := range member {
		t := byName[n]
		switch {
		case t == nil:
			return c, usage("%s has no command %s, but %s", e.name, name(n), strings.Join(names, ", "))
		case t.Kind() == reflect.Pointer:
			p := reflect.New(t.Elem())
			err, c = strict(value, p.Interface()), p.Interface().(C)
		default:
			p := reflect.New(t)
			err, c = strict(value, p.Interface()), p.Elem().Interface().(C)
		}
	}
	return c, err
}

// strict decodes JSON whose members v must have.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("more than one value")
	}
	if err != nil {
		return usage("the command in --try: %v", err)
	}
	return nil
}

// Sourced is an event-sourced behavior. Where C is an interface, commands has a value of each type of command, for show --try:
//
//	operate.Sourced(order.Behavior, []order.Command{order.Place{}, order.Pay{}, order.Cancel{}}...)
//
// A nil codec is JSON, as in the hosts.
func Sourced[C, E, S, R any](b behavior.EventSourced[C, E, S, R], commands ...C) Entity {
	if b.Events == nil {
		b.Events = codec.JSON[E](b.Type)
	}
	if b.States == nil {
		b.States = codec.JSON[S](b.Type)
	}
	b.SnapshotEvery = 0 // it is only read, also from stores without snapshots
	return &sourced[C, E, S, R]{b: b, common: common[C, S]{b.Type, b.ID, b.States, commands, func(s annals.Store) (host[S], error) {
		return aggregate.New(s, b, aggregate.Options{MayDrop: true})
	}}}
}

type sourced[C, E, S, R any] struct {
	common[C, S]
	b behavior.EventSourced[C, E, S, R]
}

func (e *sourced[C, E, S, R]) kind() string { return "event-sourced" }

func (e *sourced[C, E, S, R]) types() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[C](), reflect.TypeFor[E](), reflect.TypeFor[S]()}
}

func (e *sourced[C, E, S, R]) event(p annals.Payload) (any, error) { return decode(e.b.Events, p) }

func (e *sourced[C, E, S, R]) try(ctx context.Context, s annals.Store, id string, m moment, command string) (t tried, err error) {
	t.number, err = e.decide(ctx, s, id, m, command, func(state S, c C) error {
		events, err := e.b.Decide(state, c)
		t.rejected = err
		for i := 0; i < len(events) && err == nil; i++ {
			p, err := plainly(e.b.Events).Encode(events[i])
			if err != nil {
				return fmt.Errorf("event %d of the command cannot be encoded: %w", i+1, err)
			}
			t.events = append(t.events, p)
		}
		return nil
	})
	return t, err
}

// Durable is a behavior with a durable state. For commands see Sourced.
func Durable[C, S, R any](b behavior.DurableState[C, S, R], commands ...C) Entity {
	if b.States == nil {
		b.States = codec.JSON[S](b.Type)
	}
	return &durable[C, S, R]{b: b, common: common[C, S]{b.Type, b.ID, b.States, commands, func(s annals.Store) (host[S], error) {
		return aggregate.NewState(s, b, aggregate.Options{MayDrop: true})
	}}}
}

type durable[C, S, R any] struct {
	common[C, S]
	b behavior.DurableState[C, S, R]
}

func (e *durable[C, S, R]) kind() string { return durableKind }

func (e *durable[C, S, R]) types() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[C](), reflect.TypeFor[S]()}
}

func (e *durable[C, S, R]) event(annals.Payload) (any, error) {
	return nil, errors.New("a durable state has no events of its own")
}

func (e *durable[C, S, R]) try(ctx context.Context, s annals.Store, id string, m moment, command string) (t tried, err error) {
	t.number, err = e.decide(ctx, s, id, m, command, func(state S, c C) error {
		effect, err := e.b.Decide(state, c)
		if t.rejected = err; err != nil {
			return nil
		}
		next, saves, deletes := effect.Outcome()
		if t.deleted = deletes; !saves {
			return nil
		}
		p, err := plainly(e.b.States).Encode(next)
		t.state = &p
		return err
	})
	return t, err
}

// entity is the behavior of pid, and the id that the program has for it; nil when the program does not know it.
func (o *options) entity(pid annals.PersistenceID) (Entity, string) {
	for _, e := range o.Entities {
		if id, ok := e.named(pid); ok {
			return e, id
		}
	}
	return nil, ""
}

// types are the types of the entities that the program knows, for the completion of a shell.
func (o *options) types() []string {
	var all []string
	for _, e := range o.Entities {
		all = append(all, e.entityType())
	}
	return all
}
