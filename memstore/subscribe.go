package memstore

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
)

const (
	shards         = 4   // of a subscription: ranges of slices
	deliveryEvents = 100 // at most in a delivery
)

// subscriptions are those of a backend, by name. Its lock is taken after that of the data.
type subscriptions struct {
	mu     sync.Mutex
	byName map[string]*subscription
}

// subscription is what the consumers of one name share.
type subscription struct {
	filter    annals.Filter
	consumers []*consumer
	shards    [shards]shard
}

// consumer is one loop.
type consumer struct{ turn int } // the shard that is looked at first

// shard is a range of slices. It has one consumer at a time.
type shard struct {
	slices annals.SliceRange
	owner  *consumer // nil is none
	acked  progress  // up to the first delivery that is not acknowledged
	sent   progress  // up to the newest delivery
	open   []*delivery
	parked bool // the owner has more than its share, and gets no more until open is empty
}

// progress is the number up to which each entity has come.
type progress map[annals.PersistenceID]annals.SeqNr

// delivery is one that is not acknowledged, or follows one that is not.
type delivery struct {
	upTo  progress // of its entities
	acked bool
}

// Subscribe is ability.Subscriber. The shards of a loop are free when the loop ends.
func (v view) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		c, err := v.subscriptions.join(name, f)
		if err != nil {
			yield(ability.Delivery{}, err)
			return
		}
		defer v.watchers.Wake() // others can take its shards
		defer v.subscriptions.leave(name, c)
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		signals := v.watchers.Watch(waiting)
		v.watchers.Wake() // others can give it shards
		for {
			var next ability.Delivery
			err := driver.Fetch(ctx, func(ctx context.Context) error {
				next = v.deliver(name, c, f)
				return nil
			})
			switch {
			case err != nil:
				yield(ability.Delivery{}, err)
				return
			case next.Events != nil:
				if !yield(next, nil) {
					return
				}
				continue
			}
			if _, open := <-signals; !open {
				err := &annals.Error{Kind: annals.ErrClosed}
				if ctx.Err() != nil {
					err = &annals.Error{Kind: annals.ErrUnavailable, Err: ctx.Err()}
				}
				yield(ability.Delivery{}, err)
				return
			}
		}
	}
}

// deliver is the next delivery to c, without events when there is none.
func (v view) deliver(name string, c *consumer, f annals.Filter) ability.Delivery {
	d, unlock := v.read()
	defer unlock()
	v.subscriptions.mu.Lock()
	defer v.subscriptions.mu.Unlock()
	s := v.subscriptions.byName[name]
	if s.balance(c) {
		defer v.watchers.Wake()
	}
	for range shards {
		sh := &s.shards[c.turn]
		c.turn = (c.turn + 1) % shards
		if sh.owner != c || sh.parked {
			continue
		}
		if events, upTo := d.undelivered(sh, f); len(events) > 0 {
			maps.Copy(sh.sent, upTo)
			open := &delivery{upTo: upTo}
			sh.open = append(sh.open, open)
			return ability.Delivery{Events: events, Ack: func(context.Context) error {
				defer v.watchers.Wake() // c may give up the shard now
				return v.subscriptions.ack(sh, c, open)
			}}
		}
	}
	return ability.Delivery{}
}

// undelivered are the next events of sh that fit f, and the numbers up to which they are complete.
func (d *data) undelivered(sh *shard, f annals.Filter) (events []annals.Event, upTo progress) {
	var firsts []annals.Event // of each entity
	next := map[annals.PersistenceID][]annals.Event{}
	for id, st := range d.streams.all() {
		if !sh.slices.Contains(id.Slice()) {
			continue
		}
		for _, e := range st.events[index(st.events, sh.sent[id]+1):] {
			if matches(f, e.Offset(), e.Tags) {
				next[id] = append(next[id], e)
			}
		}
		if len(next[id]) > 0 {
			firsts = append(firsts, next[id][0])
		}
	}
	slices.SortFunc(firsts, func(a, b annals.Event) int { return a.Offset().Compare(b.Offset()) })
	upTo = progress{}
	for _, first := range firsts {
		of := next[first.ID]
		of = of[:min(len(of), deliveryEvents-len(events))]
		if len(of) == 0 {
			break
		}
		events = append(events, of...)
		upTo[first.ID] = of[len(of)-1].SeqNr
	}
	return events, upTo
}

func (s *subscriptions) join(name string, f annals.Filter) (*consumer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*subscription{}
	}
	of := s.byName[name]
	if of == nil {
		of = &subscription{filter: f}
		for i, r := range annals.SliceRanges(shards) {
			of.shards[i] = shard{slices: r, acked: progress{}, sent: progress{}}
		}
		s.byName[name] = of
	}
	if of.filter != f {
		return nil, errFilter
	}
	c := &consumer{}
	of.consumers = append(of.consumers, c)
	return c, nil
}

func (s *subscriptions) leave(name string, c *consumer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.byName[name]
	of.consumers = slices.DeleteFunc(of.consumers, func(o *consumer) bool { return o == c })
	for i := range of.shards {
		if sh := &of.shards[i]; sh.owner == c {
			sh.owner, sh.open, sh.sent, sh.parked = nil, nil, maps.Clone(sh.acked), false
		}
	}
}

// balance takes free shards for c, up to its share, and gives up those beyond its share, each when all of its deliveries are acknowledged.
// It reports whether it has given up one.
func (s *subscription) balance(c *consumer) (freed bool) {
	share, own := (shards+len(s.consumers)-1)/len(s.consumers), 0
	for i := range s.shards {
		sh := &s.shards[i]
		if sh.owner != c {
			continue
		}
		sh.parked = own >= share
		if sh.parked && len(sh.open) == 0 {
			sh.owner, sh.parked, freed = nil, false, true
			continue
		}
		own++
	}
	for i := range s.shards {
		if sh := &s.shards[i]; sh.owner == nil && own < share {
			sh.owner = c
			own++
		}
	}
	return freed
}

// forget forgets how far id has come.
func (s *subscriptions) forget(id annals.PersistenceID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.byName {
		for i := range of.shards {
			delete(of.shards[i].acked, id)
			delete(of.shards[i].sent, id)
			for _, d := range of.shards[i].open {
				delete(d.upTo, id)
			}
		}
	}
}

var errFilter = &annals.Error{Kind: annals.ErrInvalid, Err: errors.New("the subscription has another filter")}

var errEnded = &annals.Error{Kind: annals.ErrFenced, Err: errors.New("the loop of the delivery has ended")}

// ack acknowledges d, which c got from sh.
func (s *subscriptions) ack(sh *shard, c *consumer, d *delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case d.acked:
		return nil
	case sh.owner != c || !slices.Contains(sh.open, d):
		return errEnded
	}
	d.acked = true
	for len(sh.open) > 0 && sh.open[0].acked {
		maps.Copy(sh.acked, sh.open[0].upTo)
		sh.open = sh.open[1:]
	}
	return nil
}
