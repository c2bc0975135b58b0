package subscription

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/leases"
)

// hold takes and frees shards so that this loop gets its share.
func (l *loop) hold(ctx context.Context, v view) error {
	dead := l.watch.Look(v.signs(), time.Now())
	dead = slices.DeleteFunc(dead, func(id string) bool { return id == l.id })
	for _, id := range dead {
		if err := l.removeLoop(ctx, id, v.loops[id]); err != nil {
			return err
		}
	}
	if !v.settled(dead) {
		l.waits = true
		return nil
	}
	alive := []string{l.id}
	for id := range v.loops {
		if id != l.id && !slices.Contains(dead, id) {
			alive = append(alive, id)
		}
	}
	open := v.open()
	parts := make([]leases.Part, len(open))
	for i, s := range open {
		parts[i] = leases.Part{Owner: s.owner, Holder: s.owner}
	}
	owners := leases.Share(parts, alive, nil)
	l.waits = false
	for i, s := range open {
		h, mine := l.holder(s), owners[i] == l.id
		switch {
		case h != nil:
			if !mine {
				h.release()
			}
		case s.owner == l.id: // an answer was lost
			l.start(ctx, v.head.stream, s)
		case mine && slices.Contains(alive, s.owner):
			l.waits = true // until it is handed over
		case mine:
			if err := l.claim(ctx, v.head.stream, s); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *loop) holder(s shard) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if h.id == s.id {
			return h
		}
	}
	return nil
}

// removeLoop deletes the item of a loop that shows no sign of life. It is stored again when the loop goes on.
func (l *loop) removeLoop(ctx context.Context, id string, m member) error {
	op := plan.Op{Table: l.Table, Key: key(l.name, itemLoop+id), Delete: true, Condition: "#write = :write",
		Names: map[string]string{"#write": attrWrite}, Values: plan.Item{":write": plan.S(m.write)}}
	return l.write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: plan.Expected})
}

// claim makes s, of the stream name, this loop's.
func (l *loop) claim(ctx context.Context, name string, s shard) error {
	seen := s.write
	s.owner, s.write = l.id, newWrite()
	err := l.write(ctx, plan.Write{Ops: []plan.Op{l.change(s, seen)}})
	if errors.Is(err, annals.ErrConflict) { // another loop was faster
		return nil
	}
	if err == nil {
		l.start(ctx, name, s)
	}
	return err
}

// change stores s in place of the item of the shard that the write seen has stored.
func (l *loop) change(s shard, seen string) plan.Op {
	u := plan.NewUpdate()
	set := func(attribute, text string) { u.SetTo(attribute, u.Value(plan.S(text))) }
	set(attrWrite, s.write)
	if s.position != "" {
		set(attrPosition, s.position)
	}
	if s.ended {
		u.SetTo(attrEnded, u.Value(plan.Bool(true)))
	}
	if s.owner != "" {
		set(attrOwner, s.owner)
	} else {
		u.Remove(attrOwner)
	}
	condition := u.Name(attrWrite) + " = " + u.Value(plan.S(seen))
	ours := s.write
	return plan.Op{Table: l.Table, Key: s.key(l.name), Update: u.Expression(), Condition: condition, Names: u.Names, Values: u.Values,
		Ours: func(old plan.Item) bool { return wrote(old, ours) }}
}
