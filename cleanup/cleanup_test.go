package cleanup_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/sqlitestore"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

func TestMain(m *testing.M) { dynamo.Main(m) }

var text = annals.Payload{SerializerID: 1, Manifest: "text", Data: []byte("secret")}

// stores are the stores that the tests run on.
func stores(t *testing.T, test func(t *testing.T, s annals.Store)) {
	t.Helper()
	for name, open := range map[string]func(t *testing.T) annals.Store{
		"memstore": func(*testing.T) annals.Store { return memstore.New() },
		"sqlitestore": func(t *testing.T) annals.Store {
			s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "annals.db"), sqlitestore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
		"dynamostore": openDynamo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			defer func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}()
			test(t, s)
		})
	}
}

// openDynamo opens a store of the commit layout on a new table.
func openDynamo(t *testing.T) annals.Store {
	t.Helper()
	client, err := dynamostore.NewClient(t.Context(), dynamostore.ClientOptions{Endpoint: dynamo.Endpoint(t), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := dynamostore.Open(t.Context(), client, commit.Layout{Table: "c" + rand.Text(), Index: "slices"}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func cleaner(t *testing.T, s annals.Store, o cleanup.Options) *cleanup.Cleaner {
	t.Helper()
	c, err := cleanup.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// write gives id events up to last and a snapshot of each of the numbers.
func write(t *testing.T, s annals.Store, id annals.PersistenceID, last annals.SeqNr, snapshots ...annals.SeqNr) {
	t.Helper()
	c := annals.Commit{ID: id, Events: make([]annals.NewEvent, last)}
	for i := range c.Events {
		c.Events[i].Payload = text
	}
	if _, err := s.Journal().Append(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, n := range snapshots {
		if err := s.Snapshots().Save(t.Context(), annals.Snapshot{ID: id, SeqNr: n, Payload: text}); err != nil {
			t.Fatal(err)
		}
	}
}

func put(t *testing.T, s annals.Store, id annals.PersistenceID, after annals.SeqNr) {
	t.Helper()
	if _, err := s.States().Put(t.Context(), annals.StateWrite{ID: id, After: after, Payload: text}); err != nil {
		t.Fatal(err)
	}
}

// shape is what a store has of an entity.
type shape struct {
	first, last annals.SeqNr // first event, last number
	snapshot    annals.SeqNr
	revision    annals.SeqNr
	state       bool
}

func shapeOf(t *testing.T, s annals.Store, id annals.PersistenceID) (got shape) {
	t.Helper()
	var errs [4]error
	for e, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
		got.first, errs[0] = e.SeqNr, err
		break
	}
	got.last, errs[1] = s.Journal().LastSeqNr(t.Context(), id)
	var snapshot annals.Snapshot
	snapshot, _, errs[2] = s.Snapshots().Latest(t.Context(), id, annals.SnapshotCriteria{})
	got.snapshot = snapshot.SeqNr
	var state annals.State
	state, got.state, errs[3] = s.States().Get(t.Context(), id)
	got.revision = state.Revision
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return got
}

func wantShape(t *testing.T, s annals.Store, id annals.PersistenceID, want shape) {
	t.Helper()
	if got := shapeOf(t, s, id); got != want {
		t.Errorf("%s: %+v, want %+v", id, got, want)
	}
}

// A dry run reports what a real run does, and changes nothing.
func TestOperations(t *testing.T) {
	t.Parallel()
	const (
		full  = annals.PersistenceID("T|full")  // events 1 … 10, snapshots of 4 and 8, a state
		bare  = annals.PersistenceID("T|bare")  // events 1 … 3
		state = annals.PersistenceID("T|state") // a state at revision 2
		none  = annals.PersistenceID("T|none")
	)
	type run func(*cleanup.Cleaner, context.Context) (cleanup.Report, error)
	all := cleanup.IDs(full, bare, state, none)
	for _, c := range []struct {
		name              string
		o                 cleanup.Options
		run               run
		want              cleanup.Report
		full, bare, state shape
	}{
		{"events to 5", cleanup.Options{},
			func(c *cleanup.Cleaner, ctx context.Context) (cleanup.Report, error) {
				return c.DeleteEvents(ctx, all, 5)
			},
			cleanup.Report{Events: 8},
			shape{6, 10, 8, 1, true}, shape{0, 3, 0, 0, false}, shape{0, 0, 0, 2, true}},
		{"snapshots", cleanup.Options{},
			func(c *cleanup.Cleaner, ctx context.Context) (cleanup.Report, error) {
				return c.DeleteSnapshots(ctx, all)
			},
			cleanup.Report{Snapshots: 1},
			shape{1, 10, 0, 1, true}, shape{1, 3, 0, 0, false}, shape{0, 0, 0, 2, true}},
		{"before the newest snapshot", cleanup.Options{},
			func(c *cleanup.Cleaner, ctx context.Context) (cleanup.Report, error) {
				return c.DeleteBeforeSnapshot(ctx, all)
			},
			cleanup.Report{Events: 8, Snapshots: -1},
			shape{9, 10, 8, 1, true}, shape{1, 3, 0, 0, false}, shape{0, 0, 0, 2, true}},
		{"before more snapshots than there are", cleanup.Options{KeepSnapshots: 5},
			func(c *cleanup.Cleaner, ctx context.Context) (cleanup.Report, error) {
				return c.DeleteBeforeSnapshot(ctx, cleanup.IDs(bare, none))
			},
			cleanup.Report{Entities: 2, Last: none},
			shape{1, 10, 8, 1, true}, shape{1, 3, 0, 0, false}, shape{0, 0, 0, 2, true}},
		{"entities", cleanup.Options{},
			func(c *cleanup.Cleaner, ctx context.Context) (cleanup.Report, error) {
				return c.DeleteEntities(ctx, all)
			},
			cleanup.Report{Events: 13, Snapshots: 1, States: 2},
			shape{0, 12, 0, 2, false}, shape{0, 4, 0, 0, false}, shape{0, 0, 0, 3, false}},
		{"forget, too early", cleanup.Options{},
			func(c *cleanup.Cleaner, ctx context.Context) (cleanup.Report, error) {
				return c.ForgetEntities(ctx, all)
			},
			cleanup.Report{Events: 13, Snapshots: 1, States: 2, Waiting: 3, Forgotten: 1},
			shape{0, 12, 0, 2, false}, shape{0, 4, 0, 0, false}, shape{0, 0, 0, 3, false}},
		{"forget at once", cleanup.Options{AtOnce: true},
			func(c *cleanup.Cleaner, ctx context.Context) (cleanup.Report, error) {
				return c.ForgetEntities(ctx, all)
			},
			cleanup.Report{Events: 13, Snapshots: 1, States: 2, Forgotten: 4},
			shape{}, shape{}, shape{}},
		{"forget what is deleted", cleanup.Options{AtOnce: true},
			func(c *cleanup.Cleaner, ctx context.Context) (cleanup.Report, error) {
				return c.ForgetDeleted(ctx, all)
			},
			cleanup.Report{Kept: 3, Forgotten: 1},
			shape{1, 10, 8, 1, true}, shape{1, 3, 0, 0, false}, shape{0, 0, 0, 2, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stores(t, func(t *testing.T, s annals.Store) {
				write(t, s, full, 10, 4, 8)
				put(t, s, full, 0)
				write(t, s, bare, 3)
				put(t, s, state, 0)
				put(t, s, state, 1)
				before := []shape{shapeOf(t, s, full), shapeOf(t, s, bare), shapeOf(t, s, state)}
				want := c.want
				if want.Entities == 0 {
					want.Entities, want.Last = 4, none
				}
				if want.Snapshots < 0 { // only where there are older ones
					want.Snapshots = 0
					if s.Capabilities().ManySnapshots {
						want.Snapshots = 1
					}
				}
				for _, dry := range []bool{true, false} {
					o := c.o
					o.DryRun = dry
					got, err := c.run(cleaner(t, s, o), t.Context())
					if err != nil || got != want {
						t.Errorf("dry %v: %+v, %v\nwant %+v", dry, got, err, want)
					}
					if dry {
						wantShape(t, s, full, before[0])
						wantShape(t, s, bare, before[1])
						wantShape(t, s, state, before[2])
					}
				}
				wantShape(t, s, full, c.full)
				wantShape(t, s, bare, c.bare)
				wantShape(t, s, state, c.state)
			})
		})
	}
}

// Of many snapshots the newest are kept, and the events after the oldest of them.
func TestKeepSnapshots(t *testing.T) {
	t.Parallel()
	for keep, first := range map[int]annals.SeqNr{0: 10, 1: 10, 2: 6, 3: 2, 4: 2, 9: 2} {
		s := memstore.New()
		write(t, s, "T|1", 10, 1, 5, 9)
		if _, err := cleaner(t, s, cleanup.Options{KeepSnapshots: keep}).DeleteBeforeSnapshot(t.Context(), cleanup.IDs("T|1")); err != nil {
			t.Fatal(err)
		}
		wantShape(t, s, "T|1", shape{first: first, last: 10, snapshot: 9})
		oldest, _, err := s.Snapshots().Latest(t.Context(), "T|1", annals.SnapshotCriteria{MaxSeqNr: first - 1})
		if err != nil || oldest.SeqNr != first-1 {
			t.Errorf("keep %d: snapshot %d is the oldest, %v, want %d", keep, oldest.SeqNr, err, first-1)
		}
		if _, there, _ := s.Snapshots().Latest(t.Context(), "T|1", annals.SnapshotCriteria{MaxSeqNr: max(first-2, 1)}); there && first > 2 {
			t.Errorf("keep %d: an older snapshot is left", keep)
		}
	}
}

// A run over all ids of a type, which the store lists while they change.
func TestQueryIDs(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s annals.Store) {
		const n = 300
		for i := range n {
			write(t, s, annals.PersistenceID(fmt.Sprintf("A|%03d", i)), 2)
		}
		write(t, s, "B|1", 2)
		var last annals.PersistenceID // in the store's order
		for id, err := range s.Query().IDs(t.Context(), "A", "") {
			if last = id; err != nil {
				t.Fatal(err)
			}
		}
		c := cleaner(t, s, cleanup.Options{AtOnce: true})
		got, err := c.ForgetEntities(t.Context(), s.Query().IDs(t.Context(), "A", ""))
		if want := (cleanup.Report{Entities: n, Events: 2 * n, Forgotten: n, Last: last}); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		wantShape(t, s, "A|150", shape{})
		wantShape(t, s, "B|1", shape{first: 1, last: 2})
		if again, err := c.ForgetEntities(t.Context(), s.Query().IDs(t.Context(), "A", "")); err != nil || again != (cleanup.Report{}) {
			t.Errorf("once more: %+v, %v", again, err)
		}
	})
}

// No event is deleted that a projection has not handled.
func TestProjections(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s annals.Store) {
		write(t, s, "T|1", 5)
		c := cleaner(t, s, cleanup.Options{Projections: []string{"list"}})
		handle := func(n annals.SeqNr) {
			t.Helper()
			for e, err := range s.Journal().Replay(t.Context(), "T|1", n, n) {
				if err == nil {
					err = s.Offsets().Save(t.Context(), annals.Progress{Projection: "list", Offsets: []annals.Offset{e.Offset()}})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		handle(3)
		_, err := c.DeleteEntities(t.Context(), cleanup.IDs("T|1"))
		if !errors.Is(err, annals.ErrUnavailable) {
			t.Errorf("two events are not handled: %v", err)
		}
		wantShape(t, s, "T|1", shape{first: 1, last: 5})
		if _, err := c.DeleteEvents(t.Context(), cleanup.IDs("T|1"), 3); err != nil {
			t.Error(err)
		}
		wantShape(t, s, "T|1", shape{first: 4, last: 5})
		handle(5)
		if _, err := c.DeleteEntities(t.Context(), cleanup.IDs("T|1")); err != nil {
			t.Error(err)
		}
		wantShape(t, s, "T|1", shape{last: 6})
	})
}

// An event that is written after the check and before the delete is not deleted: the projections have not been asked about it.
func TestDeletesOnlyWhatItLookedAt(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 5} { // also after events that are deleted already
		inner := memstore.New()
		write(t, inner, "T|1", 5)
		if err := inner.Journal().DeleteTo(t.Context(), "T|1", annals.SeqNr(5-before)); err != nil {
			t.Fatal(err)
		}
		s := watched{inner, func(ctx context.Context, id annals.PersistenceID) error {
			_, err := inner.Journal().Append(ctx, annals.Commit{ID: id, After: 5, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 4}}}})
			return err
		}}
		report, err := cleaner(t, s, cleanup.Options{}).DeleteEvents(t.Context(), cleanup.IDs("T|1"), annals.MaxSeqNr)
		if err != nil || report.Events != annals.SeqNr(before) {
			t.Errorf("%d events: %+v, %v", before, report, err)
		}
		wantShape(t, inner, "T|1", shape{first: 6, last: 6})
	}
}

// An event that is written while the cleaner looks for events is not deleted: a projection may not have handled it. When it is written before the
// look, and another cleaner has deleted the events before it, an owner that has them in memory would not notice: that is a conflict.
func TestWrittenWhileLooking(t *testing.T) {
	t.Parallel()
	for op, want := range map[string]error{"replay": nil, "last number": annals.ErrConflict} {
		memory := memstore.New()
		write(t, memory, "T|1", 3)
		deleted := func() {
			if err := memory.Journal().DeleteTo(t.Context(), "T|1", 3); err != nil {
				t.Error(err)
			}
		}
		if want == nil {
			deleted()
		}
		written := false
		s := faulty.Able{Store: &faulty.Store{Store: memory, Around: func(ctx context.Context, c *faulty.Call, run func() error) error {
			err := run()
			if c.Op == op && !written {
				written = true
				if _, err := memory.Journal().Append(ctx, annals.Commit{ID: "T|1", After: 3, Events: []annals.NewEvent{{Payload: text}}}); err != nil {
					t.Error(err)
				}
				deleted()
			}
			return err
		}}}
		if _, err := cleaner(t, s, cleanup.Options{Projections: []string{"list"}}).DeleteEntities(t.Context(), cleanup.IDs("T|1")); !errors.Is(err, want) {
			t.Errorf("after %s: %v, want %v", op, err, want)
		}
		wantShape(t, memory, "T|1", shape{first: 4, last: 4})
	}
}

// Events are not deleted when the snapshot that covers them cannot be read.
func TestReadable(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	write(t, s, "T|1", 5, 3)
	write(t, s, "T|2", 5, 3)
	write(t, s, "T|3", 5, 3)
	broken := errors.New("broken")
	later := &annals.Error{Kind: annals.ErrUnavailable} // says nothing of the snapshot
	c := cleaner(t, s, cleanup.Options{Readable: func(snap annals.Snapshot) error {
		switch {
		case snap.SeqNr != 3:
			t.Errorf("asked for snapshot %d", snap.SeqNr)
		case snap.ID == "T|1":
			return broken
		case snap.ID == "T|3":
			return later
		}
		return nil
	}})
	_, err := c.DeleteBeforeSnapshot(t.Context(), cleanup.IDs("T|1", "T|2"))
	if !errors.Is(err, annals.ErrCorrupt) || !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	wantShape(t, s, "T|1", shape{first: 1, last: 5, snapshot: 3})
	wantShape(t, s, "T|2", shape{first: 4, last: 5, snapshot: 3})
	if _, err := c.DeleteBeforeSnapshot(t.Context(), cleanup.IDs("T|3")); !errors.Is(err, later) || errors.Is(err, annals.ErrCorrupt) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	wantShape(t, s, "T|3", shape{first: 1, last: 5, snapshot: 3})
}

// A sequence of ids that panics fails the run, not the process.
func TestPanicInIDs(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"panic": func() { panic("of the test") }, "Goexit": runtime.Goexit} {
		_, err := cleaner(t, memstore.New(), cleanup.Options{}).DeleteEvents(t.Context(), func(func(annals.PersistenceID, error) bool) { end() }, 1)
		if !errors.Is(err, annals.ErrPanic) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]cleanup.Options{
		"concurrency": {Concurrency: -1}, "high concurrency": {Concurrency: 10_001}, "pace": {PerSecond: -1}, "failures": {MaxFailures: -1},
		"snapshots": {KeepSnapshots: -1}, "age": {Age: -1}, "age and at once": {Age: 1, AtOnce: true},
	} {
		if _, err := cleanup.New(memstore.New(), o); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := cleanup.New(nil, cleanup.Options{}); !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("no store: %v", err)
	}
	if _, err := cleanup.New(driver.Unsupported(), cleanup.Options{Projections: []string{"p"}}); !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("no offsets: %v", err)
	}
}

// plain is a store without a Forgetter.
type plain struct{ annals.Store }

// What a store does not support is refused before anything is deleted.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	write(t, s, "T|1", 3, 2)
	ids := cleanup.IDs("T|1")
	for name, err := range map[string]error{
		"forget":         second(cleaner(t, plain{s}, cleanup.Options{}).ForgetEntities(t.Context(), ids)),
		"forget deleted": second(cleaner(t, plain{s}, cleanup.Options{}).ForgetDeleted(t.Context(), ids)),
		"events":         second(cleaner(t, driver.Unsupported(), cleanup.Options{}).DeleteEvents(t.Context(), ids, 1)),
		"snapshots":      second(cleaner(t, driver.Unsupported(), cleanup.Options{}).DeleteSnapshots(t.Context(), ids)),
		"before":         second(cleaner(t, driver.Unsupported(), cleanup.Options{}).DeleteBeforeSnapshot(t.Context(), ids)),
		"entities":       second(cleaner(t, driver.Unsupported(), cleanup.Options{}).DeleteEntities(t.Context(), ids)),
	} {
		if !errors.Is(err, annals.ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantShape(t, s, "T|1", shape{first: 1, last: 3, snapshot: 2})
}

func second(_ cleanup.Report, err error) error { return err }
