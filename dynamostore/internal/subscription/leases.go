package subscription

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/leases"
)

// hold takes and frees shards so that this loop gets its share.
func (l *loop) hold(ctx context.Context, v view) error {
	signs := map[string]leases.Sign[string]{}
	for id, m := range v.loops {
		if id != l.id {
			signs[id] = leases.Sign[string]{Beat: m.write, Lease: m.lease}
		}
	}
	for _, id := range l.watch.Look(signs, time.Now()) {
		// A loop that shows no sign of life leaves. Its item is stored again when it goes on.
		op := l.ifWritten(plan.Op{Key: key(l.name, itemLoop+id), Delete: true}, v.loops[id].write)
		if err := l.write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: plan.Expected}); err != nil {
			return err
		}
		delete(v.loops, id)
	}
	v.loops[l.id] = member{round: l.round} // others may have taken this loop for dead
	l.waits = false
	for _, m := range v.loops {
		if m.round != 0 && m.round != v.head.round { // the loop may still hold shards of an earlier round
			l.waits = true
			return nil
		}
	}
	open := v.open()
	parts := make([]leases.Part, len(open))
	for i, s := range open {
		parts[i] = leases.Part{Owner: s.owner, Holder: s.owner}
	}
	owners := leases.Share(parts, slices.Collect(maps.Keys(v.loops)), nil)
	for i, s := range open {
		_, alive := v.loops[s.owner]
		held := slices.IndexFunc(l.held, func(r *reader) bool { return r.shard.id == s.id })
		switch mine := owners[i] == l.id; {
		case held >= 0:
			if !mine {
				l.held[held].release()
			}
		case s.owner == l.id: // an answer was lost
			l.start(ctx, v.head.stream, s)
		case mine && alive:
			l.waits = true // until it is handed over
		case mine:
			if err := l.claim(ctx, v.head.stream, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// open are the shards of v that a loop can hold: those that have not ended, and that follow no shard that has not.
func (v view) open() (all []shard) {
	waits := map[string]bool{} // the parents that have not ended
	for _, s := range v.shards {
		if !s.ended {
			waits[s.id] = true
			if _, ok := s.part(); ok {
				waits[catchUp] = true
			}
		}
	}
	for _, s := range v.shards {
		if !s.ended && !waits[s.parent] {
			all = append(all, s)
		}
	}
	return all
}

// claim makes s, of the stream name, this loop's.
func (l *loop) claim(ctx context.Context, name string, s shard) error {
	seen := s.write
	s.owner, s.write = l.id, newWrite()
	err := l.write(ctx, plan.Write{Ops: []plan.Op{l.swap(s.item(l.name), seen)}})
	if errors.Is(err, annals.ErrConflict) { // another loop was faster
		return nil
	}
	if err == nil {
		l.start(ctx, name, s)
	}
	return err
}

// swap stores it in place of the item that the write seen has stored; "" is none.
func (s *Subscriptions) swap(it plan.Item, seen string) plan.Op {
	ours, _ := plan.Text(it, attrWrite)
	op := s.ifWritten(plan.Op{Put: it, Ours: func(old plan.Item) bool {
		stored, _ := plan.Text(old, attrWrite)
		return stored == ours
	}}, seen)
	if seen == "" {
		op.Condition, op.Values = "attribute_not_exists(#write)", nil
	}
	return op
}

// ifWritten is op on condition that the write seen has stored the item.
func (s *Subscriptions) ifWritten(op plan.Op, seen string) plan.Op {
	op.Table, op.Condition = s.Table, "#write = :write"
	op.Names, op.Values = map[string]string{"#write": attrWrite}, plan.Item{":write": plan.S(seen)}
	return op
}
