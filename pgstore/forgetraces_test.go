package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// Forget beside all other writes of an entity: what is stored and answered is what some order of them would have stored and answered.
func TestForgetBesideEveryWrite(t *testing.T) {
	t.Parallel()
	for _, plugin := range []bool{false, true} {
		t.Run(fmt.Sprintf("plugin deletes %t", plugin), func(t *testing.T) {
			t.Parallel()
			o := newInterleaving(t, plugin)
			for _, c := range orderCases() {
				for _, held := range c.held {
					if wrong := o.run(c, held); wrong != "" {
						t.Errorf("%v, the first one held %s:\n%s", c, held, wrong)
					}
				}
			}
		})
	}
}

// Without one of its parts the protection has a hole, and a case of TestForgetBesideEveryWrite finds it.
func TestMutantsOfForget(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		text, other string
		statements  int // that contain the text
		plugin      bool
		c           orderCase
		held        string
	}{
		"an append locks no row":                      {"FOR KEY SHARE OF newest", "", 1, false, orderCase{calls: []call{forget, append2}}, inStatement},
		"a single append follows a deleted event":     {"AND NOT last.deleted", "", 1, false, orderCase{calls: []call{forget, append2}}, inStatement},
		"a commit of events follows a deleted event":  {"last.deleted IS NOT TRUE", "TRUE", 3, false, orderCase{calls: []call{forget, appendThree}}, inStatement},
		"a group of appends follows deleted events":   {"last.deleted IS NOT TRUE", "TRUE", 3, false, orderCase{calls: []call{forget, appendInGroup}}, inStatement},
		"Forget does not wait for other transactions": {"granted AND pid", "FALSE AND pid", 1, false, orderCase{live: true, calls: []call{append2, deleteAll, forget}}, atCommit},
		"Forget does not wait for open statements":    {"granted AND pid", "FALSE AND pid", 1, false, orderCase{live: true, calls: []call{append2, deleteAll, forget}}, inStatement},
		"Forget does not lock the newest row":         {"seq_nr = $2 FOR UPDATE", "seq_nr = $2", 1, false, orderCase{calls: []call{forget, append2}}, inStatement},
		"Forget does not lock out deletes":            {"SELECT pg_advisory_xact_lock(hash", "SELECT (hash", 2, false, orderCase{calls: []call{forget, skipTo}}, inStatement},
		"a delete puts a marker after Forget":         {" FOR KEY SHARE) last", ") last", 1, true, orderCase{calls: []call{forget, deleteAll}}, inStatement},
		"own deletes do not lock the journal":         {"IN SHARE ROW EXCLUSIVE MODE", "IN ROW EXCLUSIVE MODE", 1, false, orderCase{live: true, calls: []call{deleteAndForget, append2}}, atCommit},
		"own deletes are not noticed":                 {"j.at >= transaction_timestamp()", "FALSE", 1, false, orderCase{live: true, calls: []call{deleteAndForget, append2}}, atCommit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newInterleaving(t, m.plugin)
			for _, s := range []*pgstore.Store{o.held, o.free} {
				if n := pgstore.Mutate(s, m.text, m.other); n != m.statements {
					t.Fatalf("the text is in %d statements, want %d", n, m.statements)
				}
			}
			if o.run(m.c, m.held) == "" {
				t.Error("nothing is wrong")
			}
		})
	}
}

// What begins after Forget has looked at the running transactions meets its lock of the entity.
func TestForgetLooksAgain(t *testing.T) {
	t.Parallel()
	o := newInterleaving(t, false)
	var answer string
	forgetting := func(id annals.PersistenceID) (ended <-chan struct{}) {
		o.begin("SELECT FROM durable_state WHERE persistence_id = $1 FOR UPDATE", id) // Forget's first lock
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			answer = forget.run(t.Context(), o.free, id)
		}()
		o.await(answered, o.blocked)
		return answered
	}
	t.Run("an append after the deleted event", func(t *testing.T) {
		id := o.entity(false)
		ended := forgetting(id)
		commit, appended := o.hold(append2, id, atCommit)
		o.end()
		o.await(ended, func() (meets bool) {
			o.query(`SELECT EXISTS (SELECT FROM pg_stat_activity f, pg_stat_activity h WHERE f.application_name = left($1, 63) AND h.application_name = 'held'
				AND h.pid = ANY (pg_blocking_pids(f.pid)))`, o.name(), &meets)
			return meets
		})
		commit()
		<-ended
		if a, left := <-appended, o.left(id); a != "3 <nil>" || answer != "false conflict" || left != "rows [1- 2- 3+], state [2/0], snapshot []" {
			t.Errorf("append %s, forget %s, left %s", a, answer, left)
		}
	})
	t.Run("an append to an entity whose rows a plugin has removed", func(t *testing.T) {
		id := o.entity(true)
		commit, appended := o.hold(append2, id, atCommit)
		for _, table := range []string{"event_journal", "durable_state"} {
			run(t, o.url, fmt.Sprintf("DELETE FROM %s WHERE persistence_id = '%s'", table, id))
		}
		o.looks.Store(0)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			answer = forget.run(t.Context(), o.free, id)
		}()
		o.await(ended, func() bool { return o.looks.Load() > 2 })
		commit()
		<-ended
		if a, left := <-appended, o.left(id); a != "3 <nil>" || answer != "false conflict" || left != "rows [3+], state [], snapshot []" {
			t.Errorf("append %s, forget %s, left %s", a, answer, left)
		}
	})
	t.Run("a further event and its delete", func(t *testing.T) {
		id := o.entity(false)
		ended := forgetting(id)
		append2.run(t.Context(), o.held, id)
		commit, appended := o.hold(append3, id, atCommit) // has seen event 3 undeleted
		deleteAll.run(t.Context(), o.held, id)
		looks := o.looks.Load()
		o.end()
		o.await(ended, func() bool { return o.looks.Load() > looks+2 })
		commit()
		<-ended
		if a, left := <-appended, o.left(id); a != "4 <nil>" || answer != "false conflict" || left != "rows [1- 2- 3- 4+], state [2/0], snapshot []" {
			t.Errorf("append %s, forget %s, left %s", a, answer, left)
		}
	})
}

// Beside a long transaction Forget asks for no lock of the journal, and eight writers of other entities wait for nothing.
func TestForgetHoldsUpNoWriter(t *testing.T) {
	t.Parallel()
	const writers, events, forgotten = 8, 25, 4
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	for i := range forgotten {
		id := annals.PersistenceID(fmt.Sprintf("Old|%d", i))
		appendOne(t, s, id, 0)
		if err := s.Journal().DeleteTo(t.Context(), id, annals.MaxSeqNr); err != nil {
			t.Fatal(err)
		}
	}
	appendOne(t, s, "Long|1", 0)
	long, watch := session(t, url), session(t, url)
	if _, err := long.Exec(t.Context(), "BEGIN; UPDATE event_journal SET writer = writer WHERE persistence_id = 'Long|1'"); err != nil {
		t.Fatal(err)
	}
	var forgets, appends sync.WaitGroup
	for i := range forgotten {
		forgets.Go(func() {
			for done := false; !done; { // the transaction may take longer than Forget waits
				var err error
				done, err = s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: annals.PersistenceID(fmt.Sprintf("Old|%d", i))})
				if err != nil && !strings.Contains(err.Error(), "have written to the journal") {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range writers {
		appends.Go(func() {
			for after := range annals.SeqNr(events) {
				c := annals.Commit{ID: annals.PersistenceID(fmt.Sprintf("New|%d", i)), After: after, Events: []annals.NewEvent{{Payload: text("e")}}}
				if _, err := s.Journal().Append(t.Context(), c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { appends.Wait(); close(written) }()
	for looks, all := 0, false; !all || looks < 300; looks++ {
		var waiting int
		if err := watch.QueryRow(t.Context(), "SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND relation = 'event_journal'::regclass AND NOT granted").Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		if waiting > 0 {
			t.Fatalf("%d sessions wait for a lock of the journal", waiting)
		}
		select {
		case <-written:
			all = true
		default:
		}
	}
	if n := count(t, url, "SELECT count(*) FROM event_journal WHERE persistence_id LIKE 'New|%'"); n != writers*events {
		t.Errorf("%d events beside the transaction, want %d", n, writers*events)
	}
	if n := count(t, url, "SELECT count(*) FROM event_journal WHERE persistence_id LIKE 'Old|%'"); n != forgotten {
		t.Errorf("%d entities are not forgotten beside the transaction, want %d", n, forgotten)
	}
	if _, err := long.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	forgets.Wait()
	if n := count(t, url, "SELECT count(*) FROM event_journal WHERE persistence_id LIKE 'Old|%'"); n != 0 {
		t.Errorf("%d entities are not forgotten", n)
	}
}

// An entity is forgotten and appended to in one transaction of the caller.
func TestForgetAndBeginAgainInTx(t *testing.T) {
	t.Parallel()
	o := newInterleaving(t, false)
	for _, live := range []bool{false, true} {
		id := o.entity(live)
		err := o.free.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
			if answer := deleteAndForget.run(ctx, in, id); answer != " <nil>true <nil>" {
				t.Errorf("live %t: %s", live, answer)
			}
			if answer := append0.run(ctx, in, id); answer != "1 <nil>" {
				t.Errorf("live %t: append %s", live, answer)
			}
			return nil
		})
		if left := o.left(id); err != nil || left != "rows [1+], state [], snapshot []" {
			t.Errorf("live %t: left %s (%v)", live, left, err)
		}
	}
}
