package hosttest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// ReadOnly fills the tables of s. The store that open opens on them, for reading only, returns what s returns, and refuses every write. watched is whether
// its watches are told of writes of s.
func ReadOnly(t *testing.T, s annals.Store, open func() annals.Store, watched bool) {
	t.Helper()
	ctx := t.Context()
	id := annals.NewPersistenceID("Only", "a")
	write := func(after annals.SeqNr) {
		t.Helper()
		commit := annals.Commit{ID: id, After: after, Events: []annals.NewEvent{{Payload: textOf("e")}}}
		if s.Capabilities().Limits.FirstSnapshot && after == 0 {
			commit.Snapshot = &annals.Snapshot{ID: id, SeqNr: 1, Payload: textOf("s")}
		}
		if _, err := s.Journal().Append(ctx, commit); err != nil {
			t.Fatal(err)
		}
	}
	if s.Capabilities().Events {
		write(0)
		write(1)
	}
	if s.Capabilities().States {
		if _, err := s.States().Put(ctx, annals.StateWrite{ID: "Kept|a", Payload: textOf("k")}); err != nil {
			t.Fatal(err)
		}
	}
	if s.Capabilities().Offsets {
		if err := s.Offsets().Save(ctx, annals.Progress{Projection: "p", Slices: annals.SliceRanges(1)[0], Through: annals.Offset{Time: time.UnixMicro(1), ID: id, SeqNr: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	want := readAll(ctx, s, id)
	same := func(when string, got map[string]string) {
		t.Helper()
		for name := range want {
			if got[name] != want[name] {
				t.Errorf("%s %s: %s, want %s", name, when, got[name], want[name])
			}
		}
	}
	only := open()
	same("of the store for reading", readAll(ctx, only, id))
	if checker, err := ability.Of[ability.HealthChecker](only); err == nil {
		if err := checker.CheckHealth(ctx); err != nil {
			t.Errorf("check health: %v", err)
		}
	}
	for name, err := range writes(ctx, only, id) {
		if !errors.Is(err, annals.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
	same("after the writes", readAll(ctx, s, id))
	if !watched {
		return
	}
	watcher, err := ability.Of[ability.Watcher](only)
	if err != nil {
		t.Fatal(err)
	}
	signals, err := watcher.Watch(ctx, annals.Filter{Type: id.Type()})
	if err != nil {
		t.Fatal(err)
	}
	write(2)
	for only.Capabilities().Events {
		if last, err := only.Journal().LastSeqNr(ctx, id); last == 3 || err != nil {
			return
		}
		<-signals
	}
}

func textOf(s string) annals.Payload {
	return annals.Payload{SerializerID: 17, Manifest: "text", Data: []byte(s)}
}

// readAll is what s returns, or why it does not.
func readAll(ctx context.Context, s annals.Store, id annals.PersistenceID) map[string]string {
	all := map[string]string{
		"replay":    listed(s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr)),
		"last":      said(s.Journal().LastSeqNr(ctx, id)),
		"events":    listed(s.Query().Events(ctx, annals.Filter{Type: "Only"})),
		"states":    listed(s.Query().States(ctx, annals.Filter{Type: "Kept"})),
		"snapshots": listed(s.Query().Snapshots(ctx, annals.Filter{Type: "Only"})),
		"ids":       listed(s.Query().IDs(ctx, "Only", "")),
		"newest":    said(s.Query().Newest(ctx, annals.Filter{Type: "Only"})),
		"load":      said(s.Offsets().Load(ctx, "p", annals.SliceRanges(1)[0])),
		"handled":   said(s.Offsets().Handled(ctx, "p", id)),
	}
	_, found, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
	all["latest"] = said(found, err)
	state, found, err := s.States().Get(ctx, "Kept|a")
	all["get"] = said(state, err) + fmt.Sprint(found)
	if recoverer, err := ability.Of[ability.Recoverer](s); err == nil {
		all["recover"] = said(recoverer.Recover(ctx, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil }))
	}
	if forgetter, err := ability.Of[ability.Forgetter](s); err == nil {
		all["dry run"] = said(forgetter.Forget(ctx, ability.Forgetting{ID: id, DryRun: true}))
		all["dry run of none"] = said(forgetter.Forget(ctx, ability.Forgetting{ID: "Only|none", DryRun: true}))
	}
	if checker, err := ability.Of[ability.Checker](s); err == nil {
		all["check"] = said(checker.Check(ctx, id, nil))
	}
	return all
}

func said[T any](v T, err error) string { return fmt.Sprintf("%+v, %v", v, err) }

func listed[T any](all iter.Seq2[T, error]) string {
	var texts []string
	for v, err := range all {
		texts = append(texts, said(v, err))
	}
	return fmt.Sprint(texts)
}

// writes are the errors of everything that writes and that s has.
func writes(ctx context.Context, s annals.Store, id annals.PersistenceID) map[string]error {
	w := annals.StateWrite{ID: "Kept|a", After: 1, Payload: textOf("w")}
	slicesOfAll := annals.SliceRanges(1)[0]
	failed := map[string]error{
		"delete snapshots": s.Snapshots().Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: 1}),
		"save":             s.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 1, Payload: textOf("w")}),
		"delete":           s.Journal().DeleteTo(ctx, id, 1),
		"save offsets":     s.Offsets().Save(ctx, annals.Progress{Projection: "p", Slices: slicesOfAll}),
		"reset":            s.Offsets().Reset(ctx, "p", slicesOfAll, annals.Offset{}),
		"forget offsets":   s.Offsets().Forget(ctx, "p", id),
	}
	_, failed["append"] = s.Journal().Append(ctx, annals.Commit{ID: id, After: 2, Events: []annals.NewEvent{{Payload: textOf("w")}},
		Snapshot: &annals.Snapshot{ID: id, SeqNr: 3, Payload: textOf("w")}})
	_, failed["put"] = s.States().Put(ctx, w)
	_, failed["delete state"] = s.States().Delete(ctx, annals.StateWrite{ID: w.ID, After: 1})
	failed["transaction"] = ability.Atomically(ctx, s, func(context.Context, annals.Store) error { return nil })
	if skipper, err := ability.Of[ability.Skipper](s); err == nil {
		failed["skip"] = skipper.SkipTo(ctx, id, 2, 9)
	}
	if skipper, err := ability.Of[ability.StateSkipper](s); err == nil {
		failed["skip state"] = skipper.SkipStateTo(ctx, "Kept|b", 9)
	}
	if forgetter, err := ability.Of[ability.Forgetter](s); err == nil {
		_, failed["forget"] = forgetter.Forget(ctx, ability.Forgetting{ID: id})
	}
	if observable, err := ability.Of[ability.Observable](s); err == nil {
		failed["delete, observed"] = observable.Observed(nil).Journal().DeleteTo(ctx, id, 1)
	}
	if subscriber, err := ability.Of[ability.Subscriber](s); err == nil {
		for _, failed["subscribe"] = range subscriber.Subscribe(ctx, "s", annals.Filter{}) {
			break
		}
	}
	return failed
}
