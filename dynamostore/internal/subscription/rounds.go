package subscription

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
)

// listing is a list of the stream's shards.
type listing struct {
	at     time.Time // when the list was begun
	name   string    // of the stream
	shards []stream.Shard
	after  string // the shard after which the next page begins
}

// listShards reads pages of the list for a third of a lease. A list that is not complete then is nil, and the next look goes on with the
// list: between them the loop shows a sign of life.
func (l *loop) listShards(ctx context.Context) (*listing, error) {
	at := time.Now()
	if l.listing == nil {
		name, err := l.Stream.Name(ctx)
		if err != nil {
			return nil, err
		}
		l.listing = &listing{at: at, name: name}
	}
	made := l.listing
	for {
		page, next, err := l.Stream.Shards(ctx, made.name, made.after)
		if err != nil {
			return nil, err
		}
		made.shards, made.after = append(made.shards, page...), next
		switch {
		case next == "":
			l.listing = nil
			return made, nil
		case time.Since(at) >= l.Lease/3:
			signal(l.look)
			return nil, nil
		}
	}
}

// begin stores a new round: the parts of the catch-up, and the shards that are listed.
func (l *loop) begin(ctx context.Context, v view, made *listing) error {
	next := head{filter: filterText(l.filter), stream: made.name, round: 1, listed: made.at}
	if v.head != nil {
		next.round = v.head.round + 1
	}
	var all []shard
	for n := range parts {
		all = append(all, shard{round: next.round, id: fmt.Sprint(catchUp, " ", n), since: made.at})
	}
	return l.register(ctx, v.head, next, append(all, parentsFirst(joined(nil, made, next))...))
}

// joined are the shards of the stream that known does not have, in the round of stored. They were not in the list before: none of them has a
// record from before that list. Those whose parent is not known follow the catch-up.
func joined(known []shard, made *listing, stored head) (all []shard) {
	ids := map[string]bool{}
	for _, s := range known {
		ids[s.id] = true
	}
	for _, s := range made.shards {
		if !ids[s.ID] {
			all = append(all, shard{round: stored.round, id: s.ID, parent: s.Parent, since: stored.listed})
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

// register stores next after stored, nil for no head, and shards, parents first. next.listed is stored with the last of them, but for a new
// round, whose shards were listed when it began.
func (l *loop) register(ctx context.Context, stored *head, next head, shards []shard) error {
	listed := next.listed
	if stored != nil && stored.round == next.round {
		next.listed = stored.listed
	}
	for {
		some := shards[:min(len(shards), registered)]
		if shards = shards[len(some):]; len(shards) == 0 {
			next.listed = listed
		}
		next.write = newWrite()
		w := plan.Write{Ops: []plan.Op{l.put(l.name, next, stored)}}
		for _, s := range some {
			s.write = newWrite()
			w.Ops = append(w.Ops, plan.Op{Table: l.Table, Put: s.item(l.name)})
		}
		if err := l.write(ctx, w); err != nil || len(shards) == 0 {
			return err
		}
		done := next
		stored = &done
	}
}

// put stores next after stored, nil for no head.
func (s *Subscriptions) put(name string, next head, stored *head) plan.Op {
	op := plan.Op{Table: s.Table, Put: next.item(name), Condition: "attribute_not_exists(#write)", Names: map[string]string{"#write": attrWrite},
		Ours: func(old plan.Item) bool { return wrote(old, next.write) }}
	if stored != nil {
		op.Condition, op.Values = "#write = :write", plan.Item{":write": plan.S(stored.write)}
	}
	return op
}

// wrote reports whether the write with this id stored it.
func wrote(it plan.Item, id string) bool {
	text, _ := plan.Text(it, attrWrite)
	return text == id
}

// listIfDue lists the shards of the stream and stores those that are new, unless another loop did within the lease. It is false when nothing
// has changed but the time.
func (l *loop) listIfDue(ctx context.Context, v view) (changed bool, err error) {
	if l.listed.write != v.head.write {
		l.listed.write, l.listed.at = v.head.write, time.Now()
		l.listing = nil // another loop may have stored shards that were not listed yet
	}
	l.mu.Lock()
	trimmed := l.trimmed == v.head.round
	l.mu.Unlock()
	if !trimmed && !l.list && time.Since(l.listed.at) < l.Lease {
		return false, nil
	}
	made, err := l.listShards(ctx)
	switch {
	case made == nil:
		return false, err
	case trimmed || v.lost(made):
		return true, l.begin(ctx, v, made)
	}
	fresh := parentsFirst(joined(v.shards, made, *v.head))
	next := *v.head
	next.listed = made.at
	if err := l.register(ctx, v.head, next, fresh); err != nil {
		return false, err
	}
	l.list, l.listed.write = false, ""
	return len(fresh) > 0, l.removeEnded(ctx, v, made)
}

// has reports whether s is listed.
func (made *listing) has(s shard) bool {
	return slices.ContainsFunc(made.shards, func(o stream.Shard) bool { return o.ID == s.id })
}

// lost reports whether a new round has to begin: it was ordered, or records were removed from the stream, or may have been, before they were read.
func (v view) lost(made *listing) bool {
	if v.head.again || v.head.stream != made.name || time.Since(v.head.listed) > memory { // now, because the list may have taken long
		return true
	}
	return slices.ContainsFunc(v.shards, func(s shard) bool {
		_, part := s.part()
		return !part && !s.ended && !made.has(s)
	})
}

// removeEnded deletes the shards that have ended and that the stream no longer has.
func (l *loop) removeEnded(ctx context.Context, v view, made *listing) error {
	var keys []plan.Item
	for _, s := range v.shards {
		if _, part := s.part(); !part && s.ended && !made.has(s) {
			keys = append(keys, s.key(l.name))
		}
	}
	return l.remove(ctx, keys)
}

func (s *Subscriptions) remove(ctx context.Context, keys []plan.Item) error {
	if len(keys) == 0 {
		return nil
	}
	return driver.Fetch(ctx, func(ctx context.Context) error { return s.Executor.DeleteAll(ctx, s.Table, keys) })
}
