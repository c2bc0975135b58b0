package j5ik2o_test

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/akkawire"
	"github.com/annals-go/annals/internal/writes"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func ours(c criteria) annals.SnapshotCriteria {
	o := annals.SnapshotCriteria{MinSeqNr: c.MinSequenceNr, MaxSeqNr: c.MaxSequenceNr}
	if o.MaxSeqNr == 0 {
		o.MaxSeqNr = annals.MaxSeqNr
	}
	if c.ToSequenceNr > 0 {
		o.MaxSeqNr = min(o.MaxSeqNr, c.ToSequenceNr)
	}
	if c.MinTimestamp > 0 {
		o.MinTime = time.UnixMilli(c.MinTimestamp)
	}
	if c.MaxTimestamp > 0 && c.MaxTimestamp < math.MaxInt64 {
		o.MaxTime = time.UnixMilli(c.MaxTimestamp)
	}
	return o
}

// refusals are the steps of a scenario that the layout refuses because the plugin overwrites or loses something, and their ids, whose rows are
// not compared.
var refusals = map[string]struct {
	steps int
	ids   string
}{
	"default":             {1, "[tags-1]"}, // a tag with the separator in it, which comes back as two
	"v1.1.9":              {1, "[tags-1]"},
	"v1.6.1":              {1, "[tags-1]"},
	"writes":              {1, "[rej-5]"}, // one number written twice
	"collisions":          {8, "[- Counter|10 Counter|4 a-1 a-1-80 abc- order-item-5 order-item-7 user11 user3]"},
	"collisions-seqnr":    {8, "[acct-1 acct-2 acct-3 acct-4 acct-5 acct-6]"},
	"snapshots":           {1, "[order-item-5 order-item-7]"},
	"state":               {7, "[- cart-1 cart-2 gone-2 long-1 zero-1]"}, // revisions that do not follow the stored one
	"state-v1":            {7, "[- cart-1 cart-2 gone-2 long-1 zero-1]"},
	"v1.6.1-state":        {7, "[cart-1 cart-2 gone-2 long-1 order-item-5 order-item-7 zero-1]"},
	"state-prefix-tables": {1, "[nosuch-1]"},
}

// mended are the rows that differ because the plugin's delete fails or misses rows. No other rows differ.
var mended = map[string][]string{
	"consistent-read": {"Journal: row cart-1 cart-0000000000000000000000000000000000000057 1 1-0000000000000000001: deleted is BOOL true, want BOOL false"},
	"deletes-hard": {
		"Journal: no row del-one del-0000000000000000000000000000000000000041 1 one-0000000000000000001",
		"Journal: the row del-all del-0000000000000000000000000000000000000001 6 all-0000000000000000006 should not be there", // the last number, kept
		"Journal: the row del-gone del-0000000000000000000000000000000000000004 3 gone-0000000000000000003 should not be there",
	},
	"resolver-change": { // the rows are flagged under the keys that they have, not copied to new ones
		"Journal: no row order-1 order-0000000000000000000000000000000000000010 1 1-0000000000000000001",
		"Journal: no row order-1 order-0000000000000000000000000000000000000010 2 1-0000000000000000002",
		"Journal: row order-1 order-1-1 1 1-0000000000000000001: deleted is BOOL true, want BOOL false",
		"Journal: row order-1 order-1-2 2 1-0000000000000000002: deleted is BOOL true, want BOOL false",
	},
}

// The calls of the plugin, made by the layout, write the plugin's rows, with equal attributes except times and random writer ids.
func TestGoldenWrite(t *testing.T) {
	t.Parallel()
	for name, s := range scenarios(t) {
		switch name {
		case "update-in-place": // there is no such operation: events do not change
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := "w" + rand.Text()
			c := connect(t)
			settings := maps.Clone(s.settings.Settings)
			maps.Copy(settings, s.settings.InitialSettings)
			layout := s.layout(prefix, settings)
			layout.State.Tombstones = true
			w := writer{T: t, client: c, store: open(t, c, layout), refused: map[annals.PersistenceID]bool{}, last: map[annals.PersistenceID]annals.SeqNr{}}
			for _, step := range s.inputs {
				if step.Op == "settings" {
					maps.Copy(settings, step.Set)
					layout = s.layout(prefix, settings)
					layout.ByIndex = true
					w.store = open(t, c, layout)
					continue
				}
				w.do(step)
			}
			if got, want := fmt.Sprint(slices.Sorted(maps.Keys(w.refused))), refusals[name]; w.steps != want.steps || want.steps > 0 && got != want.ids {
				t.Errorf("refused %d steps of %s, want %d of %s", w.steps, got, want.steps, want.ids)
			}
			var differences []string
			for _, table := range s.tables {
				differences = append(differences, w.compare(layout, prefix, table.Table.TableName, table.Items)...)
			}
			slices.Sort(differences)
			if !slices.Equal(differences, mended[name]) {
				t.Errorf("the tables differ:\n%s\nwant\n%s", strings.Join(differences, "\n"), strings.Join(mended[name], "\n"))
			}
		})
	}
}

type writer struct {
	*testing.T
	client  *dynamodb.Client
	store   *dynamostore.Store
	refused map[annals.PersistenceID]bool
	steps   int
	last    map[annals.PersistenceID]annals.SeqNr // of actors
}

func (w *writer) do(s step) {
	ctx := w.Context()
	var err error
	switch s.Op {
	case "persist":
		writer, failed := writes.ParseID(s.WriterUUID)
		if failed != nil {
			w.Fatal(failed)
		}
		for _, atomic := range s.Writes {
			err = errors.Join(err, w.append(s.PID, writer, atomic))
		}
	case "actor":
		batches := [][]payload{s.Events}
		if !s.Atomic {
			batches = nil
			for _, e := range s.Events {
				batches = append(batches, []payload{e})
			}
		}
		for _, batch := range batches {
			for i := range batch {
				w.last[s.PID]++
				batch[i].SeqNr = w.last[s.PID]
			}
			err = errors.Join(err, w.append(s.PID, annals.NewWriteID(), batch))
		}
	case "deleteTo", "actorDelete":
		err = w.store.Journal().DeleteTo(ctx, s.PID, s.To)
	case "saveSnapshot":
		err = w.store.Snapshots().Save(ctx, annals.Snapshot{ID: s.PID, SeqNr: s.SeqNr, Payload: s.Snapshot.ours()})
		if s.SeqNr == 0 && errors.Is(err, annals.ErrInvalid) {
			return // there is no state after event 0 that a snapshot could hold
		}
	case "actorSnapshot":
		n, failed := strconv.Atoi(strings.TrimPrefix(strings.Trim(string(s.ResultOfStep), `"`), "snapshot "))
		if failed != nil {
			w.Fatal(failed)
		}
		err = w.store.Snapshots().Save(ctx, annals.Snapshot{ID: s.PID, SeqNr: annals.SeqNr(n), Payload: s.Snapshot.ours()})
	case "deleteSnapshot":
		err = w.store.Snapshots().Delete(ctx, s.PID, annals.SnapshotCriteria{MinSeqNr: s.SeqNr, MaxSeqNr: s.SeqNr})
	case "deleteSnapshots":
		err = w.store.Snapshots().Delete(ctx, s.PID, ours(criteria{MaxSequenceNr: s.Criteria.MaxSequenceNr})) // the plugin ignores lower bounds
	case "upsertState":
		state := annals.StateWrite{ID: s.PID, After: s.Revision - 1, Payload: s.State.ours()}
		if s.Tag != "" {
			state.Tags = []string{s.Tag}
		}
		_, err = w.store.States().Put(ctx, state)
	case "deleteState":
		st, _, failed := w.store.States().Get(ctx, s.PID)
		if failed == nil && s.Revision == 0 {
			_, failed = w.store.States().Delete(ctx, annals.StateWrite{ID: s.PID, After: st.Revision})
		} else if failed == nil && st.Revision+1 == s.Revision { // this one compares what is stored
			_, failed = w.store.States().Delete(ctx, annals.StateWrite{ID: s.PID, After: st.Revision})
		}
		err = failed
	case "getState", "actorStop":
	default:
		w.Fatalf("no case for %s", s.Op)
	}
	if err == nil {
		return
	}
	if !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrInvalid) {
		w.Fatalf("%s %q: %v", s.Op, s.PID, err)
	}
	w.steps++
	w.refused[s.PID] = true
	if other, ok := otherID(err); ok {
		w.refused[other] = true
	}
}

// otherID returns the other id that the error of a refusal names.
func otherID(err error) (annals.PersistenceID, bool) {
	_, rest, ok := strings.Cut(err.Error(), `and "`)
	if !ok {
		return "", false
	}
	id, _, _ := strings.Cut(rest, `"`)
	return annals.PersistenceID(id), true
}

func (w *writer) append(id annals.PersistenceID, writer annals.WriteID, atomic []payload) error {
	c := annals.Commit{ID: id, After: atomic[0].SeqNr - 1, WriteID: writer}
	for i, e := range atomic {
		if e.Data == nil {
			return nil // could not be serialized: nothing of the write was stored
		}
		if e.SeqNr != c.After+1+annals.SeqNr(i) {
			return nil // one number twice in a batch: the plugin refuses it, and our contract cannot say it
		}
		c.Events = append(c.Events, annals.NewEvent{Payload: e.ours(), Tags: e.Tags, Adapter: e.EventAdapterManifest})
	}
	_, err := w.store.Journal().Append(w.Context(), c)
	return err
}

func (p payload) ours() annals.Payload {
	return annals.Payload{SerializerID: p.SerializerID, Manifest: p.Manifest, Data: *p.Data}
}

// compare returns the rows in which a table differs, without those of ids that had a refusal.
func (w *writer) compare(l j5ik2o.Layout, prefix, table string, want []plantest.Dumped) (differences []string) {
	w.Helper()
	name := prefix + table
	have := map[string]map[string]types.AttributeValue{}
	in := &dynamodb.ScanInput{TableName: &name}
	for {
		out, err := w.client.Scan(w.Context(), in)
		if err != nil {
			w.Fatal(err)
		}
		for _, it := range out.Items {
			if !w.skip(l, it) && !tombstone(l, it) {
				have[key(it)] = it
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
	}
	for _, it := range want {
		if w.skip(l, it) {
			continue
		}
		got, ok := have[key(it)]
		delete(have, key(it))
		if !ok {
			differences = append(differences, fmt.Sprintf("%s: no row %s", table, key(it)))
			continue
		}
		if diff := different(got, it); diff != "" {
			differences = append(differences, fmt.Sprintf("%s: row %s: %s", table, key(it), diff))
		}
	}
	for key := range have {
		differences = append(differences, fmt.Sprintf("%s: the row %s should not be there", table, key))
	}
	return differences
}

func (w *writer) skip(l j5ik2o.Layout, it map[string]types.AttributeValue) bool {
	for _, column := range []string{"persistence-id", l.Journal.Columns.PersistenceID, l.Snapshot.Columns.PersistenceID, l.State.Columns.PersistenceID} {
		if id, ok := it[column].(*types.AttributeValueMemberS); ok && w.refused[annals.PersistenceID(id.Value)] {
			return true
		}
	}
	return false
}

// tombstone reports whether a row is that of a deleted state. The plugin keeps no row.
func tombstone(l j5ik2o.Layout, it map[string]types.AttributeValue) bool {
	deleted, _ := it[cmp.Or(l.State.Columns.Deleted, "deleted")].(*types.AttributeValueMemberBOOL)
	return deleted != nil && deleted.Value && it[cmp.Or(l.State.Columns.Revision, "revision-nr")] != nil
}

// key identifies a row independently of the names of its key columns.
func key(it map[string]types.AttributeValue) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(it)) {
		switch v := it[name].(type) {
		case *types.AttributeValueMemberS:
			if !strings.Contains(name, "tag") && !strings.Contains(name, "label") && !strings.Contains(name, "man") {
				parts = append(parts, v.Value)
			}
		case *types.AttributeValueMemberN:
			if !timed(name) && !strings.Contains(name, "rev") && !strings.Contains(name, "ser") {
				parts = append(parts, v.Value)
			}
		}
	}
	return strings.Join(parts, " ")
}

func timed(name string) bool {
	return slices.Contains([]string{"ordering", "ord", "created", "at"}, name)
}

// different returns the difference of two rows; "" when only times and random writer ids differ.
func different(got, want map[string]types.AttributeValue) string {
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		return fmt.Sprintf("has the attributes %v, want %v", g, w)
	}
	for name, w := range want {
		if timed(name) {
			continue
		}
		g := got[name]
		if wb, ok := w.(*types.AttributeValueMemberB); ok {
			gb, _ := g.(*types.AttributeValueMemberB)
			if gb == nil || string(anonymous(gb.Value)) != string(anonymous(wb.Value)) {
				return fmt.Sprintf("%s is %x, want %x", name, gb, wb.Value)
			}
			continue
		}
		if show(g) != show(w) {
			return fmt.Sprintf("%s is %s, want %s", name, show(g), show(w))
		}
	}
	return ""
}

// anonymous returns a message without its writer, unless the writer is from the scenario.
func anonymous(b []byte) []byte {
	r, err := akkawire.ParseRecord(b)
	if err != nil || r.ID == "" || strings.HasPrefix(r.Writer, "00000000-0000-4000-8000-") {
		return b
	}
	r.Writer = ""
	return r.Append(nil)
}

func show(v types.AttributeValue) string {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return "S " + v.Value
	case *types.AttributeValueMemberN:
		return "N " + v.Value
	case *types.AttributeValueMemberBOOL:
		return fmt.Sprint("BOOL ", v.Value)
	}
	return fmt.Sprintf("%T", v)
}
