package projection_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// report prints how far a projection has come. It may run in any process that can open the stores.
func report(ctx context.Context, positions, events annals.Store) error {
	c := projection.NewControl(positions, "messages")
	s, err := c.Status(ctx, events)
	if err != nil {
		return err
	}
	fmt.Printf("%d events to handle, the oldest is %v old; %d parked entities\n", s.Lag, s.LagTime.Round(time.Second), s.Parked)
	for _, r := range s.Ranges {
		fmt.Printf("slices %s, runner %q: %d events to handle after %s\n", r.Slices, r.Runner, r.Lag, r.Through.Time.Format(time.DateTime))
	}
	return nil
}

// listParked prints the parked entities.
func listParked(ctx context.Context, c *projection.Control) error {
	for x, err := range c.Parked(ctx, "") {
		if err != nil {
			return err
		}
		fmt.Printf("%s waits from event %d on: %s %s\n", x.ID, x.From, x.Kind, x.Error)
	}
	return nil
}

// An event that cannot be handled parks its entity. The events of other entities are handled, and those of the entity wait until it is
// retried.
func ExampleControl() {
	ctx, store := context.Background(), memstore.New()
	bug := true
	source := projection.Source[Posted]{Store: store, Type: "Thread", Codec: posted}
	handle := func(_ context.Context, tx memstore.Tx, e projection.Envelope[Posted]) error {
		if bug && e.Value.Text == "" {
			return errors.New("a message without a text")
		}
		n, _ := tx.Value(e.Value.Author).(int)
		tx.SetValue(e.Value.Author, n+1)
		return nil
	}
	runner, err := projection.ExactlyOnce("messages", source, store, handle, projection.Options{
		OnError: func(_ context.Context, f projection.Failure) projection.Verdict {
			if f.Try < 3 || annals.SafeToRetry(f.Err) {
				return projection.Retry
			}
			return projection.Park
		},
		ErrorText: error.Error, // this one contains nothing that is secret
		Logger:    silent,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := errors.Join(
		post(ctx, store, "t-1", "ann", "hello", "", "are you there?"),
		post(ctx, store, "t-2", "bob", "hello"),
		runner.CatchUp(ctx),
	); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ann:", store.Value("ann"), "bob:", store.Value("bob"))
	if err := listParked(ctx, runner.Control()); err != nil {
		fmt.Println(err)
		return
	}

	bug = false
	if err := errors.Join(runner.Control().Retry(ctx, "Thread|t-1"), runner.CatchUp(ctx)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("ann:", store.Value("ann"), "bob:", store.Value("bob"))
	// Output:
	// ann: 1 bob: 1
	// Thread|t-1 waits from event 2 on:  a message without a text
	// ann: 3 bob: 1
}

// resetMessages fills an empty read model again. empty deletes its rows.
func resetMessages(ctx context.Context, store annals.Store, empty func(ctx context.Context) error) error {
	c := projection.NewControl(store, "messages")
	if err := c.Pause(ctx); err != nil {
		return err
	}
	if err := empty(ctx); err != nil {
		return err
	}
	if err := c.Reset(ctx, annals.Offset{}); err != nil {
		return err
	}
	return c.Resume(ctx)
}

func ExampleControl_Reset() {
	ctx, store := context.Background(), memstore.New()
	source := projection.Source[Posted]{Store: store, Type: "Thread", Codec: posted}
	runner, err := projection.ExactlyOnce("messages", source, store, func(_ context.Context, tx memstore.Tx, e projection.Envelope[Posted]) error {
		n, _ := tx.Value(e.Value.Author).(int)
		tx.SetValue(e.Value.Author, n+1)
		return nil
	}, projection.Options{Logger: silent, Ranges: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := errors.Join(post(ctx, store, "t-1", "ann", "hello", "are you there?"), runner.CatchUp(ctx)); err != nil {
		fmt.Println(err)
		return
	}
	empty := func(ctx context.Context) error {
		return store.InTx(ctx, func(_ context.Context, tx memstore.Tx, _ annals.Store) error {
			tx.SetValue("ann", nil)
			return nil
		})
	}
	if err := resetMessages(ctx, store, empty); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("after the reset:", store.Value("ann"))
	if err := report(ctx, store, store); err != nil {
		fmt.Println(err)
		return
	}
	if err := runner.CatchUp(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("after catching up:", store.Value("ann"))
	// Output:
	// after the reset: <nil>
	// 2 events to handle, the oldest is 0s old; 0 parked entities
	// slices 0-1023, runner "": 2 events to handle after 0001-01-01 00:00:00
	// after catching up: 2
}

// The position of a projection is in another store than the events, and an entity is forgotten there, too.
func ExampleControl_Forget() {
	ctx, readModels := context.Background(), memstore.New()
	at := annals.Offset{ID: "Thread|t-1", SeqNr: 3}
	err := readModels.Offsets().Save(ctx, annals.Progress{Projection: "messages", Offsets: []annals.Offset{at}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := []annals.PersistenceID{"Thread|t-1"}
	err = projection.NewControl(readModels, "messages").Forget(ctx, ids...)
	handled, _ := readModels.Offsets().Handled(ctx, "messages", ids...)
	fmt.Printf("%q %v\n", handled[0].ID, err)
	// Output:
	// "" <nil>
}

// A new version of a projection fills a new read model while the old one is in use.
func ExampleRebuild() {
	ctx, store := context.Background(), memstore.New()
	source := projection.Source[Posted]{Store: store, Type: "Thread", Codec: posted}
	version := func(name string) (*projection.Runner, error) {
		return projection.ExactlyOnce(name, source, store, func(_ context.Context, tx memstore.Tx, e projection.Envelope[Posted]) error {
			n, _ := tx.Value(name + e.Value.Author).(int)
			tx.SetValue(name+e.Value.Author, n+1)
			return nil
		}, projection.Options{Logger: silent})
	}
	old, err := version("messages-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := errors.Join(post(ctx, store, "t-1", "ann", "hello"), old.CatchUp(ctx)); err != nil {
		fmt.Println(err)
		return
	}

	next, err := version("messages-2")
	if err != nil {
		fmt.Println(err)
		return
	}
	inUse := "messages-1"
	rebuild := projection.Rebuild{
		Old:  projection.NewControl(store, "messages-1"),
		Next: next,
		SwitchOver: func(context.Context) error {
			inUse = "messages-2"
			return nil
		},
		Progress: func(s projection.Status) { fmt.Println(s.Lag, "events to go") },
	}
	if err := rebuild.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(inUse, "has", store.Value(inUse+"ann"), "message of ann")
	// Output: messages-2 has 1 message of ann
}
