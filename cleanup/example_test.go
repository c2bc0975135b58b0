package cleanup_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/memstore"
)

// threads is a store with three threads of four events each, of which two have a snapshot of the third.
func threads(ctx context.Context) annals.Store {
	store := memstore.New()
	text := annals.Payload{SerializerID: 1, Data: []byte("hi")}
	for _, id := range []annals.PersistenceID{"Thread|a", "Thread|b", "Thread|c"} {
		c := annals.Commit{ID: id, Events: []annals.NewEvent{{Payload: text}, {Payload: text}, {Payload: text}, {Payload: text}}}
		if _, err := store.Journal().Append(ctx, c); err != nil {
			log.Fatal(err)
		}
		if id == "Thread|c" {
			continue
		}
		if err := store.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 3, Payload: text}); err != nil {
			log.Fatal(err)
		}
	}
	return store
}

// Deletes the events that no recovery needs: first a dry run, then a real one.
func ExampleCleaner_DeleteBeforeSnapshot() {
	ctx := context.Background()
	store := threads(ctx)
	for _, dry := range []bool{true, false} {
		c, err := cleanup.New(store, cleanup.Options{DryRun: dry, Concurrency: 2, PerSecond: 500})
		if err != nil {
			fmt.Println(err)
			return
		}
		report, err := c.DeleteBeforeSnapshot(ctx, store.Query().IDs(ctx, "Thread", ""))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("dry %v: %d events of %d threads\n", dry, report.Events, report.Entities)
	}
	// Output:
	// dry true: 6 events of 3 threads
	// dry false: 6 events of 3 threads
}

// A run that was cancelled is continued after the last entity that it had processed.
func ExampleReport_resume() {
	ctx := context.Background()
	store := threads(ctx)
	first, stop := context.WithCancel(ctx)
	c, err := cleanup.New(store, cleanup.Options{
		Concurrency: 1,
		Progress: func(done cleanup.Result, _ cleanup.Report) {
			fmt.Println("done:", done.ID)
			if done.ID == "Thread|b" {
				stop()
			}
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := c.DeleteEvents(first, store.Query().IDs(first, "Thread", ""), 2)
	fmt.Println(errors.Is(err, context.Canceled), report.Last)

	report, err = c.DeleteEvents(ctx, store.Query().IDs(ctx, "Thread", report.Last), 2)
	fmt.Println(err, report.Last)
	// Output:
	// done: Thread|a
	// done: Thread|b
	// true Thread|b
	// done: Thread|c
	// <nil> Thread|c
}

// Each entity that failed is listed with its error; the others are done.
func ExampleError() {
	ctx := context.Background()
	store := threads(ctx)
	c, err := cleanup.New(store, cleanup.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.DeleteEntities(ctx, cleanup.IDs("Thread|a", "", "Thread|b"))
	if e := (*cleanup.Error)(nil); errors.As(err, &e) {
		for _, f := range e.Failed {
			fmt.Println(f.Err)
		}
		fmt.Println(e.Report.Entities, "dealt with,", e.Report.Failed, "failed")
	}
	// Output:
	// annals: get state: invalid: the persistence id is empty
	// 3 dealt with, 1 failed
}

// The first run deletes. A second run, at least a quarter of an hour later, forgets.
func ExampleCleaner_ForgetEntities() {
	ctx := context.Background()
	store := threads(ctx)
	c, err := cleanup.New(store, cleanup.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := c.ForgetEntities(ctx, store.Query().IDs(ctx, "Thread", ""))
	fmt.Println(report.Events, "events deleted,", report.Waiting, "to forget later,", report.Forgotten, "forgotten,", err)
	// Output: 12 events deleted, 3 to forget later, 0 forgotten, <nil>
}
