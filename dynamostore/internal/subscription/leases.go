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
			l.park(h, !mine)
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
	for _, s := range v.shards {
		if after := l.before(v, s); after != nil && (s.owner == "" || s.owner == l.id || !slices.Contains(alive, s.owner)) {
			if err := l.claim(ctx, v.head.stream, s, after...); err != nil {
				return err
			}
		}
	}
	return l.settle(ctx)
}

// before returns the shards that s waits for, if this loop holds all of them and only their last acknowledgements are missing. Then it may
// hold s, too: a caller may want more deliveries before it acknowledges the first.
func (l *loop) before(v view, s shard) (all []*held) {
	if s.ended || l.holder(s) != nil {
		return nil
	}
	for _, p := range v.shards {
		if _, part := p.part(); p.ended || p.id != s.parent && (!part || s.parent != catchUp) {
			continue
		}
		h := l.holder(p)
		if h == nil || !l.handedOut(h) {
			return nil
		}
		all = append(all, h)
	}
	return all
}

func (l *loop) handedOut(h *held) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return h.finished && h.next == nil
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

func (l *loop) park(h *held, parked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.parked && !parked {
		signal(l.ready)
	}
	h.parked = parked
}

// removeLoop deletes the item of a loop that shows no sign of life. It is stored again when the loop goes on.
func (l *loop) removeLoop(ctx context.Context, id string, m member) error {
	op := plan.Op{Table: l.Table, Key: key(l.name, itemLoop+id), Delete: true, Condition: "#write = :write",
		Names: map[string]string{"#write": attrWrite}, Values: plan.Item{":write": plan.S(m.write)}}
	return l.write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }})
}

// claim makes s, of the stream name, this loop's.
func (l *loop) claim(ctx context.Context, name string, s shard, after ...*held) error {
	seen := s.write
	s.owner, s.write = l.id, newWrite()
	err := l.write(ctx, plan.Write{Ops: []plan.Op{l.change(s, seen, "")}})
	if errors.Is(err, annals.ErrConflict) { // another loop was faster
		return nil
	}
	if err == nil {
		l.start(ctx, name, s, after...)
	}
	return err
}

// change stores s in place of the item of the shard that the write seen has stored.
func (l *loop) change(s shard, seen string, position string) plan.Op {
	u := plan.NewUpdate()
	set := func(attribute, text string) { u.SetTo(attribute, u.Value(plan.S(text))) }
	set(attrWrite, s.write)
	if position != "" {
		set(attrPosition, position)
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

// settle stores how far the shards have been read that have no open deliveries, and gives up those that have ended or are parked.
func (l *loop) settle(ctx context.Context) error {
	l.mu.Lock()
	all := slices.Clone(l.held)
	l.mu.Unlock()
	for _, h := range all {
		gone, err := l.settleOne(ctx, h)
		if err != nil && !errors.Is(err, annals.ErrFenced) {
			return err
		}
		if gone || err != nil {
			signal(l.look)
		}
	}
	return nil
}

func (l *loop) settleOne(ctx context.Context, h *held) (gone bool, err error) {
	if err := l.flush(ctx, h); err != nil {
		return false, err
	}
	if err := h.lock(ctx); err != nil {
		return false, err
	}
	defer h.unlock()
	l.mu.Lock()
	idle := len(h.open) == 0 && !h.lost
	s, position := h.shard, h.stored
	if idle && h.next == nil {
		position = h.read
		s.ended = h.finished && h.clear()
	}
	release := idle && h.parked && !s.ended
	nothing := !idle || position == h.stored && !s.ended && !release
	l.mu.Unlock()
	if nothing {
		return false, nil
	}
	if s.ended || release {
		s.owner = ""
	}
	if err := l.store(ctx, h, s, position, nil); err != nil || s.owner != "" {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(h)
	l.list = l.list || s.ended
	return true, nil
}

// free gives up everything when the loop ends.
func (l *loop) free(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, max(l.Lease, time.Second))
	defer cancel()
	l.mu.Lock()
	all := slices.Clone(l.held)
	l.mu.Unlock()
	for _, h := range all {
		_ = l.flush(ctx, h) // what was not stored is delivered again
	}
	l.mu.Lock()
	l.ended = true
	for _, h := range all {
		h.stop()
	}
	l.mu.Unlock()
	l.readers.Wait()
	for _, h := range all {
		l.release(ctx, h)
	}
	if l.round != 0 { // an error makes others wait for the lease
		_, _ = l.Executor.Write(ctx, plan.Write{Ops: []plan.Op{{Table: l.Table, Key: key(l.name, itemLoop+l.id), Delete: true}}})
	}
}

// release frees h when the loop ends. An error makes others wait for the lease.
func (l *loop) release(ctx context.Context, h *held) {
	if h.lock(ctx) != nil {
		return
	}
	defer h.unlock()
	s := h.shard
	s.owner = ""
	l.mu.Lock()
	lost := h.lost
	l.drop(h)
	l.mu.Unlock()
	if !lost {
		_ = l.store(ctx, h, s, "", nil)
	}
}
