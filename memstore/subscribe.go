package memstore

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/internal/watchers"
)

const deliveryEvents = 100 // at most in a delivery

// subscription is what the loops of one name share. Each entity is a shard: none of its events is delivered while a delivery of it is open.
type subscription struct {
	filter annals.Filter
	acked  progress
	open   []*delivery // that are not acknowledged
}

// progress is the number up to which each entity has come.
type progress map[annals.PersistenceID]annals.SeqNr

// delivery is one that was handed out.
type delivery struct {
	loop  <-chan annals.SliceRange // the signals of its loop
	upTo  progress
	acked bool
}

// Subscribe is ability.Subscriber. The entities of a loop are free when the loop ends.
func (v view) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		loop := v.watchers.Watch(waiting, f.Slices)
		defer v.watchers.Wake(watchers.Everywhere) // others can take its entities
		defer v.leave(name, loop)
		for {
			var next ability.Delivery
			err := driver.Fetch(ctx, func(context.Context) (err error) {
				next, err = v.deliver(name, f, loop)
				return err
			})
			if err == nil && next.Events == nil {
				<-loop // when it is closed, Fetch says why
			} else if !yield(next, err) || err != nil {
				return
			}
		}
	}
}

// deliver is the next delivery to loop, without events when there is none.
func (v view) deliver(name string, f annals.Filter, loop <-chan annals.SliceRange) (ability.Delivery, error) {
	data, unlock := v.read()
	defer unlock()
	s := v.subscriptions[name]
	if s == nil {
		s = &subscription{filter: f, acked: progress{}}
		v.subscriptions[name] = s
	}
	if s.filter != f {
		return ability.Delivery{}, errFilter
	}
	events := s.undelivered(data)
	if len(events) == 0 {
		return ability.Delivery{}, nil
	}
	d := &delivery{loop: loop, upTo: progress{}}
	for _, e := range events {
		d.upTo[e.ID] = e.SeqNr
	}
	s.open = append(s.open, d)
	return ability.Delivery{Events: events, Ack: func(context.Context) error {
		defer v.watchers.Wake(watchers.Everywhere) // others can take its entities
		v.mu.Lock()
		defer v.mu.Unlock()
		return s.ack(d)
	}}, nil
}

// undelivered are the next events, from the entity on that waits longest.
func (s *subscription) undelivered(data *data) (events []annals.Event) {
	taken := progress{}
	for _, d := range s.open {
		maps.Copy(taken, d.upTo)
	}
	var next [][]annals.Event // of each entity
	for id, st := range data.streams.all() {
		if taken[id] > 0 {
			continue
		}
		var fit []annals.Event
		for _, e := range st.events[index(st.events, s.acked[id]+1):] {
			if len(fit) < deliveryEvents && matches(s.filter, e.Offset(), e.Tags) {
				fit = append(fit, e)
			}
		}
		if fit != nil {
			next = append(next, fit)
		}
	}
	slices.SortFunc(next, func(a, b []annals.Event) int { return a[0].Offset().Compare(b[0].Offset()) })
	for _, fit := range next {
		events = append(events, limited(fit, deliveryEvents-len(events))...)
		if len(events) == deliveryEvents {
			break
		}
	}
	return events
}

var (
	errFilter = &annals.Error{Kind: annals.ErrInvalid, Err: errors.New("the subscription has another filter")}
	errEnded  = &annals.Error{Kind: annals.ErrFenced, Err: errors.New("the loop of the delivery has ended")}
)

// ack acknowledges d. It can be repeated.
func (s *subscription) ack(d *delivery) error {
	i := slices.Index(s.open, d)
	switch {
	case d.acked:
		return nil
	case i < 0:
		return errEnded
	}
	d.acked = true
	maps.Copy(s.acked, d.upTo)
	s.open = slices.Delete(s.open, i, i+1)
	return nil
}

// leave frees the entities of loop.
func (v view) leave(name string, loop <-chan annals.SliceRange) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.subscriptions[name]; s != nil {
		s.open = slices.DeleteFunc(s.open, func(d *delivery) bool { return d.loop == loop })
	}
}

// forget forgets how far id has come. The lock is held.
func (v view) forget(id annals.PersistenceID) {
	for _, s := range v.subscriptions {
		delete(s.acked, id)
		for _, d := range s.open {
			delete(d.upTo, id)
		}
	}
}
