package pgstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// Commits wait while two statements are running. When those are blocked, such as by a lock, further statements are sent, also without further
// appends, and four at most.
func TestBlockedGroups(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		unblocked, added := make(chan struct{}), 0
		add := pgstore.Groups(func(n int) int {
			mu.Lock()
			sizes = append(sizes, n)
			mu.Unlock()
			<-unblocked
			return 0
		})
		written := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(sizes)
		}
		for _, want := range []struct {
			ends                int // statements that end before
			commits, statements int
			after               time.Duration
			later               int
		}{
			{0, 1, 1, 0, 1},
			{0, 1, 2, 0, 2},
			{0, 30, 2, 30 * time.Millisecond, 3}, // without the second commits of entities
			{0, 0, 3, 30 * time.Millisecond, 4},  // with them
			{0, 30, 4, time.Second, 4},
			{1, 1, 5, 0, 5},
			{1, 0, 5, 30 * time.Millisecond, 6},
		} {
			for range want.ends {
				unblocked <- struct{}{}
				synctest.Wait()
			}
			for range want.commits {
				add(annals.PersistenceID(fmt.Sprint("T|", added%25)))
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

// The callers of a group that was answered share the next group, for which they are waited for: an eighth of the time that their statement took, a
// millisecond at most.
func TestCallersRejoin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sizes, end := make(chan int, 8), make(chan struct{})
		add := pgstore.Groups(func(n int) int {
			sizes <- n
			<-end
			return n
		})
		added := 0
		for _, step := range []struct {
			ends    int           // statements that end before
			commits int           // that are added then
			after   time.Duration // then
			want    []int         // groups that are sent
		}{
			{0, 1, 0, []int{1}},
			{0, 1, 0, []int{1}},
			{0, 40, 4 * time.Millisecond, nil},
			{2, 0, 0, []int{40}},
			{0, 5, 8 * time.Millisecond, nil},
			{1, 39, time.Millisecond - 1, nil},
			{0, 1, 0, []int{45}}, // all callers have appended again
			{0, 0, 8 * time.Millisecond, nil},
			{1, 30, time.Millisecond, []int{30}}, // some have not
			{0, 0, 80 * time.Microsecond, nil},
			{1, 20, 10*time.Microsecond - 1, nil},
			{0, 0, 1, []int{20}},
			{0, 0, 8 * time.Millisecond, nil},
			{1, 0, time.Second, nil}, // none has
			{0, 1, 0, []int{1}},
		} {
			for range step.ends {
				end <- struct{}{}
			}
			synctest.Wait()
			for range step.commits {
				added++
				add(annals.PersistenceID(fmt.Sprint("T|", added)))
			}
			time.Sleep(step.after)
			synctest.Wait()
			var got []int
			for len(sizes) > 0 {
				got = append(got, <-sizes)
			}
			if !slices.Equal(got, step.want) {
				t.Fatalf("%d commits: the groups %v were sent, want %v", added, got, step.want)
			}
		}
		close(end)
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

// Another writer takes the number of the event of a state while the write waits for it.
func TestRacedStateWithEvent(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	put := make(chan error, 1)
	err = s.InTx(t.Context(), func(ctx context.Context, tx pgx.Tx, in annals.Store) error {
		if _, err := in.Journal().Append(ctx, annals.Commit{ID: "T|1", Events: []annals.NewEvent{{Payload: text("x")}}}); err != nil {
			return err
		}
		go func() {
			_, err := s.States().Put(t.Context(), annals.StateWrite{ID: "T|1", Payload: text("s"), Event: &annals.NewEvent{Payload: text("e")}})
			put <- err
		}()
		for waits := false; !waits; {
			if err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))`, tx.Conn().PgConn().PID()).Scan(&waits); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, <-put, annals.ErrInvalid) // every write of the entity must carry an event
}

// The commits of a group keep what each of them has: a payload or none, tags, metadata, an adapter. They are read back as they were stored, whether
// the store puts them on the wire itself or the driver does.
func TestGroupsKeepEverything(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	openAt(t, url, pgstore.Options{CreateTables: true})
	events := []annals.NewEvent{
		{Payload: text("x")},
		{Payload: annals.Payload{SerializerID: -7}},
		{Payload: text("y"), Tags: []string{"a,b", `"`, "é"}, Adapter: "adapter"},
		{Payload: text("z"), Metadata: annals.Payload{SerializerID: 9, Manifest: "meta", Data: []byte{0, 255}}},
		{Payload: text("z"), Metadata: annals.Payload{SerializerID: -9}},
	}
	for mode, url := range map[string]string{"wire": url, "driver": with(t, url, "default_query_exec_mode=exec")} {
		s := openAt(t, url, pgstore.Options{})
		for n := range annals.SeqNr(2) {
			var commits []annals.Commit
			for i, e := range events {
				commits = append(commits, annals.Commit{ID: annals.PersistenceID(fmt.Sprint(mode, "|", i)), After: n, Events: []annals.NewEvent{e}, WriteID: annals.NewWriteID()})
			}
			if _, err := pgstore.AppendGroup(t.Context(), s, commits...); err != nil {
				t.Fatal(err)
			}
			for i, c := range commits {
				stored := all(t, s, c.ID)
				got, want := stored[len(stored)-1], events[i]
				same := got.SeqNr == n+1 && got.WriteID == c.WriteID && got.SerializerID == want.SerializerID && got.Manifest == want.Manifest &&
					string(got.Data) == string(want.Data) && slices.Equal(got.Tags, want.Tags) && got.Adapter == want.Adapter &&
					got.Metadata.SerializerID == want.Metadata.SerializerID && got.Metadata.Manifest == want.Metadata.Manifest && string(got.Metadata.Data) == string(want.Metadata.Data)
				if !same {
					t.Errorf("%s, number %d: got %+v, want %+v", mode, n+1, got, want)
				}
			}
		}
	}
}

// A group of single events is stored in columns of type JSONB, too.
func TestGroupsOfJSON(t *testing.T) {
	t.Parallel()
	s := openAt(t, postgres.Schema(t), pgstore.Options{CreateTables: true, JSONB: true})
	e := []annals.NewEvent{{Payload: annals.Payload{SerializerID: 1, Data: []byte(`{"a": 1}`)}}}
	if _, err := pgstore.AppendGroup(t.Context(), s, annals.Commit{ID: "T|1", Events: e}, annals.Commit{ID: "T|2", Events: e}); err != nil {
		t.Fatal(err)
	}
	if stored := all(t, s, "T|2"); len(stored) != 1 || string(stored[0].Data) != `{"a": 1}` {
		t.Errorf("stored: %v", stored)
	}
}
