package query_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/query"
)

// appendAs stores one event of an entity after the number after.
func appendAs(ctx context.Context, s annals.Store, id annals.PersistenceID, after annals.SeqNr, text string) error {
	_, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1, Data: []byte(text)}}}})
	return err
}

// A live query goes on until its loop ends.
func ExampleEvents() {
	if err := printEvents(context.Background(), memstore.New()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Thread|t-1 number 1: hello
	// Thread|t-2 number 1: good morning
	// Thread|t-1 number 2: bye
}

func printEvents(ctx context.Context, store annals.Store) error {
	written := make(chan error, 1)
	go func() {
		written <- func() error {
			if err := appendAs(ctx, store, "Thread|t-1", 0, "hello"); err != nil {
				return err
			}
			if err := appendAs(ctx, store, "Thread|t-2", 0, "good morning"); err != nil {
				return err
			}
			return appendAs(ctx, store, "Thread|t-1", 1, "bye")
		}()
	}()
	for event, err := range query.Events(ctx, store, annals.Filter{Type: "Thread"}, query.Options{}) {
		if err != nil {
			return err
		}
		fmt.Printf("%s number %d: %s\n", event.ID, event.SeqNr, event.Data)
		if string(event.Data) == "bye" {
			break
		}
	}
	return <-written
}

// send hands all events of threads to deliver, also after a restart, and saves how far it has come.
func send(ctx context.Context, store annals.Store, deliver func(annals.Event) error) error {
	positions, err := store.Offsets().Load(ctx, "send", annals.SliceRange{})
	if err != nil {
		return err
	}
	feed, err := query.NewFeed(store, annals.Filter{Type: "Thread"}, positions[0], query.Options{})
	if err != nil {
		return err
	}
	for {
		batch, err := feed.Next(ctx, 100)
		if err != nil {
			return err
		}
		step := annals.Progress{Projection: "send", Through: batch.Through}
		for _, event := range batch.Items {
			if err := deliver(event); err != nil {
				return err
			}
			step.Offsets = append(step.Offsets, event.Offset())
		}
		if err := store.Offsets().Save(ctx, step); err != nil {
			return err
		}
	}
}

// A loop of one's own with a Feed: each event is delivered at least once, and again when the loop ended before its position was saved.
func ExampleFeed() {
	ctx, store := context.Background(), memstore.New()
	for after, text := range []string{"hello", "bye"} {
		if err := appendAs(ctx, store, "Thread|t-1", annals.SeqNr(after), text); err != nil {
			fmt.Println(err)
		}
	}
	broken := true
	for range 2 {
		fmt.Println(send(ctx, store, func(e annals.Event) error {
			switch {
			case e.SeqNr == 2 && broken:
				broken = false
				return errors.New("the network is broken")
			case e.SeqNr == 2:
				return errors.New("that was all")
			}
			fmt.Printf("number %d: %s\n", e.SeqNr, e.Data)
			return nil
		}))
	}
	// Output:
	// number 1: hello
	// the network is broken
	// number 1: hello
	// that was all
}
