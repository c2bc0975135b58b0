package rust5_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/internal/valid"
)

// bench is a layout on tables in memory.
type bench struct {
	*testing.T
	*plantest.Executor
	plan.Contracts
	offer plan.Offer
}

// newBench opens a layout on tables, which may have items.
func newBench(t *testing.T, l esa.Layout, dumps ...plantest.Dump) *bench {
	t.Helper()
	offer, err := l.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	for _, d := range dumps {
		for _, it := range d.Items {
			put(t, x, d.Table.TableName, plan.Item(it))
		}
	}
	return on(t, l, x)
}

// on opens a layout on the tables of x.
func on(t *testing.T, l esa.Layout, x *plantest.Executor) *bench {
	t.Helper()
	offer, err := l.Plan()
	if err == nil {
		err = offer.Check(t.Context(), x, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t, x, offer.On(x), offer}
}

func put(t *testing.T, x *plantest.Executor, table string, it plan.Item) {
	t.Helper()
	if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: table, Put: it}}}); err != nil {
		t.Fatal(err)
	}
}

// Execute is plan.Runner.
func (b *bench) Execute(ctx context.Context, f plan.Function) error {
	return f.Run(ctx, b.Contracts, b.Executor)
}

// append stores c as a store does, which checks the commit first.
func (b *bench) append(c annals.Commit) (annals.Receipt, error) {
	if err := valid.Commit(c, b.offer.Capabilities.Limits); err != nil {
		return annals.Receipt{}, err
	}
	if c.WriteID == (annals.WriteID{}) {
		c.WriteID = annals.NewWriteID()
	}
	return b.Journal.Append(b.Context(), c)
}

// write appends one commit of n events.
func (b *bench) write(id annals.PersistenceID, after annals.SeqNr, n int) annals.SeqNr {
	b.Helper()
	r, err := b.append(annals.Commit{ID: id, After: after, Events: events(n)})
	if err != nil {
		b.Fatalf("append after %d: %v", after, err)
	}
	return r.SeqNr
}

func events(n int) (all []annals.NewEvent) {
	for i := range n {
		all = append(all, plantest.Event(fmt.Sprintf(`{"n":%d}`, i)))
	}
	return all
}

func (b *bench) replay(id annals.PersistenceID, from, to annals.SeqNr) (events []annals.Event, err error) {
	for e, err := range b.Journal.Replay(b.Context(), id, from, to) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// recovered is what Recover returns.
type recovered struct {
	snapshot *annals.Snapshot
	numbers  []annals.SeqNr
	last     annals.SeqNr
}

func (b *bench) recover(id annals.PersistenceID) (r recovered, err error) {
	r.last, err = b.Recover(b.Context(), id, func(s annals.Snapshot) error {
		r.snapshot, r.numbers = &s, nil
		return nil
	}, func(e annals.Event) error {
		r.numbers = append(r.numbers, e.SeqNr)
		return nil
	})
	return r, err
}

func numbers(events []annals.Event) (all []annals.SeqNr) {
	for _, e := range events {
		all = append(all, e.SeqNr)
	}
	return all
}

// The inputs and results of a scenario of the library, as its archive has them.
type (
	aggregateID struct{ Type, Value string }
	input       struct {
		Op          string
		Settings    settings
		Event       *inputEvent
		Aggregate   *inputState
		AggregateID aggregateID
		Since       annals.SeqNr
	}
	settings struct {
		JournalTable, SnapshotTable, HeadTable, SnapshotHistoryIndex string
		KeepSnapshotCount                                            *int
		DeleteTTLSeconds                                             int
	}
	inputEvent struct {
		Type        string
		AggregateID aggregateID
		SeqNr       annals.SeqNr
		OccurredAt  time.Time
		Body        json.RawMessage
	}
	inputState struct {
		AggregateID   aggregateID
		SeqNr         annals.SeqNr
		LastUpdatedAt time.Time
		Body          json.RawMessage
	}
	result struct {
		OK     bool
		Error  *struct{ Class, Message string }
		Result json.RawMessage
	}
	latest struct {
		HeadSeqNr annals.SeqNr
		Snapshot  *struct {
			SeqNr    annals.SeqNr
			Manifest string
			Body     json.RawMessage
		}
	}
	expectedEvent struct {
		SeqNr      annals.SeqNr
		OccurredAt time.Time
		Manifest   string
		Body       json.RawMessage
	}
	expectedAggregate struct {
		ID             aggregateID
		Error          *struct{ Class, Message string }
		LatestSnapshot *latest
		Replayed       *struct {
			SeqNr         annals.SeqNr
			AppliedSeqNrs []annals.SeqNr
		}
		Events []expectedEvent
	}
)

func (a aggregateID) id() annals.PersistenceID {
	return annals.PersistenceID(a.Type + "|" + a.Value)
}

// layout is the layout with the settings of a program. Only the archive of a migration has a prefix.
func (s settings) layout(prefix string) esa.Layout {
	l := esa.Layout{Peer: esa.Rust5, Journal: esa.Journal{Table: prefix + s.JournalTable}, Head: prefix + s.HeadTable,
		Snapshot: esa.Snapshot{Table: prefix + s.SnapshotTable, ActiveIndex: s.SnapshotHistoryIndex, Expire: time.Duration(s.DeleteTTLSeconds) * time.Second}}
	if s.KeepSnapshotCount != nil {
		l.Snapshot.Keep = *s.KeepSnapshotCount
	}
	return l
}

// scenario is one of the archive.
type scenario struct {
	name     string
	inputs   struct{ Steps []input }
	expected struct {
		Results    []result
		Aggregates []expectedAggregate
	}
	tables []plantest.Dump
}

// scenarios reads the archive of the library's runs. It has all of them but replay-1mb, whose events are larger than a page: tables in memory have no pages.
func scenarios(t *testing.T) (all []*scenario) {
	t.Helper()
	byName := map[string]*scenario{}
	for path, data := range plantest.Archive(t, "testdata/esa-rust-5.tar.bz2") {
		s := byName[path[0]]
		if s == nil {
			s = &scenario{name: path[0]}
			byName[path[0]] = s
		}
		into := map[string]any{"inputs.json": &s.inputs, "expected.json": &s.expected, "tables.json": &s.tables}[path[1]]
		if into == nil {
			continue
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatalf("%s: %v", strings.Join(path[:], "/"), err)
		}
	}
	for _, s := range byName {
		if s.tables != nil {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b *scenario) int { return strings.Compare(a.name, b.name) })
	return all
}

var escaped = regexp.MustCompile(`(\\u[0-9a-f]{4})+`)

// compact is JSON as the library stores it: without spaces, and with escapes only where they must be.
func compact(t *testing.T, data json.RawMessage) []byte {
	t.Helper()
	return escaped.ReplaceAllFunc(data, func(text []byte) []byte {
		var s string
		if err := json.Unmarshal([]byte(`"`+string(text)+`"`), &s); err != nil {
			t.Fatal(err)
		}
		return []byte(s)
	})
}
