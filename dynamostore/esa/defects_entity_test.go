package esa_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// defect is an entity, to which a program appends.
type defect struct {
	*bench
	layout  esa.Layout
	id      annals.PersistenceID
	last    annals.SeqNr
	deletes error // of DeleteAll
}

func newDefect(t *testing.T, l esa.Layout) *defect {
	t.Helper()
	return (&defect{layout: l, id: "Thread|42"}).on(t, nil)
}

func (d *defect) on(t *testing.T, x *plantest.Executor) *defect {
	t.Helper()
	d.bench = on(t, d.layout, x)
	d.Contracts = d.offer.On(failing{d.Executor, d})
	return d
}

// reopen returns a defect with another Snapshot on new tables, and reopened one on the same tables.
func (d *defect) reopen(s esa.Snapshot) *defect {
	d.Helper()
	other := &defect{layout: d.layout, id: d.id}
	other.layout.Snapshot = s
	return other.on(d.T, nil)
}

func (d *defect) reopened(s esa.Snapshot) *defect {
	d.Helper()
	other := &defect{layout: d.layout, id: d.id, last: d.last}
	other.layout.Snapshot = s
	return other.on(d.T, d.Executor)
}

// apart returns a defect on new tables of Rust5, whose heads have no state.
func (d *defect) apart() *defect {
	d.Helper()
	return (&defect{layout: esa.Layout{Peer: esa.Rust5}, id: d.id}).on(d.T, nil)
}

// Execute is plan.Runner.
func (d *defect) Execute(ctx context.Context, f plan.Function) error {
	return f.Run(ctx, d.Contracts, failing{d.Executor, d})
}

// failing is an Executor whose deletes fail.
type failing struct {
	*plantest.Executor
	d *defect
}

// DeleteAll is plan.Executor.
func (f failing) DeleteAll(ctx context.Context, table string, keys []plan.Item) error {
	if f.d.deletes != nil {
		return f.d.deletes
	}
	return f.Executor.DeleteAll(ctx, table, keys)
}

// Then is plan.Executor.
func (f failing) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, f)
}

// index lets the journal's index show only the rows that shows reports.
func (d *defect) index(shows func(it plan.Item) bool) {
	d.Contracts = d.offer.On(lateIndex{d.Executor, shows})
}

type lateIndex struct {
	*plantest.Executor
	shows func(it plan.Item) bool
}

// Query is plan.Executor.
func (l lateIndex) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		for it, err := range l.Executor.Query(ctx, q) {
			if (q.Index == "" || err != nil || l.shows(it)) && !yield(it, err) {
				return
			}
		}
	}
}

// commit returns a commit of count events; with a state if state is not "".
func (d *defect) commit(count int, state string) annals.Commit {
	c := annals.Commit{ID: d.id, After: d.last, WriteID: annals.NewWriteID()}
	for range count {
		c.Events = append(c.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "Posted", Data: []byte(`{"text":"hello"}`)}})
	}
	if state != "" {
		c.Snapshot = &annals.Snapshot{ID: d.id, SeqNr: d.last + annals.SeqNr(count), Payload: annals.Payload{SerializerID: 31, Manifest: "Thread", Data: fmt.Appendf(nil, `{"text":%q}`, state)}}
	}
	return c
}

func (d *defect) append(count int, state string) error {
	r, err := d.Journal.Append(d.Context(), d.commit(count, state))
	if err == nil {
		d.last = r.SeqNr
	}
	return err
}

func (d *defect) create() {
	d.Helper()
	d.must(d.append(1, "created"))
}

func (d *defect) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *defect) conflict(err error) {
	d.Helper()
	if !errors.Is(err, annals.ErrConflict) {
		d.Errorf("got %v, want %v", err, annals.ErrConflict)
	}
}

func (d *defect) all() iter.Seq[annals.Event] {
	d.Helper()
	return slices.Values(d.replay(d.id))
}

// holds checks that the events up to last are read.
func (d *defect) holds(last annals.SeqNr) {
	d.Helper()
	if got := numbers(d.replay(d.id)); annals.SeqNr(len(got)) != last || got[len(got)-1] != last || d.bench.last(d.id) != last {
		d.Errorf("events %v, last number %d, want %d", got, d.bench.last(d.id), last)
	}
}

// copies returns the numbers of the copies; those that expire only if expiring.
func (d *defect) copies(expiring bool) (all []annals.SeqNr) {
	for _, it := range d.Items("snapshot") {
		n, _ := plan.Number(it, "seq_nr")
		ttl, _ := plan.Number(it, "ttl")
		if !strings.HasSuffix(plan.KeyText(it["skey"]), "-0") && (expiring || ttl == 0) {
			all = append(all, annals.SeqNr(n))
		}
	}
	slices.Sort(all)
	return all
}

// expiry returns the time at which copy n expires, in seconds since 1970.
func (d *defect) expiry(n annals.SeqNr) int64 {
	for _, it := range d.Items("snapshot") {
		if strings.HasSuffix(plan.KeyText(it["skey"]), fmt.Sprintf("-%d", n)) {
			ttl, _ := plan.Number(it, "ttl")
			return ttl
		}
	}
	return 0
}

// cloned returns a bench on a copy of the tables.
func (b *bench) cloned() *bench {
	x := b.Executor.Clone()
	return &bench{b.T, x, b.offer.On(x), b.offer}
}

func lastError(b *bench, id annals.PersistenceID) error {
	_, err := b.Journal.LastSeqNr(b.Context(), id)
	return err
}

func appendError(b *bench, id annals.PersistenceID, after annals.SeqNr) error {
	d := &defect{bench: b, id: id, last: after}
	return d.append(1, map[bool]string{true: "state"}[after == 0])
}
