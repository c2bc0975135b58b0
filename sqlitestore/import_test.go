package sqlitestore_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/sqlitestore"
)

// imported is a commit with one event for each of times.
func imported(id annals.PersistenceID, after annals.SeqNr, times ...time.Time) annals.Commit {
	c := commit(id, after, len(times))
	for i := range times {
		c.Events[i].Time = times[i]
	}
	return c
}

// Times before 1970 and in the far future are refused, and nothing is written.
func TestTimesOutOfRange(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	for what, at := range map[string]time.Time{
		"in two minutes": time.Now().Add(2 * time.Minute),
		"in two years":   time.Now().AddDate(2, 0, 0),
		"in 1969":        time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		_, err := s.Journal().Append(t.Context(), imported("T|1", 0, time.Now().AddDate(-1, 0, 0), at))
		wantKind(t, err, annals.ErrInvalid)
		w := annals.StateWrite{ID: "S|1", Payload: payload("x"), Event: &annals.NewEvent{Payload: payload("1"), Time: at}}
		_, err = s.States().Put(t.Context(), w)
		wantKind(t, err, annals.ErrInvalid)
		if last, err := s.Journal().LastSeqNr(t.Context(), "T|1"); last != 0 || err != nil {
			t.Errorf("%s: the last number is %d, %v", what, last, err)
		}
	}
}

// The store's own times are later than those of all imported events, in this process and in others, also after such an event was
// deleted.
func TestTimesRiseAboveImported(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, other := openAt(t, path, sqlitestore.Options{}), openAt(t, path, sqlitestore.Options{})
	ahead := time.Now().Add(50 * time.Second)
	r := mustAppend(t, s, imported("T|1", 0, ahead, time.Now().AddDate(-1, 0, 0)))
	if want := time.Now().AddDate(-1, 0, 0); r.Time.After(want) {
		t.Errorf("the receipt has the time %v, not that of the last event", r.Time)
	}
	above := func(what string, got time.Time) {
		t.Helper()
		if !got.After(ahead) || got.After(ahead.Add(time.Minute)) {
			t.Errorf("%s has the time %v, the imported event has %v", what, got, ahead)
		}
	}
	above("an event", mustAppend(t, s, commit("T|2", 0, 1)).Time)
	above("an event of another process", mustAppend(t, other, commit("T|3", 0, 1)).Time)
	if err := s.Journal().DeleteTo(t.Context(), "T|1", 1); err != nil {
		t.Fatal(err)
	}
	for _, id := range []annals.PersistenceID{"T|2", "T|3"} {
		if err := s.Journal().DeleteTo(t.Context(), id, annals.MaxSeqNr); err != nil {
			t.Fatal(err)
		}
	}
	third := openAt(t, path, sqlitestore.Options{})
	above("an event after the delete", mustAppend(t, third, commit("T|4", 0, 1)).Time)
	w := annals.StateWrite{ID: "S|1", Payload: payload("x"), Event: &annals.NewEvent{Payload: payload("1"), Time: time.Now().Add(55 * time.Second)}}
	if _, err := s.States().Put(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	ahead = w.Event.Time
	above("an event after the state's", mustAppend(t, s, commit("T|5", 0, 1)).Time)
}

// Imported events with the same time are in the order of number and id, also across pages.
func TestOrderOfEqualTimes(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	at := time.Date(2020, 2, 3, 4, 5, 6, 7_000, time.UTC)
	const entities = sqlitestore.PageRows + 500
	var want []annals.PersistenceID
	err := s.InTx(t.Context(), func(ctx context.Context, _ *sql.Tx, in annals.Store) error {
		for i := range entities {
			want = append(want, annals.PersistenceID(fmt.Sprintf("T|%d", (i*7919)%entities)))
			if _, err := in.Journal().Append(ctx, imported(want[i], 0, at)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	var got []annals.PersistenceID
	for e, err := range s.Query().Events(t.Context(), annals.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d events are not the %d in the order of their ids", len(got), len(want))
	}
	if newest, err := s.Query().Newest(t.Context(), annals.Filter{}); err != nil || newest.ID != want[entities-1] || !newest.Time.Equal(at) {
		t.Errorf("the newest is %+v, %v, want %s", newest, err, want[entities-1])
	}
}

// A repeated import is recognised, whatever times its events have, also after later commits and after a delete.
func TestImportIsRepeatable(t *testing.T) {
	t.Parallel()
	s := open(t, sqlitestore.Options{})
	year := func(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }
	first, second := imported("T|1", 0, year(2003), year(2001), year(2001)), imported("T|1", 3, year(2001), year(2002))
	second.WriteID = first.WriteID
	mustAppend(t, s, first)
	mustAppend(t, s, second)
	again := func(what string) {
		t.Helper()
		for _, c := range []annals.Commit{first, second} {
			r, err := s.Journal().Append(t.Context(), c)
			want := annals.Receipt{SeqNr: c.After + annals.SeqNr(len(c.Events)), Time: c.Events[len(c.Events)-1].Time, Repeated: true}
			if err != nil || r != want {
				t.Errorf("%s: %+v, %v, want %+v", what, r, err, want)
			}
		}
		c := imported("T|1", 1, year(2001), year(2001))
		c.WriteID = first.WriteID
		_, err := s.Journal().Append(t.Context(), c)
		wantKind(t, err, annals.ErrConflict)
	}
	again("at once")
	mustAppend(t, s, commit("T|1", 5, 1))
	again("after a later commit")
	if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	again("after a delete")
}
