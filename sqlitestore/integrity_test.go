package sqlitestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// checked is the content of a file with checksums: entities "T|0", "T|1", … with events 1, 2, … each.
type checked struct {
	dir  string
	data []byte
}

const (
	checkedEntities = 20
	checkedEvents   = 10
)

func newChecked(t *testing.T) checked {
	t.Helper()
	c := checked{dir: t.TempDir()}
	path := filepath.Join(c.dir, "whole.db")
	s := openAt(t, path, sqlitestore.Options{Checksums: true})
	for i := range checkedEntities {
		mustAppend(t, s, commit(checkedID(i), 0, checkedEvents))
	}
	if err := sound(t, s); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.data, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return c
}

func checkedID(i int) annals.PersistenceID { return annals.PersistenceID(fmt.Sprintf("T|%d", i)) }

// flip returns a copy of the file with one other bit.
func (c checked) flip(t *testing.T, at, bit int) (path string) {
	t.Helper()
	bad := slices.Clone(c.data)
	bad[at] ^= 1 << bit
	path = filepath.Join(c.dir, fmt.Sprintf("%d-%d.db", at, bit))
	if err := os.WriteFile(path, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// errMissing says that reads returned fewer events than were written, without an error.
var errMissing = errors.New("events are missing")

// readChecked reads all entities with Replay or with Recover, and compares the events with those that were written. It fails the test for
// events that were not written.
func readChecked(t *testing.T, s *sqlitestore.Store, recovers bool) error {
	t.Helper()
	for i := range checkedEntities {
		id, found := checkedID(i), 0
		event := func(e annals.Event) error {
			if string(e.Data) != fmt.Sprint(e.SeqNr) || e.Manifest != "text.v1" || e.ID != id {
				t.Errorf("%s: read %q %d as %q, %s", sqlitestore.Path(s), e.ID, e.SeqNr, e.Data, e.Manifest)
			}
			found++
			return nil
		}
		if recovers {
			last, err := ability.Recover(t.Context(), s, id, func(annals.Snapshot) error { return nil }, event)
			if err != nil {
				return err
			}
			if last != annals.SeqNr(found) {
				return errMissing
			}
		} else {
			for e, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
				if err != nil {
					return err
				}
				_ = event(e)
			}
		}
		if found != checkedEvents {
			return errMissing
		}
	}
	return nil
}

// A flipped bit anywhere in a file with checksums is never read as another event. When it hides events from reads without an error,
// Scan or Check reports the damage.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	c := newChecked(t)
	tries := 300
	if testing.Short() {
		tries = 50
	}
	noticed, reported := 0, 0
	for try := range tries {
		path := c.flip(t, (try*2+1)*len(c.data)/(2*tries), try%8)
		s, err := sqlitestore.Open(t.Context(), path, sqlitestore.Options{})
		if err == nil {
			err = readChecked(t, s, try%3 == 0)
			if errors.Is(err, errMissing) {
				reported++
				wantKind(t, sound(t, s), annals.ErrCorrupt)
			}
			_ = s.Close()
		}
		if err != nil {
			noticed++
			if !errors.Is(err, errMissing) && !errors.Is(err, annals.ErrCorrupt) && !errors.Is(err, annals.ErrInvalid) && !errors.Is(err, annals.ErrUnsupported) {
				t.Errorf("%s: %v", path, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
	t.Logf("of %d flipped bits %d were noticed, %d of them only by Scan and Check", tries, noticed, reported)
	if noticed == 0 {
		t.Error("no flipped bit was noticed")
	}
}

// A damaged key in the index of the journal can hide events. Reads notice it when the last number is still found. Otherwise the events look
// as if they had been deleted or never written, and only Scan and Check notice it.
func TestDamagedKeys(t *testing.T) {
	t.Parallel()
	c := newChecked(t)
	keys := c.keys(t, "T|3")
	if len(keys) != checkedEvents {
		t.Fatalf("the index has %d keys of T|3, want %d", len(keys), checkedEvents)
	}
	noticed := 0
	for _, at := range keys {
		for _, bit := range []int{3, 4} { // the id is then greater or less than all others
			s, err := sqlitestore.Open(t.Context(), c.flip(t, at, bit), sqlitestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			wantKind(t, sound(t, s), annals.ErrCorrupt)
			for _, recovers := range []bool{false, true} {
				switch err := readChecked(t, s, recovers); {
				case errors.Is(err, annals.ErrCorrupt):
					noticed++
				case err != nil && !errors.Is(err, errMissing):
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if least := 2 * (checkedEvents - 4); noticed < least {
		t.Errorf("%d reads noticed a damaged key, want %d", noticed, least)
	}
}

// keys returns where the ids of one entity's keys are in the leaves of the index, in ascending order of the events.
func (c checked) keys(t *testing.T, id string) (places []int) {
	t.Helper()
	const pageSize, indexLeaf = 4096, 10
	for page := 0; page < len(c.data); page += pageSize {
		if c.data[page] != indexLeaf {
			continue
		}
		for at := page; ; at++ {
			i := bytes.Index(c.data[at:page+pageSize], []byte(id))
			if i < 0 {
				break
			}
			at += i
			if next := c.data[at+len(id)]; next >= '0' && next <= '9' {
				continue // "T|30"
			}
			places = append(places, at)
		}
	}
	slices.Reverse(places) // SQLite fills a page from its end
	return places
}

// sound returns the first damage that Scan and Check find, as ErrCorrupt.
func sound(t *testing.T, s *sqlitestore.Store) error {
	t.Helper()
	for step, err := range s.Unwrap().(ability.Scanner).Scan(t.Context(), "", "") {
		if err != nil {
			return err
		}
		damage := step.Damage
		if step.ID != "" {
			found, err := s.Unwrap().(ability.Checker).Check(t.Context(), step.ID, nil)
			if err != nil {
				return err
			}
			damage = append(damage, found...)
		}
		for _, d := range damage {
			return &annals.Error{Op: "check", ID: d.ID, Kind: annals.ErrCorrupt, Err: d}
		}
	}
	return nil
}

// Check compares the checksums of all rows, and finds rows that cannot be decoded.
func TestCheckOfChecksums(t *testing.T) {
	t.Parallel()
	o := posts(nil)
	o.Checksums = true
	s := openAt(t, filepath.Join(t.TempDir(), "annals.db"), o)
	mustAppend(t, s, commit("T|1", 0, 2))
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 2, Payload: payload("x")}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []annals.PersistenceID{"S|1", "Post|1"} {
		if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: id, Payload: payload("x"), Event: &annals.NewEvent{Payload: payload("1")}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := sound(t, s); err != nil {
		t.Fatal(err)
	}
	db := raw(t, sqlitestore.Path(s))
	for table, column := range map[string]string{"event_journal": "event_payload", "snapshot": "snapshot", "durable_state": "state_payload", "posts": "state_payload"} {
		mustExec(t, db, `UPDATE `+table+` SET `+column+` = CAST(x'ff' || `+column+` AS BLOB)`)
		err := sound(t, s)
		if e := (*annals.Error)(nil); !errors.Is(err, annals.ErrCorrupt) || !errors.As(err, &e) || e.ID == "" {
			t.Errorf("%s: %v, want ErrCorrupt with the id", table, err)
		}
		mustExec(t, db, `UPDATE `+table+` SET `+column+` = CAST(substr(`+column+`, 2) AS BLOB)`)
		if err := sound(t, s); err != nil {
			t.Errorf("%s is as before: %v", table, err)
		}
	}
	mustAppend(t, s, commit("T|1", 2, 1)) // the check holds no lock when it has ended
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, sound(t, s), annals.ErrClosed)
}
