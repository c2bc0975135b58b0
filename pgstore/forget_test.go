package pgstore_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// The age counts from the delete, not from the events.
func TestForgetAge(t *testing.T) {
	t.Parallel()
	for _, plugin := range []bool{false, true} {
		url := postgres.Schema(t)
		s := openAt(t, url, pgstore.Options{CreateTables: true, PluginDeletes: plugin})
		for after := range annals.SeqNr(3) {
			appendOne(t, s, "T|1", after)
		}
		run(t, url, "UPDATE event_journal SET db_timestamp = db_timestamp - interval '1 day'")
		if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
			t.Fatal(err)
		}
		f := ability.Forgetting{ID: "T|1", Age: ability.ForgetAge}
		if done, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), f); done || err != nil {
			t.Errorf("right after the delete: %v, %v", done, err)
		}
		run(t, url, "UPDATE event_journal SET db_timestamp = db_timestamp - interval '15 minutes'")
		if done, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), f); !done || err != nil {
			t.Errorf("15 minutes later: %v, %v", done, err)
		}
		if n := count(t, url, "SELECT count(*) FROM event_journal"); n != 0 {
			t.Errorf("%d rows are left", n)
		}
	}
}

// A writer has read the last number and has not written yet. Either it is first, and Forget is ErrUnavailable, or Forget is first, and the
// writer's event is a conflict. No event is stored after numbers that have been forgotten.
func TestForgetBesideAHeldUpWriter(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	appendOne(t, s, "Held|1", 0)
	if err := s.Journal().DeleteTo(t.Context(), "Held|1", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	release, written := holdAppend(t, url, s, annals.Commit{ID: "Held|1", After: 1, Events: []annals.NewEvent{{Payload: text("2")}}})
	done, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "Held|1"})
	release()
	last := annals.SeqNr(2)
	if done {
		wantKind(t, <-written, annals.ErrConflict)
		last = 0
	} else {
		wantKind(t, err, annals.ErrUnavailable)
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
	if n, err := s.Journal().LastSeqNr(t.Context(), "Held|1"); n != last || err != nil {
		t.Errorf("last number %d (%v), want %d", n, err, last)
	}
}

// A state that is written after Forget has looked for one stays. There was no row that Forget could have locked.
func TestForgetBesideANewState(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	appendOne(t, s, "Held|1", 0)
	if err := s.Journal().DeleteTo(t.Context(), "Held|1", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	run(t, url, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_advisory_xact_lock_shared(hashtextextended(current_schema(), 0)); RETURN NULL; END $$;
		CREATE TRIGGER hold BEFORE DELETE ON event_journal FOR EACH STATEMENT EXECUTE FUNCTION hold()`)
	release := lockSchema(t, url)
	type answer struct {
		done bool
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		done, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "Held|1"})
		answers <- answer{done, err}
	}()
	awaitHeld(t, url) // Forget has looked
	mustPut(t, s, "Held|1", 0, text("new"))
	release()
	if a := <-answers; !a.done || a.err != nil {
		t.Errorf("forget: %v, %v", a.done, a.err)
	}
	if state, ok, err := s.States().Get(t.Context(), "Held|1"); !ok || err != nil || state.Revision != 1 {
		t.Errorf("the state: %+v, %v, %v", state, ok, err)
	}
	if last, err := s.Journal().LastSeqNr(t.Context(), "Held|1"); last != 0 || err != nil {
		t.Errorf("last number %d (%v), want 0", last, err)
	}
}

// holdAppend sends c and returns when the server waits during the statement. release lets the statement go on.
func holdAppend(t *testing.T, url string, s annals.Store, c annals.Commit) (release func(), written <-chan error) {
	t.Helper()
	c.WriteID = annals.NewWriteID()
	run(t, url, holding(c.WriteID))
	release = lockSchema(t, url)
	result := make(chan error, 1)
	go func() {
		_, err := s.Journal().Append(t.Context(), c)
		result <- err
	}()
	awaitHeld(t, url)
	return release, result
}

// What the database refuses after a deleted event is refused at once, as after any other.
func TestRefusedAfterADeletedEvent(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	appendOne(t, s, "T|1", 0)
	if err := s.Journal().DeleteTo(t.Context(), "T|1", annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	run(t, url, `ALTER TABLE event_journal ADD CONSTRAINT small CHECK (length(event_payload) < 10)`)
	_, err := s.Journal().Append(t.Context(), annals.Commit{ID: "T|1", After: 1, Events: []annals.NewEvent{{Payload: text("a secret of more than ten bytes")}}})
	wantKind(t, err, annals.ErrConstraint)
	wantNoSecret(t, err)
	appendOne(t, s, "T|1", 1)
}
