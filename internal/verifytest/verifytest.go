// Package verifytest fills a store, and compares what package verify finds in it with what a test has damaged, in the tests of stores.
package verifytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/verify"
)

// Want fails t unless verify finds what want says, and nothing else: "code id from to", and the name of a projection at the end. It begins again behind
// every third step, as a run does that was interrupted.
func Want(t *testing.T, s annals.Store, o verify.Options, want ...string) {
	t.Helper()
	o.Settle = time.Nanosecond
	var got []string
	texts := map[string]error{}
	for again := true; again; {
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
func Fill(t *testing.T, s annals.Store, ids, states []annals.PersistenceID, change func(*annals.Commit)) annals.Offset {
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

// writers is how many entities Load writes to at a time, and leastRounds how often each of them at least.
const (
	writers     = 6
	leastRounds = 10
)

// Load writes, saves snapshots, deletes and forgets, as far as s claims, and verifies s again and again meanwhile: nothing may be found.
func Load(t *testing.T, s annals.Store, runs int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	var rounds atomic.Int64
	for w := range writers {
		wg.Go(func() {
			l := load{s: s, id: loadID(w)}
			for round := 0; ctx.Err() == nil; round++ {
				if err := l.round(ctx, round); err != nil && ctx.Err() == nil && !errors.Is(err, annals.ErrConflict) {
					t.Errorf("%s: %v", l.id, err)
					return
				}
				rounds.Add(1)
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	ids := make([]annals.PersistenceID, writers)
	for w := range ids {
		ids[w] = loadID(w)
	}
	for run := 0; run < runs || rounds.Load() < writers*leastRounds && !t.Failed(); run++ {
		o := verify.Options{Settle: 20 * time.Millisecond}
		if run%2 == 1 {
			o.IDs = ids
		}
		for step, err := range verify.Store(ctx, s, o) {
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range step.Found {
				t.Errorf("found %s %s %d to %d: %v", f.Code, f.ID, f.From, f.To, f.Damage)
			}
		}
	}
}

// loadID is an id that every layout takes.
func loadID(w int) annals.PersistenceID {
	return annals.NewPersistenceID("Load", fmt.Sprintf("L-%d", w))
}

// load is what one writer does.
type load struct {
	s    annals.Store
	id   annals.PersistenceID
	last annals.SeqNr
}

func payload(text string) annals.Payload {
	return annals.Payload{SerializerID: 31, Manifest: "text", Data: []byte(`{"text":"` + text + `"}`)}
}

func (l *load) round(ctx context.Context, round int) (err error) {
	caps := l.s.Capabilities()
	n := 1 + round%3
	c := annals.Commit{ID: l.id, After: l.last, Events: slices.Repeat([]annals.NewEvent{{Payload: payload("event")}}, n), WriteID: annals.NewWriteID()}
	if caps.Limits.FirstSnapshot && l.last == 0 || caps.CommitSnapshot && round%5 == 4 {
		c.Snapshot = &annals.Snapshot{ID: l.id, SeqNr: l.last + annals.SeqNr(n), Payload: payload("snapshot")}
	}
	r, err := l.s.Journal().Append(ctx, c)
	if err != nil {
		l.last, _ = l.s.Journal().LastSeqNr(ctx, l.id)
		return err
	}
	l.last = r.SeqNr
	if caps.States {
		state := annals.NewPersistenceID("State", l.id.EntityID())
		old, _, err := l.s.States().Get(ctx, state)
		if err != nil {
			return err
		}
		w := annals.StateWrite{ID: state, After: old.Revision, Payload: payload("state"), WriteID: annals.NewWriteID()}
		if round%7 == 6 && caps.DeletesStates {
			w.Payload = annals.Payload{}
			_, err = l.s.States().Delete(ctx, w)
		} else {
			_, err = l.s.States().Put(ctx, w)
		}
		if err != nil {
			return err
		}
	}
	switch round % 10 {
	case 3:
		if !caps.Snapshots {
			return nil
		}
		return l.s.Snapshots().Save(ctx, annals.Snapshot{ID: l.id, SeqNr: l.last, Payload: payload("snapshot")})
	case 5:
		return l.delete(ctx, l.last-1, true)
	case 9:
		f, err := ability.Of[ability.Forgetter](l.s)
		if err != nil {
			return nil
		}
		if err := l.delete(ctx, l.last, false); err != nil {
			return err
		}
		if _, err := f.Forget(ctx, ability.Forgetting{ID: l.id}); err != nil {
			return err
		}
		l.last, err = l.s.Journal().LastSeqNr(ctx, l.id)
		return err
	}
	return nil
}

// delete deletes events, after a snapshot of them or with all snapshots.
func (l *load) delete(ctx context.Context, to annals.SeqNr, saved bool) error {
	if l.s.Capabilities().Snapshots {
		var err error
		if saved {
			err = l.s.Snapshots().Save(ctx, annals.Snapshot{ID: l.id, SeqNr: l.last, Payload: payload("snapshot")})
		} else {
			err = l.s.Snapshots().Delete(ctx, l.id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
		}
		if err != nil {
			return err
		}
	}
	return l.s.Journal().DeleteTo(ctx, l.id, to)
}
