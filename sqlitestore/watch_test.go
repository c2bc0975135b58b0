package sqlitestore_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// A channel of Watch gets signals for commits of its own store and of others, and is closed when its context ends.
func TestWatch(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s, other := openAt(t, path, sqlitestore.Options{}), openAt(t, path, sqlitestore.Options{})
	for range 2 { // the second time there had been watchers before
		ctx, cancel := context.WithCancel(t.Context())
		watched, err := s.Unwrap().(ability.Watcher).Watch(ctx, annals.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		<-watched // there may be something new from the beginning
		for _, writer := range []*sqlitestore.Store{s, other, s, other} {
			last, err := s.Journal().LastSeqNr(ctx, "T|1")
			if err != nil {
				t.Fatal(err)
			}
			mustAppend(t, writer, commit("T|1", last, 1))
			if _, open := <-watched; !open {
				t.Fatal("closed early")
			}
		}
		cancel()
		for range watched { // what was signalled before may be left
		}
	}
}

// Saved offsets are not signalled: a projection that saves its position would wake itself and all others.
func TestWatchSignalsNoOffsets(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "annals.db"), sqlitestore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	watched, err := s.Unwrap().(ability.Watcher).Watch(ctx, annals.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	<-watched // there may be something new from the beginning
	mustAppend(t, s, commit("T|1", 0, 1))
	<-watched
	for n := range annals.SeqNr(20) {
		if err := s.Offsets().Save(t.Context(), annals.Progress{Projection: "p", Offsets: []annals.Offset{{ID: "T|1", SeqNr: n + 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	signals := 0
	for range watched {
		signals++
	}
	if signals > 0 {
		t.Errorf("offsets were signalled")
	}
}
