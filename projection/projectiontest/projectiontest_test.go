package projectiontest_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/projection/projectiontest"
)

type envelope = projection.Envelope[string]

var (
	words = codec.JSON[string]("word")
	quiet = projection.Options{Logger: slog.New(slog.DiscardHandler)}
)

// What is written to the transaction is there once, although each event was handled twice.
func TestRedeliverExactlyOnce(t *testing.T) {
	t.Parallel()
	journal, store := projectiontest.NewJournal(t, words), memstore.New()
	var mu sync.Mutex
	beside := 0 // what a handler must not do
	r, err := projection.ExactlyOnce("p", journal.Source(), projectiontest.Redeliver(store), func(_ context.Context, tx memstore.Tx, e envelope) error {
		mu.Lock()
		defer mu.Unlock()
		beside++
		before, _ := tx.Value(string(e.ID)).([]string)
		tx.SetValue(string(e.ID), append(slices.Clone(before), e.Value))
		return nil
	}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		journal.Append("T|1", "a", "b")
		journal.Append("T|2", "c")
		projectiontest.CatchUp(t, r)
	}
	for id, want := range map[string][]string{"T|1": {"a", "b", "a", "b"}, "T|2": {"c", "c"}} {
		if got, _ := store.Value(id).([]string); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", id, got, want)
		}
	}
	if beside != 12 {
		t.Errorf("6 events were handled %d times, want 12", beside)
	}
}

// Each event is handled twice, with its number, time, tags and metadata.
func TestRedeliverAtLeastOnce(t *testing.T) {
	t.Parallel()
	journal := projectiontest.NewJournal(t, words)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	journal.Append("T|1", "a", "b")
	payload, err := words.Encode("c")
	if err != nil {
		t.Fatal(err)
	}
	_, err = journal.Source().Store.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: 2, Events: []annals.NewEvent{
		{Payload: payload, Tags: []string{"red"}, Metadata: annals.Payload{SerializerID: 1, Data: []byte("who")}, Time: at}}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		handled := map[annals.SeqNr][]envelope{}
		r, err := projection.AtLeastOnce("p", journal.Source(), projectiontest.Redeliver(memstore.New()), func(_ context.Context, e envelope) error {
			handled[e.SeqNr] = append(handled[e.SeqNr], e)
			return nil
		}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		projectiontest.CatchUp(t, r)
		for n := range annals.SeqNr(3) {
			if len(handled[n+1]) != 2 {
				t.Errorf("event %d was handled %d times, want twice", n+1, len(handled[n+1]))
			}
		}
		if e := handled[3][0]; e.Value != "c" || !slices.Equal(e.Tags, []string{"red"}) || string(e.Metadata.Data) != "who" || !e.Time.Equal(at) || e.ID != "T|1" {
			t.Errorf("got %+v", e)
		}
	}
}

// Two projections are handled twice in one store, also at the same time.
func TestRedeliverToTwoProjections(t *testing.T) {
	t.Parallel()
	journal, store := projectiontest.NewJournal(t, words), projectiontest.Redeliver(memstore.New())
	journal.Append("T|1", "a")
	handled := map[string]int{}
	runner := func(name string, again func()) *projection.Runner {
		r, err := projection.AtLeastOnce(name, journal.Source(), store, func(context.Context, envelope) error {
			if handled[name]++; handled[name] == 2 {
				again()
			}
			return nil
		}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	second := runner("second", func() {})
	projectiontest.CatchUp(t, runner("first", func() { projectiontest.CatchUp(t, second) }))
	if handled["first"] != 2 || handled["second"] != 2 {
		t.Errorf("the event was handled %v times, want twice each", handled)
	}
}

// After a Reset the events come again, with Rebuilding, and later ones without.
func TestReset(t *testing.T) {
	t.Parallel()
	journal := projectiontest.NewJournal(t, words)
	store, rebuilt := memstore.New(), 0
	r, err := projection.ExactlyOnce("p", journal.Source(), projectiontest.Redeliver(store), func(_ context.Context, tx memstore.Tx, e envelope) error {
		mails, _ := tx.Value("mails").([]string)
		if e.Rebuilding {
			rebuilt++
		} else {
			tx.SetValue("mails", append(slices.Clone(mails), e.Value))
		}
		return nil
	}, projection.Options{Ranges: 1, Logger: quiet.Logger})
	if err != nil {
		t.Fatal(err)
	}
	journal.Append("T|1", "a", "b")
	projectiontest.Reset(t, r)
	journal.Append("T|1", "c")
	projectiontest.CatchUp(t, r)
	if mails, _ := store.Value("mails").([]string); rebuilt != 4 || !slices.Equal(mails, []string{"a", "b", "c"}) {
		t.Errorf("mails %v, and %d events were rebuilt; want a, b and c, and 2 events twice", mails, rebuilt)
	}
}

// fatal is a testing.TB that notes the end of a test.
type fatal struct {
	testing.TB
	ended bool
}

func (f *fatal) Helper()               {}
func (f *fatal) Fatal(...any)          { f.ended = true }
func (f *fatal) Fatalf(string, ...any) { f.ended = true }

func TestCatchUpEndsTheTestOfAHandlerThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		journal := projectiontest.NewJournal(t, words)
		journal.Append("T|1", "a")
		for _, verdict := range []projection.Verdict{projection.Retry, projection.Stop} {
			o := quiet
			o.OnError = func(context.Context, projection.Failure) projection.Verdict { return verdict }
			r, err := projection.AtLeastOnce("p", journal.Source(), memstore.New(), func(context.Context, envelope) error { panic("always") }, o)
			if err != nil {
				t.Fatal(err)
			}
			f := &fatal{TB: t}
			if projectiontest.CatchUp(f, r); !f.ended {
				t.Errorf("%v: the test goes on", verdict)
			}
		}
	})
}
