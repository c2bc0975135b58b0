package pgstore_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// undoing makes the COMMIT of each transaction that inserts into the table fail, as often as there are numbers left in the sequence.
// The server fails after it has sent the rows of its answer.
const undoing = `CREATE SEQUENCE undo_%[1]s MINVALUE 0 START %[2]d;
CREATE FUNCTION undo_%[1]s() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF nextval('undo_%[1]s') < %[3]d THEN RAISE EXCEPTION 'undone'; END IF;
	RETURN NEW; END $$;
CREATE CONSTRAINT TRIGGER undo AFTER INSERT OR UPDATE ON %[1]s DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION undo_%[1]s()`

func undoingAlways(table string) string { return fmt.Sprintf(undoing, table, 0, 1<<40) }

// A commit that the server undoes at COMMIT is not acknowledged, whichever statement wrote it.
func TestUndoneAtTheEnd(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	run(t, url, undoingAlways("event_journal")+";"+undoingAlways("durable_state"))
	snapshot := annals.Snapshot{ID: "T|5", SeqNr: 1, Payload: text("s")}
	one, tagged := annals.NewEvent{Payload: text("x")}, annals.NewEvent{Payload: text("x"), Tags: []string{"a tag"}}
	for _, c := range []annals.Commit{
		{ID: "T|1", Events: []annals.NewEvent{one}},
		{ID: "T|2", Events: []annals.NewEvent{tagged}},
		{ID: "T|3", Events: []annals.NewEvent{one, one, one}},
		{ID: "T|5", Events: []annals.NewEvent{one}, Snapshot: &snapshot},
	} {
		r, err := s.Journal().Append(t.Context(), c)
		if !errors.Is(err, annals.ErrConstraint) {
			t.Errorf("%q: %+v, %v, want ErrConstraint", c.ID, r, err)
		}
	}
	wantKind(t, put(t, s, "S|1", 0, text("x")), annals.ErrConstraint)
	var wg sync.WaitGroup
	for i := range 40 { // groups
		wg.Go(func() {
			c := annals.Commit{ID: annals.PersistenceID(fmt.Sprintf("G|%d", i)), Events: []annals.NewEvent{one}}
			if i%2 == 0 {
				c.Events = append(c.Events, one)
			}
			if r, err := s.Journal().Append(t.Context(), c); !errors.Is(err, annals.ErrConstraint) {
				t.Errorf("%q: %+v, %v, want ErrConstraint", c.ID, r, err)
			}
		})
	}
	wg.Wait()
	if n := count(t, url, "SELECT (SELECT count(*) FROM event_journal) + (SELECT count(*) FROM snapshot) + (SELECT count(*) FROM durable_state)"); n != 0 {
		t.Errorf("%d rows are stored, want none", n)
	}
}

// The connection breaks after the row of the answer. Whether the server keeps the commit or undoes it, the append is acknowledged only when
// the commit is stored, and it is stored once.
func TestCutAfterTheRow(t *testing.T) {
	t.Parallel()
	for _, undone := range []bool{false, true} {
		for _, events := range []int{1, 3} {
			t.Run(fmt.Sprint(events, " events, undone ", undone), func(t *testing.T) {
				t.Parallel()
				p := newProxy(t, postgres.Schema(t))
				s := openAt(t, p.URL, pgstore.Options{CreateTables: true})
				appendOne(t, s, "T|1", 0) // prepares the statements
				if undone {
					run(t, p.URL, fmt.Sprintf(undoing, "event_journal", 0, 1))
				}
				c := annals.Commit{ID: "T|1", After: 1}
				for range events {
					c.Events = append(c.Events, annals.NewEvent{Payload: text("x")})
				}
				lost := once(p, postgres.Write, postgres.Fault{CutAnswer: true})
				r, err := s.Journal().Append(t.Context(), c)
				<-lost
				last := annals.SeqNr(1 + events)
				if err != nil || r.SeqNr != last || r.Repeated == undone {
					t.Errorf("%+v, %v, want number %d, repeated %v", r, err, last, !undone)
				}
				if n := annals.SeqNr(count(t, p.URL, "SELECT count(*) FROM event_journal")); n != last {
					t.Errorf("%d events are stored, want %d", n, last)
				}
			})
		}
	}
}

// A unique index that the user added refuses a commit. That is no conflict, because no other writer has used the number.
func TestOwnUniqueIndexIsNoConflict(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	run(t, url, "CREATE UNIQUE INDEX once ON event_journal (event_payload)")
	appendTo := func(id annals.PersistenceID, payloads ...string) error {
		c := annals.Commit{ID: id}
		for _, p := range payloads {
			c.Events = append(c.Events, annals.NewEvent{Payload: text(p)})
		}
		_, err := s.Journal().Append(t.Context(), c)
		return err
	}
	if err := appendTo("T|1", "taken"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, appendTo("T|2", "taken"), annals.ErrConstraint)
	wantKind(t, appendTo("T|3", "free", "taken"), annals.ErrConstraint)
	if err := appendTo("T|3", "free"); err != nil {
		t.Error(err)
	}
}

// A delete removes old rows of a commit and leaves the others: the commit is recognised by those, with its number and time.
func TestRetryAfterRemovedRows(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	c := annals.Commit{ID: "T|1", WriteID: annals.NewWriteID()}
	for range 4 {
		c.Events = append(c.Events, annals.NewEvent{Payload: text("x")})
	}
	first, err := s.Journal().Append(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	run(t, url, "UPDATE event_journal SET db_timestamp = db_timestamp - interval '16 minutes'")
	if err := s.Journal().DeleteTo(t.Context(), "T|1", 2); err != nil {
		t.Fatal(err)
	}
	if n := count(t, url, "SELECT count(*) FROM event_journal"); n != 3 {
		t.Fatalf("%d rows, want the marker and two events", n)
	}
	r, err := s.Journal().Append(t.Context(), c)
	if want := first.Time.Add(-16 * time.Minute); err != nil || !r.Repeated || r.SeqNr != 4 || !r.Time.Equal(want) {
		t.Errorf("%+v, %v, want number 4 of %v, repeated", r, err, want)
	}
	other := c
	other.WriteID = annals.NewWriteID()
	_, err = s.Journal().Append(t.Context(), other)
	wantKind(t, err, annals.ErrConflict)
	appendOne(t, s, "T|1", 4)
	_, err = s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: 3, Events: c.Events[:2], WriteID: c.WriteID})
	wantKind(t, err, annals.ErrConflict)
}
