package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/examples/orders/order"
	"github.com/annals-go/annals/examples/orders/stock"
)

// copyEvents copies an entity that to does not have. Its events keep their numbers, and their times if from claims Times and to claims
// EventTimes. DynamoDB tables with an index, and those of the Akka plugins there, do not claim EventTimes.
func copyEvents(ctx context.Context, from, to annals.Store, id annals.PersistenceID) error {
	last, err := from.Journal().LastSeqNr(ctx, id)
	if err != nil || last == 0 {
		return err
	}
	commit := annals.Commit{ID: id, After: last} // where all events were deleted
	for e, err := range from.Journal().Replay(ctx, id, 1, last) {
		if err != nil {
			return err
		}
		if len(commit.Events) == 0 {
			commit.After = e.SeqNr - 1
		}
		if n := commit.After + annals.SeqNr(len(commit.Events)) + 1; e.SeqNr != n {
			return fmt.Errorf("copy %q: number %d is unused, so the events after it would get other numbers", id, n)
		}
		commit.Events = append(commit.Events, annals.NewEvent{Payload: e.Payload, Tags: e.Tags, Metadata: e.Metadata, Time: e.Time})
	}
	if commit.After > 0 { // the first events were deleted
		skipper, err := ability.Of[ability.Skipper](to)
		if err != nil {
			return err
		}
		if err := skipper.SkipTo(ctx, id, 0, commit.After); err != nil {
			return err
		}
	}
	if len(commit.Events) == 0 {
		return nil
	}
	_, err = to.Journal().Append(ctx, commit)
	return err
}

// copyState copies a state that to does not have. It keeps its revision, also when it was deleted.
func copyState(ctx context.Context, from, to annals.Store, id annals.PersistenceID) error {
	state, ok, err := from.States().Get(ctx, id)
	if err != nil {
		return err
	}
	before := state.Revision
	if ok {
		before--
	}
	if before > 0 {
		skipper, err := ability.Of[ability.StateSkipper](to)
		if err != nil {
			return err
		}
		if err := skipper.SkipStateTo(ctx, id, before); err != nil {
			return err
		}
	}
	if !ok {
		return nil
	}
	_, err = to.States().Put(ctx, annals.StateWrite{ID: id, After: before, Payload: state.Payload, Tags: state.Tags, Metadata: state.Metadata})
	return err
}

// showCopy copies an order and a stock from the memory of another program to the store.
func (s *shop) showCopy(ctx context.Context, prefix string, out io.Writer) error {
	memory, err := openMemory(ctx, nil, nil)
	if err != nil {
		return err
	}
	other, err := newShop(memory, newTraces())
	if err != nil {
		return err
	}
	defer func() { _ = other.close(ctx) }()
	id, pad := prefix+"6", prefix+"felt"
	for range 7 {
		if _, err := other.stocks.Ask(ctx, pad, 1); err != nil {
			return err
		}
	}
	if err := other.place(ctx, id, order.Place{Customer: "bob", Item: pad, Pieces: 1}); err != nil {
		return err
	}
	if _, err := other.orders.Ask(ctx, id, order.Pay{}); err != nil {
		return err
	}
	if err := other.store.Journal().DeleteTo(ctx, order.Behavior.ID(id), 1); err != nil {
		return err
	}

	if err := copyEvents(ctx, other.store, s.store, order.Behavior.ID(id)); err != nil {
		return err
	}
	if err := copyState(ctx, other.store, s.store, stock.Behavior.ID(pad)); err != nil {
		return err
	}
	was, err := only(ctx, other.store, order.Behavior.ID(id))
	if err != nil {
		return err
	}
	is, err := only(ctx, s.store, order.Behavior.ID(id))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the event has number %d; it has the same time: %t\n", is.SeqNr, is.Time.Equal(was.Time))

	state, _, err := s.store.States().Get(ctx, stock.Behavior.ID(pad))
	fmt.Fprintf(out, "the stock has revision %d\n", state.Revision)
	return err
}

// only is the only event of an entity that is not deleted.
func only(ctx context.Context, s annals.Store, id annals.PersistenceID) (event annals.Event, err error) {
	for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
		return e, err
	}
	return event, errors.New("there is no event")
}
