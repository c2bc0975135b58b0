package esa

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// library writes as a program with the library of p does: one event per write, and the version that it has read from the head.
type library struct {
	rows
	journal, heads string
	unguarded      bool // puts events without a condition, as Rust and Java do
}

func newLibrary(l Layout) library {
	tables := l.tables()
	return library{rows: l.rows(), journal: tables[0].Name, heads: tables[1].Name}
}

// write stores event n of id when the head has the version; 0 creates the head. state, when not nil, is the new state of the head. An outcome
// with Refused is the library's error of optimistic locking.
func (p library) write(ctx context.Context, x plan.Executor, id annals.PersistenceID, version, n annals.SeqNr, state *annals.Snapshot) (plan.Outcome, error) {
	e := annals.NewEvent{Payload: annals.Payload{SerializerID: 4, Data: []byte("peer")}}
	at := x.Now()
	it, err := p.eventItem(annals.Commit{ID: id}, n, &e, at)
	if err != nil {
		return plan.Outcome{}, err
	}
	delete(it, attrWriteID)
	event := p.create(p.journal, it)
	if p.unguarded {
		event.Condition, event.Names = "", nil
	}
	var set plan.Item
	if state != nil {
		if set, err = p.state(*state, version, at); err != nil {
			return plan.Outcome{}, err
		}
	}
	key, err := p.key(id, 0)
	if err != nil {
		return plan.Outcome{}, err
	}
	u := plan.NewUpdate()
	u.SetTo(attrVersion, u.Value(plan.N(version+1)))
	u.SetAll(set)
	head := plan.Op{Table: p.heads, Key: key, Update: u.Expression(), Names: u.Names, Values: u.Values}
	head.Condition = u.Name(attrVersion) + " = " + u.Value(plan.N(version))
	if version == 0 {
		it, err := p.headItem(id, 1, set)
		if err != nil {
			return plan.Outcome{}, err
		}
		head = p.create(p.heads, it)
	}
	return x.Write(ctx, plan.Write{Ops: []plan.Op{head, event}, Refused: func([]plan.Item, bool) error { return nil }})
}
