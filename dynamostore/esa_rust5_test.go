package dynamostore_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The costs in docs/layouts/esa.md, of the tables of Rust 5.
func TestRust5Costs(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	layout := newRust5(2, false)().(esa.Layout)
	s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true, Observer: seen})
	if err != nil {
		t.Fatal(err)
	}
	id := annals.NewPersistenceID("Thing", "1")
	j := s.Journal()
	cost := func(name string, err error, requests int, reads, writes float64) {
		t.Helper()
		if r := seen.last(); err != nil || r.Requests != requests || r.ReadUnits != reads || r.WriteUnits != writes {
			t.Errorf("%s: %v, %d requests, %v read units and %v write units, want %d, %v and %v", name, err, r.Requests, r.ReadUnits, r.WriteUnits, requests, reads, writes)
		}
	}
	append := func(after annals.SeqNr, n, size int, snapshot int) error {
		c := annals.Commit{ID: id, After: after, Events: texts(strings.Split(strings.Repeat(strings.Repeat("x", size)+" ", n-1)+strings.Repeat("x", size), " ")...)}
		if snapshot > 0 {
			c.Snapshot = &annals.Snapshot{ID: id, SeqNr: after + annals.SeqNr(n), Payload: text(strings.Repeat("s", snapshot)).Payload}
		}
		_, err := j.Append(t.Context(), c)
		return err
	}
	recovers := func() error {
		_, err := ability.Recover(t.Context(), s, id, func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
		return err
	}

	cost("first event", append(0, 1, 800, 0), 1, 0, 4)
	cost("next event", append(1, 1, 800, 0), 1, 0, 4)
	cost("ten events of 300 bytes", append(2, 10, 300, 0), 1, 0, 28)
	cost("event after ten events, which the head has", append(12, 1, 800, 0), 1, 0, 10)
	cost("event with a snapshot of 20 KB, and its copy", append(13, 1, 800, 20_000), 2, 0.5, 85)
	cost("event after a snapshot of 20 KB", append(14, 1, 800, 0), 1, 0, 4)
	_, err = j.LastSeqNr(t.Context(), id)
	cost("last number", err, 1, 1, 0)
	cost("recovery from a snapshot of 20 KB with an event", recovers(), 2, 7, 0)
	if es := replay(t.Context(), t, s, id, 1, annals.MaxSeqNr); len(es) != 15 {
		t.Errorf("%d events", len(es))
	}
	cost("replay of 15 events in 8 KB", nil, 2, 3, 0)
	cost("a stale append", wantConflict(append(14, 1, 800, 0)), 1, 0, 0)
	cost("delete of two events", j.DeleteTo(t.Context(), id, 2), 4, 2, 3)
	_, _, err = s.Snapshots().Latest(t.Context(), id, annals.SnapshotCriteria{})
	cost("newest snapshot of 20 KB", err, 1, 5, 0)
}

// oneTable is a client of a service that reads the keys of one table, and leaves those of others unprocessed.
type oneTable struct{ dynamostore.Client }

func (o oneTable) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	table := slices.Min(slices.Collect(maps.Keys(in.RequestItems)))
	some, left := *in, maps.Clone(in.RequestItems)
	delete(left, table)
	some.RequestItems = map[string]types.KeysAndAttributes{table: in.RequestItems[table]}
	out, err := o.Client.BatchGetItem(ctx, &some, options...)
	if err == nil {
		out.UnprocessedKeys = left
	}
	return out, err
}

// A head, a snapshot or settings that the service leaves unprocessed are read.
func TestRust5ReadsUnprocessedKeys(t *testing.T) {
	t.Parallel()
	layout := newRust5(0, false)()
	for _, o := range []dynamostore.Options{{CreateTables: true}, {}} {
		s, err := dynamostore.Open(t.Context(), oneTable{client(t)}, layout, o)
		if err != nil {
			t.Fatal(err)
		}
		if o.CreateTables {
			snapshot := annals.Snapshot{ID: "Thing|1", SeqNr: 1, Payload: text("s").Payload}
			if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Thing|1", Events: texts("a"), Snapshot: &snapshot}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		read := false
		last, err := ability.Recover(t.Context(), s, "Thing|1", func(annals.Snapshot) error { read = true; return nil }, func(annals.Event) error { return errors.New("an event") })
		if !read || last != 1 || err != nil {
			t.Errorf("snapshot %v, last %d, %v", read, last, err)
		}
	}
}

// Copies are removed after the transaction that has made a new one, and not when it is not committed.
func TestRust5RetainsAfterTransactions(t *testing.T) {
	t.Parallel()
	layout := newRust5(1, false)().(esa.Layout)
	s, err := dynamostore.Open(t.Context(), client(t), layout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	mine := errors.New("mine")
	for after, c := range []struct {
		err  error
		rows int32 // in the snapshot table: the settings, the current snapshot and copies
	}{{nil, 3}, {nil, 3}, {mine, 3}} {
		err := s.InTx(t.Context(), func(ctx context.Context, _ *dynamostore.Tx, in annals.Store) error {
			snapshot := annals.Snapshot{ID: "Thing|1", SeqNr: annals.SeqNr(after) + 1, Payload: text("s").Payload}
			_, err := in.Journal().Append(ctx, annals.Commit{ID: "Thing|1", After: annals.SeqNr(after), Events: texts("a"), Snapshot: &snapshot})
			return errors.Join(err, c.err)
		})
		if !errors.Is(err, c.err) {
			t.Fatal(err)
		}
		out, err := client(t).Scan(t.Context(), &dynamodb.ScanInput{TableName: &layout.Snapshot.Table})
		if err != nil || out.Count != c.rows {
			t.Errorf("after %d: %d rows, %v, want %d", after, out.Count, err, c.rows)
		}
	}
	if sn, ok, err := s.Snapshots().Latest(t.Context(), "Thing|1", annals.SnapshotCriteria{}); sn.SeqNr != 2 || !ok || err != nil {
		t.Errorf("snapshot %d, %v, %v", sn.SeqNr, ok, err)
	}
}

// wantConflict is nil for ErrConflict.
func wantConflict(err error) error {
	if errors.Is(err, annals.ErrConflict) {
		return nil
	}
	return errors.Join(errors.New("no conflict"), err)
}
