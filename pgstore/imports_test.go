package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// imported are events of the given times.
func imported(times ...time.Time) (events []annals.NewEvent) {
	for _, at := range times {
		events = append(events, annals.NewEvent{Payload: text("x"), Time: at})
	}
	return events
}

// A commit whose events have times of their own, in any order, is recognised when it is repeated, also after it was deleted.
func TestRepeatedImport(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	day := time.Date(2020, 5, 1, 12, 0, 0, 123456789, time.UTC)
	for name, times := range map[string][]time.Time{
		"one": {day}, "rising": {day, day.Add(time.Hour), day.Add(2 * time.Hour)}, "falling": {day, day.Add(-time.Hour), day.Add(-2 * time.Hour)},
		"equal": {day, day}, "some": {{}, day, {}}, "last": {{}, day},
	} {
		for after := range annals.SeqNr(3) {
			c := annals.Commit{ID: annals.NewPersistenceID("Import", fmt.Sprint(name, after)), After: after, Events: imported(times...), WriteID: annals.NewWriteID()}
			for n := range after {
				appendOne(t, s, c.ID, n)
			}
			first, err := s.Journal().Append(t.Context(), c)
			if err != nil || first.Repeated || first.SeqNr != after+annals.SeqNr(len(times)) {
				t.Fatalf("%s after %d: %+v, %v", name, after, first, err)
			}
			stored := all(t, s, c.ID)[after:]
			for i, e := range stored {
				if want := times[i].Truncate(time.Microsecond); !times[i].IsZero() && !e.Time.Equal(want) || time.Since(e.Time) < 0 {
					t.Errorf("%s after %d: event %d has the time %v, want %v", name, after, i, e.Time, want)
				}
			}
			if last := stored[len(stored)-1].Time; !first.Time.Equal(last) {
				t.Errorf("%s after %d: the receipt has the time %v, the last event %v", name, after, first.Time, last)
			}
			appendOne(t, s, c.ID, first.SeqNr)
			again, err := s.Journal().Append(t.Context(), c)
			if err != nil || !again.Repeated || again.SeqNr != first.SeqNr || !again.Time.Equal(first.Time) {
				t.Errorf("%s after %d, repeated: %+v, %v, want %+v", name, after, again, err, first)
			}
			if err := s.Journal().DeleteTo(t.Context(), c.ID, first.SeqNr-1); err != nil {
				t.Fatal(err)
			}
			if again, err = s.Journal().Append(t.Context(), c); err != nil || !again.Repeated || again.SeqNr != first.SeqNr {
				t.Errorf("%s after %d, repeated after a delete: %+v, %v", name, after, again, err)
			}
			c.WriteID = annals.NewWriteID()
			_, err = s.Journal().Append(t.Context(), c)
			wantKind(t, err, annals.ErrConflict)
		}
	}
}

// A time more than a minute ahead of the server's clock is refused, whichever way the event is written, and nothing is stored.
func TestImportsFromTheFuture(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	far, near := time.Now().Add(2*time.Minute), time.Now().Add(30*time.Second)
	appendTo := func(s annals.Store, id annals.PersistenceID, after annals.SeqNr, times ...time.Time) error {
		_, err := s.Journal().Append(t.Context(), annals.Commit{ID: id, After: after, Events: imported(times...)})
		return err
	}
	appendOne(t, s, "T|1", 0)
	for what, err := range map[string]error{
		"first":     appendTo(s, "T|0", 0, far),
		"next":      appendTo(s, "T|1", 1, far),
		"of two":    appendTo(s, "T|1", 1, near, far),
		"no year":   appendTo(s, "T|1", 1, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)),
		"before us": appendTo(s, "T|1", 1, time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC)),
		"in a transaction": s.InTx(t.Context(), func(_ context.Context, _ pgx.Tx, in annals.Store) error {
			err := appendTo(in, "T|1", 1, far)
			appendOne(t, in, "T|3", 0)
			return err
		}),
	} {
		if !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", what, err)
		}
	}
	event := annals.NewEvent{Payload: text("x"), Time: far}
	_, err := s.States().Put(t.Context(), annals.StateWrite{ID: "T|2", Payload: text("x"), Event: &event})
	wantKind(t, err, annals.ErrInvalid)
	wantKind(t, appendTo(s, "T|1", 0, far), annals.ErrConflict)
	if err := appendTo(s, "T|1", 1, near); err != nil {
		t.Error(err)
	}
	if n := len(all(t, s, "T|1")); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	if last, err := s.Journal().LastSeqNr(t.Context(), "T|2"); last != 0 || err != nil {
		t.Errorf("last number %d, %v after a refused write", last, err)
	}
	if r := appendOne(t, s, "T|1", 2); !r.Time.After(near) {
		t.Errorf("the next event has the time %v, want it after %v", r.Time, near)
	}
}

// Many importers at once share statements; their events keep their times.
func TestImportsInGroups(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	day := time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)
	done := make(chan error)
	for w := range 32 {
		go func() {
			var err error
			for n := annals.SeqNr(0); n < 20 && err == nil; n++ {
				_, err = s.Journal().Append(t.Context(), annals.Commit{ID: annals.NewPersistenceID("Import", fmt.Sprint(w)), After: n, Events: imported(day.Add(time.Duration(n) * time.Second))})
			}
			done <- err
		}()
	}
	for range 32 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for w := range 32 {
		for i, e := range all(t, s, annals.NewPersistenceID("Import", fmt.Sprint(w))) {
			if want := day.Add(time.Duration(i) * time.Second); !e.Time.Equal(want) {
				t.Errorf("event %d of %d has the time %v, want %v", i, w, e.Time, want)
			}
		}
	}
}

// A state continues at the revision that it had elsewhere, in tables with either key. When several import it, one succeeds.
func TestSkippedStates(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]string{
		"Akka":  tables(t, pgstore.Options{}),
		"Pekko": postgres.Tables(t, "Pekko", func(url string) { run(t, url, pekkoTables) }),
	} {
		o := pgstore.Options{}
		if name == "Pekko" {
			o.Tables = pgstore.PekkoTables()
		}
		s := openAt(t, at, o)
		errs := make(chan error)
		for n := range annals.SeqNr(8) {
			go func() { errs <- s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), "T|1", 100+n) }()
		}
		wins := 0
		for range 8 {
			if err := <-errs; err == nil {
				wins++
			} else if e := (*annals.Error)(nil); !errors.As(err, &e) || e.Kind != annals.ErrConflict || e.Last < 100 {
				t.Errorf("%s: got %v, want ErrConflict with the last revision", name, err)
			}
		}
		state, ok, err := s.States().Get(t.Context(), "T|1")
		if wins != 1 || ok || err != nil || !state.Deleted || state.Revision < 100 {
			t.Errorf("%s: %d importers won; got %+v, %v", name, wins, state, err)
		}
		mustPut(t, s, "T|1", state.Revision, text("x"))
		wantKind(t, put(t, s, "T|1", 0, text("x")), annals.ErrConflict)
		wantKind(t, s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), "T|1", 200), annals.ErrConflict)
		wantKind(t, s.Unwrap().(ability.StateSkipper).SkipStateTo(t.Context(), "T|2", 0), annals.ErrInvalid)
	}
}

// The metadata of a state or tombstone is kept in tables that have the columns for it. In other tables, such as those of the plugins, it is
// dropped.
func TestStateMetadata(t *testing.T) {
	t.Parallel()
	meta := annals.Payload{SerializerID: 7, Manifest: "m", Data: []byte{0, 1}}
	for name, c := range map[string]struct {
		change string
		keeps  bool
	}{"as made": {"", true}, "a plugin's": {"ALTER TABLE durable_state DROP COLUMN meta_ser_id, DROP COLUMN meta_ser_manifest, DROP COLUMN meta_payload", false},
		"in part": {"ALTER TABLE durable_state DROP COLUMN meta_ser_manifest", false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := postgres.Schema(t)
			openAt(t, at, pgstore.Options{CreateTables: true})
			if c.change != "" {
				run(t, at, c.change)
			}
			var seen annals.Payload
			s := openAt(t, at, pgstore.Options{StateTypes: map[string]annals.StateType[pgx.Tx]{"T": {OnChange: func(_ context.Context, _ pgx.Tx, s annals.State) error {
				seen = s.Metadata
				return nil
			}}}})
			if s.Capabilities().StateMetadata != c.keeps {
				t.Errorf("StateMetadata is claimed: %v", !c.keeps)
			}
			want := annals.Payload{}
			if c.keeps {
				want = meta
			}
			look := func(what string, want annals.Payload) {
				t.Helper()
				got, _, err := s.States().Get(t.Context(), "T|1")
				states, queried := collected(s.Query().States(t.Context(), annals.Filter{Type: "T"}))
				if err != nil || queried != nil || len(states) != 1 {
					t.Fatal(err, queried, states)
				}
				for _, got := range []annals.Payload{got.Metadata, states[0].Metadata, seen} {
					if fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("%s: got %v, want %v", what, got, want)
					}
				}
			}
			if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: "T|1", Payload: text("x"), Metadata: meta}); err != nil {
				t.Fatal(err)
			}
			look("the first", want)
			mustPut(t, s, "T|1", 1, text("y"))
			look("one without", annals.Payload{})
			if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "T|1", After: 2, Metadata: meta}); err != nil {
				t.Fatal(err)
			}
			look("a tombstone", want)
			for after, plugins := range []string{"state_ser_id = 20, state_payload = 'z'", "state_ser_id = 0, state_payload = ''"} {
				run(t, at, fmt.Sprintf("UPDATE durable_state SET revision = %d, state_ser_manifest = '', %s WHERE revision = %d", after+4, plugins, after+3))
				seen = annals.Payload{}
				look("one of the plugin", annals.Payload{})
			}
		})
	}
}
