package verify_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/verifytest"
	"github.com/annals-go/annals/lease"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/process"
	"github.com/annals-go/annals/projection"
	"github.com/annals-go/annals/verify"
)

// What the library keeps for projections, process managers and leases is found when they are none of those that run, and what has lost its record always.
func TestKeptForNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, s := t.Context(), memstore.New()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		source := projection.Source[string]{Store: s, Type: "T", Codec: codec.JSON[string]("text")}
		for n, text := range []string{"1", "2", "3"} {
			p, err := source.Codec.Encode(text)
			must(err)
			_, err = s.Journal().Append(ctx, annals.Commit{ID: "T|a", After: annals.SeqNr(n), Events: []annals.NewEvent{{Payload: p}}})
			must(err)
		}
		parking, err := projection.AtLeastOnce("parking", source, s, func(context.Context, projection.Envelope[string]) error { return errors.New("no") },
			projection.Options{OnError: func(context.Context, projection.Failure) projection.Verdict { return projection.Park }, Logger: slog.New(slog.DiscardHandler)})
		must(err)
		must(parking.CatchUp(ctx))
		must(parking.Control().Reset(ctx, annals.Offset{})) // keeps what waited
		must(parking.CatchUp(ctx))
		waiter := process.Process[string, string]{Type: "Waiter", Evolve: func(_, e string) string { return e }, React: func(string, process.Input) (process.Step[string], error) {
			return process.Step[string]{Timers: []process.Timer{{Name: "later", Due: time.Now().Add(time.Hour)}}}, nil
		}}
		manager, err := process.New(s, waiter, []process.Source{process.From(source, func(e projection.Envelope[string]) string { return e.ID.EntityID() })}, nil, process.Options{})
		must(err)
		running, stop := context.WithTimeout(ctx, 10*time.Second)
		defer stop()
		must(manager.Run(running)) // has leases
		must(lease.Run(ctx, s, "reports", lease.Options{}, func(context.Context, annals.SeqNr) error { return nil }))

		all := []string{"Waiter", "parking", "reports"}
		verifytest.Want(t, s, verify.Options{})
		verifytest.Want(t, s, verify.Options{Running: all})
		verifytest.Want(t, s, verify.Options{Running: all[1:]}, "unused annals.calendar|Waiter 0 0", "unused annals.lease|annals.calendar/Waiter 0 0",
			"unused annals.projection|Waiter/from/T 0 0 Waiter/from/T", "unused annals.projection|Waiter/steps 0 0 Waiter/steps")
		verifytest.Want(t, s, verify.Options{Running: all[:1]}, "unused annals.projection|parking 0 0 parking", "unused annals.lease|reports 0 0")

		// Without their records, timers and parked entities are found whatever runs.
		lost := memstore.New()
		for id, err := range s.Query().IDs(ctx, "annals.calendar-chunk", "") {
			must(err)
			copyState(t, s, lost, id)
		}
		slice := annals.PersistenceID("T|a").Slice()
		for _, id := range []string{"annals.parked-slices|parking", fmt.Sprintf("annals.parked|%d/parking", slice), "annals.parked-slices|annals.past|parking", fmt.Sprintf("annals.parked|%d/annals.past|parking", slice)} {
			copyState(t, s, lost, annals.PersistenceID(id))
		}
		found := map[string]int{}
		for step, err := range verify.Store(ctx, lost, verify.Options{}) {
			must(err)
			for _, f := range step.Found {
				found[string(f.Code)+" "+f.ID.Type()+" "+f.Projection]++
				if !strings.Contains(f.Error(), "which has no record") {
					t.Errorf("%s: %v", f.ID, f.Damage)
				}
			}
		}
		if len(found) != 3 || found["unused annals.calendar-chunk "] == 0 || found["unused annals.parked parking"] != 2 || found["unused annals.parked-slices parking"] != 2 {
			t.Errorf("found %v", found)
		}
	})
}

// copyState copies a durable state, which must be there.
func copyState(t *testing.T, from, to annals.Store, id annals.PersistenceID) {
	t.Helper()
	state, ok, err := from.States().Get(t.Context(), id)
	if err == nil && ok {
		_, err = to.States().Put(t.Context(), annals.StateWrite{ID: id, Payload: state.Payload})
	}
	if !ok || err != nil {
		t.Fatalf("%s: there is %v, %v", id, ok, err)
	}
}

// A position is compared with the events of the store that the projection reads.
func TestPositionsOfOtherStores(t *testing.T) {
	t.Parallel()
	positions, source := newStore(t), memstore.New()
	var newest time.Time
	for n := range annals.SeqNr(3) {
		r, err := source.Journal().Append(t.Context(), annals.Commit{ID: "T|a", After: n, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 31}}}})
		if err != nil {
			t.Fatal(err)
		}
		newest = r.Time
	}
	save := func(n annals.SeqNr) {
		t.Helper()
		p := annals.Progress{Projection: "p", Offsets: []annals.Offset{{Time: newest.Add(time.Duration(n) * time.Second), ID: "T|a", SeqNr: n}}}
		if err := positions.Offsets().Save(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	save(3)
	o := verify.Options{Running: []string{"p"}}
	verifytest.Want(t, positions, o, "position T|a 2 3 p") // the store has another entity with this id
	o.Sources = map[string]annals.Store{"p": source}
	verifytest.Want(t, positions, o)
	save(5)
	verifytest.Want(t, positions, o, "position T|a 4 5 p")
}

// later is a store in which a later version has written the events of T|new and the records of projections.
type later struct{ *memstore.Store }

type (
	laterJournal struct{ annals.Journal }
	laterStates  struct{ annals.StateStore }
)

func (s later) Journal() annals.Journal   { return laterJournal{s.Store.Journal()} }
func (s later) States() annals.StateStore { return laterStates{s.Store.States()} }

func (j laterJournal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	if id == "T|new" {
		return func(yield func(annals.Event, error) bool) {
			yield(annals.Event{}, &annals.Error{Op: "replay", ID: id, Kind: annals.ErrUnsupported})
		}
	}
	return j.Journal.Replay(ctx, id, from, to)
}

func (s laterStates) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	if id.Type() == "annals.projection" {
		return annals.State{}, false, &annals.Error{Op: "get", ID: id, Kind: annals.ErrUnsupported}
	}
	return s.StateStore.Get(ctx, id)
}

// What a later version has written does not end a run.
func TestRowsOfLaterVersions(t *testing.T) {
	t.Parallel()
	s := later{memstore.New()}
	r, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|new", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 31}}}})
	if err == nil {
		_, err = s.States().Put(t.Context(), annals.StateWrite{ID: "annals.parked|7/p", Payload: annals.Payload{SerializerID: 31, Data: []byte("{}")}})
	}
	if err == nil {
		err = s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Offsets: []annals.Offset{{Time: r.Time, ID: "T|new", SeqNr: 2}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, since := range []time.Time{{}, r.Time.Add(time.Hour)} {
		verifytest.Want(t, s, verify.Options{Running: []string{"p"}, Since: since})
	}
}

// A payload that cannot be decoded now, such as one whose key cannot be read, is no finding: the run ends, and can go on there.
func TestUnavailableCodec(t *testing.T) {
	t.Parallel()
	s, event := memstore.New(), annals.NewEvent{Payload: annals.Payload{SerializerID: 99}}
	for _, id := range []annals.PersistenceID{"T|a", "T|b"} {
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, Events: []annals.NewEvent{event, event}}); err != nil {
			t.Fatal(err)
		}
	}
	tries := 0
	o := verify.Options{Decode: func(id annals.PersistenceID, _ ability.Stored) error {
		if tries++; id == "T|b" {
			return &annals.Error{Op: "open a payload", Kind: annals.ErrUnavailable}
		}
		return nil
	}}
	var got error
	for step, err := range verify.Store(t.Context(), s, o) {
		if got = err; len(step.Found) > 0 {
			t.Errorf("found %v", step.Found[0])
		}
		o.After = step.After
	}
	if !errors.Is(got, annals.ErrUnavailable) || tries != 3 {
		t.Errorf("got %v after %d payloads, want ErrUnavailable after 3", got, tries)
	}
	o.Decode = func(id annals.PersistenceID, _ ability.Stored) error {
		if id == "T|a" {
			t.Error("T|a again")
		}
		return nil
	}
	verifytest.Want(t, s, o)
}

// A snapshot that no codec reads is another finding than the events after it. Of events and snapshots there are at most mostCodec findings, and of snapshots
// without events as many.
func TestCodecOfSnapshotAndEvents(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	unread := annals.Payload{SerializerID: 99}
	write := func(id annals.PersistenceID, n int, payload func(n int) annals.Payload) {
		t.Helper()
		for i := range n {
			if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, After: annals.SeqNr(i), Events: []annals.NewEvent{{Payload: payload(i + 1)}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("T|a", 7, func(int) annals.Payload { return unread })
	write("T|b", 400, func(n int) annals.Payload { return annals.Payload{SerializerID: int32(98 + n%2)} })
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|a", SeqNr: 5, Payload: unread}); err != nil {
		t.Fatal(err)
	}
	if err := s.Journal().DeleteTo(t.Context(), "T|a", 5); err != nil {
		t.Fatal(err)
	}
	for n := range 300 {
		if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|c", SeqNr: annals.SeqNr(2*n + 2), Payload: unread}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"codec T|a 5 5", "codec T|a 6 7"}
	for n := range 99 {
		want = append(want, fmt.Sprintf("codec T|b %d %d", 2*n+1, 2*n+1), fmt.Sprintf("codec T|c %d %[1]d", 600-2*n), fmt.Sprintf("orphan T|c %d %[1]d", 600-2*n))
	}
	want = append(want, "codec T|b 199 399", "codec T|c 2 402", "orphan T|c 2 402")
	verifytest.Want(t, s, verify.Options{Decode: func(_ annals.PersistenceID, p ability.Stored) error {
		if p.Payload.SerializerID == 99 {
			return errors.New("no codec reads it")
		}
		return nil
	}}, want...)
}
