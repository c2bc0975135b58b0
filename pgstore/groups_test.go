package pgstore_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// Commits wait while two statements are running. When those are blocked, such as by a lock, further statements are sent, also if nobody appends
// any more, and four at most.
func TestBlockedGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		unblocked, added := make(chan struct{}), 0
		add := pgstore.Groups(func(n int) {
			mu.Lock()
			sizes = append(sizes, n)
			mu.Unlock()
			<-unblocked
		})
		written := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(sizes)
		}
		for _, want := range []struct {
			commits, statements int
			after               time.Duration
			later               int
		}{
			{1, 1, 0, 1},
			{1, 2, 0, 2},
			{30, 2, 30 * time.Millisecond, 3},
			{30, 3, 30 * time.Millisecond, 4},
			{30, 4, time.Second, 4},
		} {
			for range want.commits {
				add(annals.PersistenceID(fmt.Sprint("T|", added)))
				added++
			}
			synctest.Wait()
			if got := written(); len(got) != want.statements {
				t.Errorf("%d commits: the groups %v, want %d", added, got, want.statements)
			}
			time.Sleep(want.after)
			synctest.Wait()
			if got := written(); len(got) != want.later {
				t.Errorf("%d commits: the groups %v after a while, want %d", added, got, want.later)
			}
		}
		close(unblocked)
		synctest.Wait()
		for _, n := range written() {
			added -= n
		}
		if added != 0 {
			t.Errorf("the groups %v are %d commits too few", written(), added)
		}
	})
}

// Another process takes the number of one commit of a group, after the statement has read the last numbers. The other commits are written
// in one statement all the same.
func TestRacedGroup(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	run(t, url, `CREATE SEQUENCE raced MINVALUE 0 START 0;
CREATE FUNCTION race() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.persistence_id = 'T|2' AND nextval('raced') = 0 THEN RAISE EXCEPTION USING ERRCODE = 'unique_violation'; END IF;
	RETURN NEW; END $$;
CREATE TRIGGER race BEFORE INSERT ON event_journal FOR EACH ROW EXECUTE FUNCTION race()`)
	var commits []annals.Commit
	for i := range 3 {
		commits = append(commits, annals.Commit{ID: annals.PersistenceID(fmt.Sprint("T|", i+1)), Events: []annals.NewEvent{{Payload: text("x")}}})
	}
	if _, err := pgstore.AppendGroup(t.Context(), s, commits...); err != nil {
		t.Fatal(err)
	}
	if n := count(t, url, "SELECT count(*) FROM event_journal"); n != 3 {
		t.Errorf("%d events are stored, want 3", n)
	}
	if n := count(t, url, "SELECT count(DISTINCT xmin::text) FROM event_journal"); n != 1 {
		t.Errorf("%d transactions have written them, want one", n)
	}
}
