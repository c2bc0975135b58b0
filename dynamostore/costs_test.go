package dynamostore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/behavior"
	"github.com/annals-go/annals/dynamostore"
)

func TestCommitCosts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	seen := &recorder{}
	s := openCommit(t, client(t), dynamostore.Options{Observer: seen})
	j := s.Journal()
	cost := func(name string, requests int, reads, writes float64) {
		t.Helper()
		if r := seen.last(); r.Requests != requests || r.ReadUnits > reads || r.WriteUnits > writes {
			t.Errorf("%s: %d requests, %v read units and %v write units; want %d, at most %v and %v", name, r.Requests, r.ReadUnits, r.WriteUnits, requests, reads, writes)
		}
	}

	small := annals.NewPersistenceID("Thing", "small")
	if _, err := j.Append(ctx, annals.Commit{ID: small, Events: texts(strings.Repeat("x", 930))}); err != nil {
		t.Fatal(err)
	}
	cost("append of one event of 930 bytes", 1, 0, 1)

	batch := make([]annals.NewEvent, 10)
	for i := range batch {
		batch[i] = text(strings.Repeat("y", 300))
	}
	if _, err := j.Append(ctx, annals.Commit{ID: small, After: 1, Events: batch}); err != nil {
		t.Fatal(err)
	}
	cost("append of ten events of 300 bytes", 1, 0, 4)

	if _, err := j.LastSeqNr(ctx, small); err != nil {
		t.Fatal(err)
	}
	cost("last number", 1, 2, 0)
	snapshot := &annals.Snapshot{ID: small, SeqNr: 12, Payload: text("state").Payload}
	if _, err := j.Append(ctx, annals.Commit{ID: small, After: 11, Events: texts("x"), Snapshot: snapshot}); err != nil {
		t.Fatal(err)
	}
	cost("append with a snapshot, as a transaction", 1, 0, 4)
	if err := j.DeleteTo(ctx, small, 1); err != nil {
		t.Fatal(err)
	}
	cost("delete of a commit of 1 KB", 3, 3, 1)
	if err := j.DeleteTo(ctx, small, 11); err != nil {
		t.Fatal(err)
	}
	cost("delete of a commit of 4 KB", 3, 3, 4)

	state := annals.NewPersistenceID("Thing", "state")
	for after := range annals.SeqNr(2) {
		if _, err := s.States().Put(ctx, annals.StateWrite{ID: state, After: after, Payload: text(strings.Repeat("x", 700)).Payload}); err != nil {
			t.Fatal(err)
		}
		cost("state", 1, 0, 1)
	}
	state = annals.NewPersistenceID("Thing", "state-with-events")
	event := text(strings.Repeat("x", 700))
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: state, Payload: event.Payload, Event: &event}); err != nil {
		t.Fatal(err)
	}
	cost("state with an event, as a transaction after a read of the journal", 2, 1, 4)

	long := annals.NewPersistenceID("Thing", "long")
	last := fill(ctx, t, s, long, 10_000, 10, 20)
	if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: long, SeqNr: last, Payload: text(strings.Repeat("s", 2000)).Payload}); err != nil {
		t.Fatal(err)
	}
	cost("a snapshot of 2,000 bytes", 1, 0, 3)
	fill(ctx, t, s, long, 20, 1, 300)
	bytes := 0
	got, err := ability.Recover(ctx, s, long, func(s annals.Snapshot) error { bytes += len(s.Data); return nil },
		func(e annals.Event) error { bytes += len(e.Data); return nil })
	if err != nil || got != last+20 {
		t.Fatal(got, err)
	}
	units := float64(bytes+4095) / 4096
	cost("recovery with a snapshot and 20 events after it", 1, 2*(units+1), 0)

	thousand := annals.NewPersistenceID("Thing", "thousand")
	fill(ctx, t, s, thousand, 1000, 1, 2048)
	if n := len(replay(ctx, t, s, thousand, 1, annals.MaxSeqNr)); n != 1000 {
		t.Fatal(n)
	}
	cost("replay of 1,000 events of 2 KB", 3, 600, 0)
}

// A command with a key is a read of the keys, a read of the entity and a transaction of two items. The keys are 1 KB for 13 of them. A
// repetition writes nothing.
func TestCostsOfKeys(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	s := openCommit(t, client(t), dynamostore.Options{Observer: seen})
	orders, err := aggregate.New(s, behavior.EventSourced[int, int, int, int]{
		Type:   "Order",
		Decide: func(_, n int) ([]int, error) { return []int{n}, nil },
		Evolve: func(_, n int) int { return n },
		Reply:  func(n, _ int, _ []int) int { return n },
	}, aggregate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := 0
	cost := func(key string, requests int, reads, writes float64) {
		t.Helper()
		if _, err := orders.AskOnce(t.Context(), key, "o", 1); err != nil {
			t.Fatal(err)
		}
		all := seen.results()
		var sum annals.Result
		for _, r := range all[before:] {
			sum.Requests, sum.ReadUnits, sum.WriteUnits = sum.Requests+r.Requests, sum.ReadUnits+r.ReadUnits, sum.WriteUnits+r.WriteUnits
		}
		before = len(all)
		if sum.Requests != requests || sum.ReadUnits > reads || sum.WriteUnits != writes {
			t.Errorf("%s: %d requests, %v read units and %v write units; want %d, at most %v and %v", key, sum.Requests, sum.ReadUnits, sum.WriteUnits, requests, reads, writes)
		}
	}
	cost("first", 3, 2, 4)
	for i := range 12 {
		cost(fmt.Sprint(i), 3, 2, 4)
	}
	cost("first", 4, 4, 0)
	for i := range 8 { // more than 1 KB of keys
		if _, err := orders.AskOnce(t.Context(), fmt.Sprint("more-", i), "o", 1); err != nil {
			t.Fatal(err)
		}
	}
	before = len(seen.results())
	cost("second KB", 3, 2, 6)
}

// fill appends n events of size bytes, batch events in each commit.
func fill(ctx context.Context, t testing.TB, s annals.Store, id annals.PersistenceID, n, batch, size int) annals.SeqNr {
	t.Helper()
	last, err := s.Journal().LastSeqNr(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	for range n / batch {
		events := make([]annals.NewEvent, batch)
		for i := range events {
			events[i] = text(fmt.Sprintf("%-*d", size, int(last)+i+1))
		}
		r, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: last, Events: events})
		if err != nil {
			t.Fatal(err)
		}
		last = r.SeqNr
	}
	return last
}

func TestStateTypeCosts(t *testing.T) {
	t.Parallel()
	seen, o := &recorder{}, newOwn(t)
	options := posts("own" + rand.Text())
	options.Observer = seen
	post := options.StateTypes["Post"]
	post.OnChange = func(ctx context.Context, tx *dynamostore.Tx, s annals.State) error {
		if string(s.Data) == "plain" {
			return nil
		}
		tx.Add(o.add("n", 1))
		if string(s.Data) == "looks" {
			_, _, err := tx.Before(ctx)
			return err
		}
		return nil
	}
	options.StateTypes["Post"] = post
	s := openCommit(t, client(t), options)
	for after, c := range []struct {
		data     string
		requests int
		reads    float64
		writes   float64
	}{
		{"plain", 1, 0, 3},  // the item, and two indexes
		{"plain", 1, 0, 1},  // values that stay cost nothing there
		{"counts", 1, 0, 8}, // a transaction doubles it; a title that changes is removed and put
		{"looks", 2, 1, 8},
	} {
		if err := putText(t, s, "Post|1", annals.SeqNr(after), c.data); err != nil {
			t.Fatal(err)
		}
		if r := seen.last(); r.Requests != c.requests || r.ReadUnits > c.reads || r.WriteUnits > c.writes {
			t.Errorf("%s: %d requests, %v read and %v write units, want %d, at most %v and %v", c.data, r.Requests, r.ReadUnits, r.WriteUnits, c.requests, c.reads, c.writes)
		}
	}
	if ids, err := found(t, s, "title", "looks"); err != nil || len(ids) != 1 {
		t.Error(ids, err)
	}
	if r := seen.last(); r.Requests != 2 || r.ReadUnits > 1.5 {
		t.Errorf("find: %d requests, %v read units, want 2 and at most 1.5", r.Requests, r.ReadUnits)
	}
}
