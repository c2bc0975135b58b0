// Package verifytest fills a store, and compares what package verify finds in it with what a test has damaged.
package verifytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/verify"
)

// Want fails t unless verify finds what want says, and nothing else: "code id from to", and the name of a projection at the end. It begins again behind
// every third step, as a run does that was interrupted.
func Want(t testing.TB, s annals.Store, o verify.Options, want ...string) {
	t.Helper()
	o.Settle = time.Nanosecond
	var got []string
	texts := map[string]error{}
	for runs, again := 0, true; again; runs++ {
		if runs == 1_000 {
			t.Fatalf("a run that goes on behind every third step: got no end after %d runs", runs)
		}
		again = false
		steps := 0
		for step, err := range verify.Store(t.Context(), s, o) {
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range step.Found {
				line := strings.TrimSpace(fmt.Sprintf("%s %s %d %d %s", f.Code, f.ID, f.From, f.To, f.Projection))
				if f.Kind().Means == "" || f.Kind().Do == "" {
					t.Errorf("nothing says what %s means", line)
				}
				got = append(got, line)
				texts[line] = f.Damage
			}
			if steps++; steps == 3 && step.After != "" && step.After != o.After {
				o.After, again = step.After, true
				break
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	got = slices.Compact(got)
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("found %s: %v", line, texts[line])
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("not found: %s", line)
		}
	}
}

// Fill gives each of ids five events, of a commit each, and a snapshot of the third, and each of states two writes with an event, for a test to damage.
// T|deleted has its events deleted then, and S|tombstone is a deleted state. change may change a commit before it is stored; nil does not. Fill returns the
// offset of the newest event.
func Fill(t testing.TB, s annals.Store, ids, states []annals.PersistenceID, change func(*annals.Commit)) annals.Offset {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx := t.Context()
	event := annals.NewEvent{Payload: payload("event")}
	for _, id := range append(slices.Clone(ids), "T|deleted") {
		for after := range annals.SeqNr(5) {
			c := annals.Commit{ID: id, After: after, Events: []annals.NewEvent{event}, WriteID: annals.NewWriteID()}
			if change != nil {
				change(&c)
			}
			_, err := s.Journal().Append(ctx, c)
			must(err)
		}
		must(s.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 3, Payload: payload("state")}))
	}
	must(s.Journal().DeleteTo(ctx, "T|deleted", 5))
	for _, id := range states {
		for after := range annals.SeqNr(2) {
			_, err := s.States().Put(ctx, annals.StateWrite{ID: id, After: after, Payload: payload("state"), Event: &event})
			must(err)
		}
	}
	_, err := s.States().Delete(ctx, annals.StateWrite{ID: "S|tombstone"})
	must(err)
	newest, err := s.Query().Newest(ctx, annals.Filter{})
	must(err)
	return newest
}

func payload(text string) annals.Payload {
	return annals.Payload{SerializerID: 31, Manifest: "text", Data: []byte(`{"text":"` + text + `"}`)}
}
