package subscription

import (
	"context"
	"slices"
	"time"

	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
)

// begin stores a new round: the parts of the catch-up, and the shards that the stream has now.
func (l *loop) begin(ctx context.Context, v view) error {
	at := time.Now()
	name, shards, err := l.Stream.Shards(ctx)
	if err != nil {
		return err
	}
	next := head{filter: filterText(l.filter), stream: name, round: 1, listed: at}
	if v.head != nil {
		next.round = v.head.round + 1
	}
	var all []shard
	for n := range parts {
		all = append(all, shard{round: next.round, id: partID(n), since: at})
	}
	return l.register(ctx, v.head, next, append(all, parentsFirst(joined(nil, shards, next.round, at))...))
}

// joined are the shards of the stream that known does not have. Those whose parent is not known follow the catch-up.
func joined(known []shard, listed []stream.Shard, round int64, at time.Time) (all []shard) {
	ids := map[string]bool{}
	for _, s := range known {
		ids[s.id] = true
	}
	for _, s := range listed {
		if !ids[s.ID] {
			all = append(all, shard{round: round, id: s.ID, parent: s.Parent, since: at})
		}
	}
	for _, s := range all {
		ids[s.id] = true
	}
	for i := range all {
		if !ids[all[i].parent] {
			all[i].parent = catchUp
		}
	}
	return all
}

// registered is how many shards are stored in one transaction.
const registered = 90

// register stores next after stands, nil for no head, and shards, parents first. next.listed is stored with the last of them, but for a new
// round, whose shards were listed when it began.
func (l *loop) register(ctx context.Context, stands *head, next head, shards []shard) error {
	listed := next.listed
	if stands != nil && stands.round == next.round {
		next.listed = stands.listed
	}
	for {
		some := shards[:min(len(shards), registered)]
		if shards = shards[len(some):]; len(shards) == 0 {
			next.listed = listed
		}
		next.write = newWrite()
		ours := next.write
		op := plan.Op{Table: l.Table, Put: next.item(l.name), Condition: "attribute_not_exists(#write)", Names: map[string]string{"#write": attrWrite},
			Ours: func(old plan.Item) bool { return wrote(old, ours) }}
		if stands != nil {
			op.Condition, op.Values = "#write = :write", plan.Item{":write": plan.S(stands.write)}
		}
		w := plan.Write{Ops: []plan.Op{op}}
		for _, s := range some {
			s.write = newWrite()
			w.Ops = append(w.Ops, plan.Op{Table: l.Table, Put: s.item(l.name)})
		}
		if err := l.write(ctx, w); err != nil || len(shards) == 0 {
			return err
		}
		stored := next
		stands = &stored
	}
}

// wrote reports whether the write with this id stored it.
func wrote(it plan.Item, id string) bool {
	text, _ := plan.Text(it, attrWrite)
	return text == id
}

// listIfDue lists the shards of the stream and stores those that are new, unless another loop did within the lease. It is false when nothing
// has changed but the time.
func (l *loop) listIfDue(ctx context.Context, v view) (changed bool, err error) {
	now := time.Now()
	if l.listing.write != v.head.write {
		l.listing.write, l.listing.at = v.head.write, now
	}
	l.mu.Lock()
	trimmed := l.trimmed == v.head.round
	l.mu.Unlock()
	if !trimmed && !l.list && now.Sub(l.listing.at) < l.Lease {
		return false, nil
	}
	name, shards, err := l.Stream.Shards(ctx)
	switch {
	case err != nil:
		return false, err
	case trimmed || v.lost(name, shards, now):
		return true, l.begin(ctx, v)
	}
	fresh := parentsFirst(joined(v.shards, shards, v.head.round, now))
	next := *v.head
	next.listed = now
	if err := l.register(ctx, v.head, next, fresh); err != nil {
		return false, err
	}
	l.list, l.listing.write = false, ""
	return len(fresh) > 0, l.forget(ctx, v, shards)
}

// lost reports whether records were removed from the stream, or may have been, before they were read.
func (v view) lost(name string, listed []stream.Shard, now time.Time) bool {
	if v.head.stream != name || now.Sub(v.head.listed) > memory {
		return true
	}
	return slices.ContainsFunc(v.shards, func(s shard) bool {
		_, part := s.part()
		return !part && !s.ended && !slices.ContainsFunc(listed, func(o stream.Shard) bool { return o.ID == s.id })
	})
}

// forget deletes the shards that have ended and that the stream no longer has.
func (l *loop) forget(ctx context.Context, v view, listed []stream.Shard) error {
	var keys []plan.Item
	for _, s := range v.shards {
		if _, part := s.part(); !part && s.ended && !slices.ContainsFunc(listed, func(o stream.Shard) bool { return o.ID == s.id }) {
			keys = append(keys, s.key(l.name))
		}
	}
	return l.remove(ctx, keys)
}

func (l *loop) remove(ctx context.Context, keys []plan.Item) error {
	if len(keys) == 0 {
		return nil
	}
	return driver.Fetch(ctx, func(ctx context.Context) error { return l.Executor.DeleteAll(ctx, l.Table, keys) })
}

// sweep deletes the shards of earlier rounds. Then their owners cannot acknowledge anything.
func (l *loop) sweep(ctx context.Context, v view) error { return l.remove(ctx, v.void) }
