package subscription

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/stream"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/quote"
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
		if errors.Is(err, annals.ErrInvalid) {
			l.listing = nil // the stream, or the shard before the page, does not exist any more
		}
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
	next := head{filter: filterText(l.filter), stream: made.name, listed: made.at}
	if v.head != nil {
		next.round, next.write = v.head.round, v.head.write
	}
	next.round++
	var all []shard
	for n := range parts {
		all = append(all, shard{round: next.round, id: fmt.Sprint(catchUp, " ", n), since: made.at})
	}
	return l.register(ctx, next, made.at, append(all, joined(nil, made, next)...))
}

// order says in the head that a new round has to begin after round, or after any when that is 0.
func (s *Subscriptions) order(ctx context.Context, name string, round int64) error {
	for try := 0; ; try++ {
		v, err := load(ctx, s.Executor, s.Table, name)
		switch {
		case err != nil:
			return err
		case v.head == nil:
			return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("there is no subscription %s", quote.Text(name))}
		case round != 0 && round != v.head.round:
			return nil
		}
		next := *v.head
		next.listed, next.write = time.Unix(0, 0), newWrite()
		err = s.write(ctx, plan.Write{Ops: []plan.Op{s.swap(next.item(name), v.head.write)}})
		if !errors.Is(err, annals.ErrConflict) {
			return err
		}
		if err := backoff.Wait(ctx, try); err != nil { // a loop has written the head
			return &annals.Error{Kind: annals.ErrUnavailable, Err: err}
		}
	}
}

// joined are the shards of the stream that known does not have, in the round of stored, each after its parent. They were not in the list before:
// none of them has a record from before that list. Those whose parent is not known follow the catch-up.
func joined(known []shard, made *listing, stored head) (all []shard) {
	parents := map[string]string{}
	for _, s := range known {
		parents[s.id] = s.parent
	}
	for _, s := range made.shards {
		if _, there := parents[s.ID]; !there {
			all = append(all, shard{round: stored.round, id: s.ID, parent: s.Parent, since: stored.listed})
		}
	}
	for _, s := range all {
		parents[s.id] = s.parent
	}
	for i := range all {
		if _, there := parents[all[i].parent]; !there {
			all[i].parent = catchUp
		}
	}
	depth := func(s shard) (n int) {
		for id, there := s.parent, true; there && n < len(parents); id, there = parents[id] {
			n++
		}
		return n
	}
	slices.SortFunc(all, func(a, b shard) int { return cmp.Compare(depth(a), depth(b)) })
	return all
}

// registered is how many shards are stored in one transaction.
const registered = 90

// register stores h in place of the head that has stored h.write, and shards, parents first. listed becomes the time of the head with the last of
// them.
func (l *loop) register(ctx context.Context, h head, listed time.Time, shards []shard) error {
	for {
		some := shards[:min(len(shards), registered)]
		if shards = shards[len(some):]; len(shards) == 0 {
			h.listed = listed
		}
		seen := h.write
		h.write = newWrite()
		w := plan.Write{Ops: []plan.Op{l.swap(h.item(l.name), seen)}}
		for _, s := range some {
			s.write = newWrite()
			w.Ops = append(w.Ops, plan.Op{Table: l.Table, Put: s.item(l.name)})
		}
		if err := l.write(ctx, w); err != nil || len(shards) == 0 {
			return err
		}
	}
}

// listIfDue lists the shards of the stream and stores those that are new, unless another loop did within the lease. It is false when nothing
// has changed but the time.
func (l *loop) listIfDue(ctx context.Context, v view) (changed bool, err error) {
	if l.listed.write != v.head.write {
		l.listed.write, l.listed.at = v.head.write, time.Now()
		l.listing = nil // another loop may have stored shards that were not listed yet
	}
	if !v.outdated() && !l.list && time.Since(l.listed.at) < l.Lease {
		return false, nil
	}
	made, err := l.listShards(ctx)
	switch {
	case made == nil:
		return false, err
	case v.lost(made):
		return true, l.begin(ctx, v, made)
	}
	fresh := joined(v.shards, made, *v.head)
	if err := l.register(ctx, *v.head, made.at, fresh); err != nil {
		return false, err
	}
	l.list, l.listed.write = false, ""
	var ended []plan.Item
	for _, s := range v.unlisted(made) {
		ended = append(ended, s.key(l.name))
	}
	return len(fresh) > 0, l.remove(ctx, ended)
}

// unlisted are the shards of v that the stream does not have any more.
func (v view) unlisted(made *listing) []shard {
	return slices.DeleteFunc(slices.Clone(v.shards), func(s shard) bool {
		_, part := s.part()
		return part || slices.ContainsFunc(made.shards, func(o stream.Shard) bool { return o.ID == s.id })
	})
}

// outdated reports whether the stream may have removed records that no list of shards led to. A new round that is ordered looks like that.
func (v view) outdated() bool { return time.Since(v.head.listed) > memory }

// lost reports whether a new round has to begin: records were removed from the stream, or may have been, before they were read.
func (v view) lost(made *listing) bool {
	return v.head.stream != made.name || v.outdated() || slices.ContainsFunc(v.unlisted(made), func(s shard) bool { return !s.ended })
}

func (s *Subscriptions) remove(ctx context.Context, keys []plan.Item) error {
	if len(keys) == 0 {
		return nil
	}
	return driver.Fetch(ctx, func(ctx context.Context) error { return s.Executor.DeleteAll(ctx, s.Table, keys) })
}

// memory is how long the stream is relied on to have its records, and its shards after they were created. The service keeps them for 24
// hours; the rest is for clocks that differ.
const memory = 20 * time.Hour
