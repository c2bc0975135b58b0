package chat

import (
	"fmt"

	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/codec"
)

// Behavior is the thread as an entity.
var Behavior = behavior.EventSourced[Command, Event, Thread, View]{
	Type:          "Thread",
	Init:          newThread,
	Decide:        decide,
	Evolve:        evolve,
	Reply:         reply,
	Events:        Events,
	States:        codec.JSON[Thread]("thread.2"), // "thread" had no Read. Such a snapshot is not read: the thread is rebuilt from its events
	SnapshotEvery: 500,
}

func decide(t Thread, c Command) ([]Event, error) {
	if err := Check(c); err != nil {
		return nil, err
	}
	if c, ok := c.(Create); ok {
		if t.Name != "" {
			return nil, ErrThreadExists
		}
		return []Event{Created{c.Name, c.Executor}}, nil
	}
	role, member := t.Members[c.executor()]
	switch {
	case t.Name == "":
		return nil, ErrNoThread
	case t.Deleted:
		return nil, ErrThreadDeleted
	case !member:
		return nil, ErrNotMember
	}
	switch c.(type) {
	case Rename, Delete, AddMember, RemoveMember:
		if role != Admin {
			return nil, ErrNotAdmin
		}
	}
	return happen(t, c)
}

// happen decides a command whose executor is allowed to send it.
func happen(t Thread, c Command) ([]Event, error) {
	switch c := c.(type) {
	case Rename:
		if c.Name == t.Name {
			return nil, ErrSameName
		}
		return []Event{Renamed{c.Name}}, nil
	case Delete:
		return []Event{Deleted{}}, nil
	case AddMember:
		if _, ok := t.Members[c.Account]; ok {
			return nil, ErrAlreadyMember
		}
		return []Event{MemberAdded{c.Account, c.Role}}, nil
	case RemoveMember:
		role, ok := t.Members[c.Account]
		switch {
		case !ok:
			return nil, ErrNoMember
		case role == Admin && t.admins() == 1:
			return nil, ErrLastAdmin
		}
		return []Event{MemberRemoved{c.Account}}, nil
	case Post:
		if m, used := t.Messages[c.ID]; used {
			// A message that was edited in the meantime cannot be compared: it is taken for the same.
			if m.Sender == c.Executor && !m.Deleted && (m.Text == c.Text || m.Edited) {
				return nil, nil
			}
			return nil, ErrMessageExists
		}
		return []Event{Posted{c.ID, c.Executor, c.Text}}, nil
	case Edit:
		m, ok := t.Messages[c.ID]
		switch {
		case !ok || m.Deleted:
			return nil, ErrNoMessage
		case m.Sender != c.Executor:
			return nil, ErrNotSender
		case m.Text == c.Text:
			return nil, nil
		}
		return []Event{Edited{c.ID, c.Text}}, nil
	case DeleteMessage:
		m, ok := t.Messages[c.ID]
		switch {
		case !ok:
			return nil, ErrNoMessage
		case m.Sender != c.Executor:
			return nil, ErrNotSender
		case m.Deleted:
			return nil, nil
		}
		return []Event{MessageDeleted{c.ID}}, nil
	case MarkRead:
		switch {
		case c.Position > len(t.Order):
			return nil, ErrNoMessage
		case c.Position <= t.Read[c.Executor]:
			return nil, nil
		}
		return []Event{MarkedRead{c.Executor, c.Position}}, nil
	case Show, List:
		return nil, nil
	}
	panic(fmt.Sprintf("chat: no case for %T", c))
}
