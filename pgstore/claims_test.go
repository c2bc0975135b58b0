package pgstore_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// claims has the result here for each claim in testdata/akka-r2dbc-defects.json. The claims were tried with the plugin.
var claims = map[string]struct {
	test  string // shows the opposite, or the same where the plugin is right
	about string // why the outcome is the same, or where else it is decided; "" for a defect with the opposite outcome
}{
	"change-handler-kept-on-conflict":          {test: "TestConflictRunsNoHandler"},
	"change-handler-on-insert-conflict":        {"TestConflictRunsNoHandler", "right: nothing of the handler is kept"},
	"hard-delete-of-nothing-calls-handler":     {test: "TestForgettingCallsNoHandler"},
	"handler-failure-rolls-back":               {"TestHandlerFailureRollsBack", "right"},
	"tombstone-row":                            {"TestWritesWhatThePluginWrote", "right: tombstones are the plugin's, row by row"},
	"revision-after-delete":                    {"TestRevisionsContinueAfterDelete", "right after a tombstone; there is no hard delete but Forget"},
	"wide-key-two-rows":                        {test: "TestWideKeyKeepsOneRow"},
	"journal-timestamp-monotonic":              {"TestTimesRiseByTheMicrosecond", "right"},
	"journal-timestamp-after-delete":           {test: "TestTimesRiseAfterDeletes"},
	"state-timestamp-monotonic":                {"TestTimesRiseByTheMicrosecond", "right"},
	"assert-single-writer-off":                 {"TestConflictRunsNoHandler", "there is no such setting: a revision is always compared"},
	"like-wildcards":                           {test: "TestTypesAreNoPatterns"},
	"paging-skips-custom-tables":               {test: "TestListingLeavesNoTableOut"},
	"not-null-additional-column":               {test: "TestRefusedColumnIsNoConflict"},
	"same-timestamp-more-than-buffer":          {test: "TestManyEventsOfOneTime"},
	"late-event-found-by-backtracking":         {"TestLateEventIsFoundByLookingBack", "right: a follower that looks back finds it; how far it looks back is its own decision"},
	"late-event-after-backtracking-passed":     {"TestLateEventIsFoundByLookingBack", "a store keeps no position: what is found depends on how far back the follower asks"},
	"hard-deleted-state-ignored-by-projection": {test: "TestRevisionsContinueAfterDelete"},
	"delete-of-unknown-pid":                    {test: "TestDeletesLeaveMarkers"},
	"delete-beyond-highest":                    {test: "TestDeletesLeaveMarkers"},
	"second-delete-below-the-first":            {"TestDeletesLeaveMarkers", "right: with PluginDeletes the same rows are left, which changes nothing for readers"},
	"delete-leaves-gap-marker-and-readers":     {"TestReadsWhatThePluginWrote", "right: markers count, and are no events"},
	"older-snapshot-overwrites-newer":          {test: "TestOlderSnapshotStaysOut"},
	"negative-min-timestamp":                   {test: "TestSnapshotsBefore1970"},
}

func TestEveryClaimHasATest(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/akka-r2dbc-defects.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Claims []struct {
			ID    string `json:"id"`
			Claim string `json:"claim"`
			Holds bool   `json:"holds"`
		} `json:"claims"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			tests[string(m[1])] = true
		}
	}
	seen := map[string]bool{}
	for _, c := range file.Claims {
		seen[c.ID] = true
		switch here, ok := claims[c.ID]; {
		case !c.Holds:
			t.Errorf("%s does not hold: nothing to do for it", c.ID)
		case !ok:
			t.Errorf("%s has no test: %s", c.ID, c.Claim)
		case !tests[here.test]:
			t.Errorf("%s: there is no %s", c.ID, here.test)
		}
	}
	if len(seen) == 0 {
		t.Error("there are no claims")
	}
	for id := range claims {
		if !seen[id] {
			t.Errorf("%s is no claim", id)
		}
	}
}

func TestForgettingCallsNoHandler(t *testing.T) {
	t.Parallel()
	s, url := pluginStore(t, onCart)
	if done, err := s.Unwrap().(ability.Forgetter).Forget(t.Context(), ability.Forgetting{ID: "Cart|h-4"}); !done || err != nil {
		t.Errorf("forgetting nothing: %v, %v", done, err)
	}
	if n := count(t, url, "SELECT count(*) FROM cart_changes"); n != 0 {
		t.Errorf("the handler left %d rows, want none", n)
	}
}

// The revisions of a deleted state continue, so a follower that has seen the last one sees the next.
func TestRevisionsContinueAfterDelete(t *testing.T) {
	t.Parallel()
	s, _ := pluginStore(t, onCart)
	mustPut(t, s, "Cart|t-1", 0, cartPayload("x", 1))
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Cart|t-1", After: 1}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, put(t, s, "Cart|t-1", 0, cartPayload("x", 1)), annals.ErrConflict)
	wantKind(t, put(t, s, "Cart|t-1", 1, cartPayload("x", 1)), annals.ErrConflict)
	mustPut(t, s, "Cart|t-1", 2, cartPayload("x", 1))
	for state, err := range s.Query().States(t.Context(), annals.Filter{Type: "Cart"}) {
		if err != nil || state.Revision != 3 {
			t.Errorf("revision %d (%v), want 3", state.Revision, err)
		}
	}
}

func TestTimesRiseByTheMicrosecond(t *testing.T) {
	t.Parallel()
	url := postgres.Schema(t)
	s := openAt(t, url, pgstore.Options{CreateTables: true})
	future := time.Date(2040, 1, 1, 0, 0, 0, 10_000, time.UTC)
	appendOne(t, s, "T|1", 0)
	mustPut(t, s, "S|1", 0, text("x"))
	run(t, url, "UPDATE event_journal SET db_timestamp = '2040-01-01T00:00:00.000010Z'; UPDATE durable_state SET db_timestamp = '2040-01-01T00:00:00.000010Z'")
	for i, n := range []int{1, 3, 1} {
		last, err := s.Journal().LastSeqNr(t.Context(), "T|1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := appendTexts(t.Context(), s, order{ID: "T|1", After: last, Events: n}); err != nil {
			t.Fatal(err)
		}
		for _, e := range all(t, s, "T|1")[last:] {
			if want := future.Add(time.Duration(i+1) * time.Microsecond); !e.Time.Equal(want) {
				t.Errorf("event %d is of %v, want %v", e.SeqNr, e.Time, want)
			}
		}
	}
	mustPut(t, s, "S|1", 1, text("y"))
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "S|1", After: 2}); err != nil {
		t.Fatal(err)
	}
	if state, _, err := s.States().Get(t.Context(), "S|1"); err != nil || !state.Time.Equal(future.Add(2*time.Microsecond)) {
		t.Errorf("the state is of %v (%v)", state.Time, err)
	}
}

// An event can become visible after a later event was read. A query from before its time returns it, with its payload.
func TestLateEventIsFoundByLookingBack(t *testing.T) {
	t.Parallel()
	s := open(t, pgstore.Options{})
	var late annals.Receipt
	var newest annals.Offset
	err := s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) (err error) {
		late, err = in.Journal().Append(ctx, annals.Commit{ID: "Late|3", Events: []annals.NewEvent{{Payload: text("late")}}})
		if err != nil {
			return err
		}
		r := appendOne(t, s, "Late|2", 0) // meanwhile, and visible first
		newest = annals.Offset{Time: r.Time, SeqNr: r.SeqNr, ID: "Late|2"}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !late.Time.Before(newest.Time) {
		t.Fatalf("the late one is of %v, the other of %v", late.Time, newest.Time)
	}
	read := func(after annals.Offset) (ids []annals.PersistenceID) {
		for e, err := range s.Query().Events(t.Context(), annals.Filter{Type: "Late", After: after}) {
			if err != nil || len(e.Data) == 0 {
				t.Errorf("event %+v, %v", e, err)
			}
			ids = append(ids, e.ID)
		}
		return ids
	}
	if ids := read(newest); len(ids) != 0 {
		t.Errorf("after the newest: %q", ids)
	}
	if ids := read(annals.Offset{Time: late.Time.Add(-time.Microsecond)}); len(ids) != 2 || ids[0] != "Late|3" {
		t.Errorf("looking back: %q, want both, the late one first", ids)
	}
}

func TestOlderSnapshotStaysOut(t *testing.T) {
	t.Parallel()
	s, url := pluginStore(t, nil)
	for _, n := range []annals.SeqNr{9, 4} {
		if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: n, Payload: text("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, url, "SELECT seq_nr FROM snapshot"); n != 9 {
		t.Errorf("the snapshot is of number %d, want 9", n)
	}
}

func TestSnapshotsBefore1970(t *testing.T) {
	t.Parallel()
	s, _ := pluginStore(t, nil)
	if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: "T|1", SeqNr: 1, Payload: text("x"), Time: time.UnixMilli(-5000)}); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[int64]bool{-6000: true, -5000: true, -4000: false} {
		_, ok, err := s.Snapshots().Latest(t.Context(), "T|1", annals.SnapshotCriteria{MinTime: time.UnixMilli(from)})
		if err != nil || ok != want {
			t.Errorf("from %d ms on: %v, %v, want %v", from, ok, err, want)
		}
	}
}
