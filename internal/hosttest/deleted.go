package hosttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/entity"
)

// Deleted has two runtimes on s, which is an ability.Skipper. Both have an account in memory when another process deletes the account. Neither answers
// or writes from its memory.
func Deleted(t *testing.T, s annals.Store) {
	t.Helper()
	for _, retention := range []bool{false, true} {
		for _, reads := range []bool{false, true} {
			name := fmt.Sprintf("DeleteEvents %v, reads first %v", retention, reads)
			t.Run(name, func(t *testing.T) {
				if err := deleted(t.Context(), s, name, retention, reads); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func deleted(ctx context.Context, s annals.Store, id string, retention, reads bool) error {
	b := bankAccounts
	if !s.Capabilities().Snapshots {
		b.SnapshotEvery, retention = 0, false
	}
	repository, err := aggregate.New(s, b, aggregate.Options{DeleteEvents: retention, SingleOwner: true}) // the test waits for each write
	if err != nil {
		return err
	}
	for sum := 10; sum <= 30; sum += 10 {
		if n, err := repository.Ask(ctx, id, 10); n != sum || err != nil {
			return fmt.Errorf("deposit: %d, %w, want %d", n, err, sum)
		}
	}
	if err := repository.Wait(ctx); err != nil {
		return err
	}
	b.SnapshotEvery = 0
	var runtimes [2]*entity.Runtime[any, bankAccount, int]
	for i := range runtimes {
		if runtimes[i], err = entity.New(s, b, entity.Options{}); err != nil {
			return err
		}
	}
	ask := func(i int, c any, want int) error {
		if n, err := runtimes[i].Ask(ctx, id, c); n != want || err != nil {
			return fmt.Errorf("command %v to runtime %d: %d, %w, want %d", c, i+1, n, err, want)
		}
		return nil
	}
	if err := errors.Join(ask(0, nil, 30), ask(1, nil, 30)); err != nil {
		return err
	}
	cleaner, err := cleanup.New(s, cleanup.Options{NoWriters: true}) // at this moment
	if err != nil {
		return err
	}
	if report, err := cleaner.DeleteEntities(ctx, cleanup.IDs(b.ID(id))); err != nil || report.Events == 0 && report.Snapshots == 0 {
		return fmt.Errorf("delete: %+v, %w", report, err)
	}
	if reads {
		if err := ask(1, nil, 0); err != nil {
			return err
		}
	}
	if err := ask(0, 7, 7); err != nil {
		return err
	}
	return ask(1, 1, 8)
}

// SkipBesideAnAppend appends an event beside a skip after the same number, on s, which is an ability.Skipper with transactions of any size. One of them
// succeeds, and a skip that meets the append has deleted nothing.
func SkipBesideAnAppend(t *testing.T, s annals.Store) {
	t.Helper()
	skipper, err := ability.Of[ability.Skipper](s)
	if err != nil {
		t.Fatal(err)
	}
	write := func(id annals.PersistenceID, after annals.SeqNr, n int) error {
		c := annals.Commit{ID: id, After: after, Events: make([]annals.NewEvent, n), WriteID: annals.NewWriteID()}
		for i := range c.Events {
			c.Events[i].Payload = annals.Payload{SerializerID: 4}
		}
		_, err := s.Journal().Append(t.Context(), c)
		return err
	}
	count := func(id annals.PersistenceID) (events int) {
		for _, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
			if events++; err != nil {
				t.Error(err)
			}
		}
		return events
	}
	for round := range 100 {
		// In some rounds the skip is after the number of the event that is appended, and there are more events than a store deletes at once.
		last, after := annals.SeqNr(3), annals.SeqNr(3)
		if round%5 == 4 {
			last, after = 400, 401
		}
		id := annals.NewPersistenceID("Skipped", fmt.Sprint(round))
		if err := write(id, 0, int(last)); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		var skipped, appended error
		both.Go(func() { skipped = skipper.SkipTo(t.Context(), id, after, after+1) })
		both.Go(func() {
			for range round % 4 { // later in some rounds
				_, _ = s.Journal().LastSeqNr(t.Context(), id)
			}
			appended = write(id, last, 1)
		})
		both.Wait()
		events := count(id)
		if (appended == nil) == (skipped == nil) && after == last || skipped != nil && events != int(last)+1 || skipped == nil && events != 0 {
			t.Errorf("append after %d: %v, skip after %d: %v, %d events", last, appended, after, skipped, events)
		}
	}
	for _, n := range []annals.SeqNr{256, 257, 1000, 1001, 2400} { // about what stores delete at once
		id := annals.NewPersistenceID("Skipped", fmt.Sprint("many-", n))
		for after := annals.SeqNr(0); after < n; after += 400 {
			if err := write(id, after, int(min(n-after, 400))); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := skipper.SkipTo(t.Context(), id, n, n+1); err != nil || count(id) > 0 {
				t.Errorf("skip after %d events: %v, and there are %d", n, err, count(id))
			}
		}
	}
}
