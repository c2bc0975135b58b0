package readmodel

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
)

// pushing is a store that pushes its events, and cannot be queried for them. Of its acknowledgements, the first ones fail.
type pushing struct {
	*memstore.Store
	failures *atomic.Int64
}

func newPushing() pushing { return pushing{memstore.New(), new(atomic.Int64)} }

func (p pushing) Capabilities() annals.Capabilities {
	c := p.Store.Capabilities()
	c.EventQueries = false
	return c
}

func (p pushing) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		for d, err := range p.Store.Unwrap().(ability.Subscriber).Subscribe(ctx, name, f) {
			ack := d.Ack
			d.Ack = func(ctx context.Context) error {
				if p.failures.Add(-1) >= 0 {
					return errors.New("the process ends before the acknowledgement")
				}
				return ack(ctx)
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// runs runs the model until stop is called.
func runs(t *testing.T, m *Model, journal annals.Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var server sync.WaitGroup
	server.Go(func() {
		if err := m.Run(ctx, journal, projection.Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); server.Wait() }
	t.Cleanup(stop)
	return stop
}

// awaitFold waits until the rows are the fold of the events.
func awaitFold(t *testing.T, m *Model, journal annals.Store) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-look.C {
		total, err := m.Compare(t.Context(), journal)
		if err == nil && total.Messages > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%+v, %v", total, err)
		}
	}
}

// An event whose acknowledgement was lost is delivered again, and changes nothing: also when another server gets it, and after a restart.
func TestUpdaterHandlesOnce(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m, journal := open(t, in), newPushing()
		chatter(t, journal.Store, 200)
		journal.failures.Store(2)
		stop := runs(t, m, journal)
		awaitFold(t, m, journal)
		runs(t, m, journal)
		post(t, journal, 1)
		awaitMessage(t, m, 1)
		stop()
		post(t, journal, 2)
		awaitMessage(t, m, 2)
		awaitFold(t, m, journal)
		if journal.failures.Load() >= 0 {
			t.Error("no acknowledgement was lost")
		}
	})
}

// Events that were handled before are left out, one by one. An event that does not follow them is refused, with all of its delivery.
func TestUpdaterCounts(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m := open(t, in)
		u := m.updater(newPushing(), 1, projection.Options{})
		events := stored(t, talk)
		for i, c := range []struct {
			delivery []annals.Event
			refused  bool
			handled  int64
		}{
			{events[1:3], true, 0},
			{events[:3], false, 3},
			{events[:3], false, 3},
			{events[1:5], false, 5},
			{slices.Concat(events[5:6], events[7:8]), true, 5},
			{events[6:], true, 5},
			{events, false, int64(len(events))},
			{events[:1], false, int64(len(events))},
		} {
			if err := u.update(t.Context(), c.delivery); (err != nil) != c.refused {
				t.Errorf("case %d: %v", i, err)
			}
			if got, err := m.handled(t.Context(), 1); err != nil || got["t"] != c.handled {
				t.Errorf("case %d: handled up to %d, %v, want %d", i, got["t"], err, c.handled)
			}
		}
		page, _, err := m.Messages(t.Context(), "t", 0, 10)
		ids := make([]string, len(page))
		for i, message := range page {
			ids[i] = message.ID
		}
		if err != nil || !slices.Equal(ids, []string{"m-1", "m-3", "m-4"}) {
			t.Errorf("messages %q, %v", ids, err)
		}
	})
}

// Read models in two databases follow the same events. Neither takes those of the other.
func TestUpdatersOfTwoDatabases(t *testing.T) {
	t.Parallel()
	journal := newPushing()
	chatter(t, journal.Store, 100)
	for range 2 {
		m := open(t, openStore(t, "sqlite://"+filepath.ToSlash(filepath.Join(t.TempDir(), "chat.db"))))
		runs(t, m, journal)
		awaitFold(t, m, journal)
	}
}

// stored returns events as they are in the journal of the thread "t".
func stored(t *testing.T, values []chat.Event) []annals.Event {
	t.Helper()
	var events []annals.Event
	for i, v := range values {
		p, err := chat.Events.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, annals.Event{ID: chat.Behavior.ID("t"), SeqNr: annals.SeqNr(i + 1), Time: begun, Payload: p})
	}
	return events
}

// A rebuild from a store that pushes its events begins with the first event, while a server runs and events are written.
func TestRebuildPushed(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m, journal := open(t, in), newPushing()
		chatter(t, journal.Store, 200)
		stop := runs(t, m, journal)
		awaitFold(t, m, journal)
		execute(t, m, `UPDATE chat_member SET unread = unread + 1`)
		for n := int64(1); n <= 2; n++ {
			post(t, journal, n)
			if err := m.Rebuild(t.Context(), journal, projection.Options{Logger: slog.New(slog.DiscardHandler)}, nil); err != nil {
				t.Fatal(err)
			}
			if now, err := m.generation(t.Context()); err != nil || now != n+1 {
				t.Errorf("generation %d, %v", now, err)
			}
		}
		post(t, journal, 9)
		awaitMessage(t, m, 9) // the server handles it
		awaitFold(t, m, journal)
		stop()
		old := 0
		err := m.in.Read(t.Context(), func(scan func(...any) error) error { return scan(&old) }, `SELECT count(*) FROM chat_handled WHERE generation < 2`)
		if err != nil || old > 0 {
			t.Errorf("%d old rows, %v", old, err)
		}
	})
}

// A generation that is behind does not become the current one.
func TestRebuildPushedFails(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, in annals.Store) {
		m, journal := open(t, in), newPushing()
		if err := m.updater(journal, 1, projection.Options{}).update(t.Context(), stored(t, talk)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := m.Rebuild(ctx, journal, projection.Options{Logger: slog.New(slog.DiscardHandler)}, nil); err == nil {
			t.Error("a rebuild ended well without the events of the current generation")
		}
		if now, err := m.generation(t.Context()); err != nil || now != 1 {
			t.Errorf("generation %d, %v", now, err)
		}
	})
}
