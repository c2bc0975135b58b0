package rust5_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// The defects of the libraries, by their numbers in docs/layouts/esa.md: none of them is here, neither those that the library of these tables
// has left nor those that it has not.
func TestDefects(t *testing.T) {
	t.Parallel()
	tests := map[string]func(b *bench){
		"D1": func(b *bench) { // reads that end with the first page
			offer := b.offer
			plantest.EveryOrder(b.T, plantest.Orders{Page: 2}, func(*plantest.Run) plantest.Scenario {
				return plantest.Scenario{Tables: b.Executor, Processes: []func(plan.Executor) error{func(x plan.Executor) error {
					j := offer.On(x).Journal
					if _, err := j.Append(b.Context(), annals.Commit{ID: thing, Events: events(7)}); err != nil {
						return err
					}
					n := 0
					for _, err := range j.Replay(b.Context(), thing, 1, annals.MaxSeqNr) {
						if n++; err != nil {
							return err
						}
					}
					if n != 7 {
						return fmt.Errorf("%d events", n)
					}
					return nil
				}}}
			})
		},
		"D2": func(b *bench) { // a stored event is replaced
			b.write(thing, 0, 2)
			put(b.T, b.Executor, "head", plan.Item{"aid": plan.S("Thing-1"), "type_name": plan.S("Thing"), "seq_nr": plan.N(1), "events": plan.L()}) // as if a lagging index had shown it
			before := b.Items("journal")
			if _, err := b.append(annals.Commit{ID: thing, After: 1, Events: events(1)}); !errors.Is(err, annals.ErrConflict) || !reflect.DeepEqual(before, b.Items("journal")) {
				b.Errorf("an append over a stored event: %v", err)
			}
		},
		"D3": func(b *bench) { b.wantActive(2, 0, 7, "[6 7]") },
		"D4": func(b *bench) { b.wantActive(3, 0, 2, "[1 2]") }, // fewer copies than Keep
		"D5": func(b *bench) { // the error of the retention is that of the write
			b.reopen(esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 1}})
			x := &withoutIndex{Executor: b.Executor}
			for after := range annals.SeqNr(3) {
				if _, err := b.offer.On(x).Journal.Append(b.Context(), withSnapshot(after)); err != nil {
					b.Errorf("append after %d: %v", after, err)
				}
			}
			if active := b.active(); x.failed != 3 || active != "[1 2 3]" {
				b.Errorf("%d requests have failed, the copies are %s", x.failed, active)
			}
			if err := esa.Retain(b.Context(), plantest.Store(runner{b.offer.On(x)}), thing); !errors.Is(err, annals.ErrUnavailable) {
				b.Errorf("retain: %v", err)
			}
			if err := esa.Retain(b.Context(), plantest.Store(b), thing); err != nil || b.active() != "[3]" {
				b.Errorf("retain: %v, the copies are %s", err, b.active())
			}
		},
		"D6": func(b *bench) { // more than 25 copies at a time
			b.wantActive(40, 0, 40, b.wantedNumbers(1, 40))
			b.wantActive(5, 40, 41, "[37 38 39 40 41]")
		},
		"D8": func(b *bench) { // the end of a marked copy is moved
			l := esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 1, Expire: time.Hour}}
			b.reopen(l)
			ends := map[string]string{}
			for after := range annals.SeqNr(4) {
				if _, err := b.append(withSnapshot(after)); err != nil {
					b.Fatal(err)
				}
				for _, it := range b.Items("snapshot") {
					if end, before := plan.KeyText(it["ttl"]), ends[plan.KeyText(it["skey"])]; before != "" && end != before {
						b.Errorf("copy %s ends at %s, before at %s", plan.KeyText(it["skey"]), end, before)
					} else {
						ends[plan.KeyText(it["skey"])] = end
					}
				}
			}
			if ends["1"] == "" || ends["3"] == "" || ends["4"] != "" || ends["0"] != "" {
				b.Errorf("the ends are %v", ends)
			}
		},
		"D10": func(*bench) {}, // there are no shards
		"D11": func(b *bench) { // two aggregates share an aggregate id
			b.write("order|item-1", 0, 1)
			if _, err := b.append(annals.Commit{ID: "order-item|1", Events: events(1)}); !errors.Is(err, annals.ErrInvalid) {
				b.Errorf("order-item and 1: %v", err)
			}
		},
		"D12": func(b *bench) { // numbers with gaps, numbers below, and states of others
			last := b.write(thing, 0, 1)
			for _, after := range []annals.SeqNr{4, 2, 0, -1} {
				if _, err := b.append(annals.Commit{ID: thing, After: after, Events: events(1)}); !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrInvalid) {
					b.Errorf("append after %d: %v", after, err)
				}
			}
			for _, s := range []annals.Snapshot{{ID: thing, SeqNr: 50}, {ID: "Thing|2", SeqNr: 2}} {
				s.Payload = events(1)[0].Payload
				if _, err := b.append(annals.Commit{ID: thing, After: last, Events: events(1), Snapshot: &s}); !errors.Is(err, annals.ErrInvalid) {
					b.Errorf("state %d of %q: %v", s.SeqNr, s.ID, err)
				}
			}
		},
		"D15": func(b *bench) { // an aggregate needs a state, which has to fit
			large := withSnapshot(0)
			large.Snapshot.Data = make([]byte, 410_000)
			b.Log()
			if _, err := b.append(large); !errors.Is(err, annals.ErrTooLarge) || len(b.Items("journal")) > 1 {
				b.Errorf("a state of 410,000 bytes: %v", err)
			}
			b.write(thing, 0, 1)
		},
		"D16": func(b *bench) { // items without a payload
			for _, table := range []string{"journal", "snapshot"} {
				b := newBench(b.T, esa.Layout{Peer: esa.Rust5})
				if _, err := b.append(withSnapshot(0)); err != nil {
					b.Fatal(err)
				}
				for _, it := range b.Items(table) {
					delete(it, "payload")
				}
				_, err := b.replay(thing, 1, 2)
				_, err2 := b.recover(thing)
				if !errors.Is(errors.Join(err, err2), annals.ErrCorrupt) {
					b.Errorf("table %s: %v, %v", table, err, err2)
				}
			}
		},
		"D18": func(b *bench) { // kinds of errors
			b.write(thing, 0, 2)
			_, stale := b.append(annals.Commit{ID: thing, After: 1, Events: events(1)})
			_, long := b.append(annals.Commit{ID: annals.PersistenceID("Thing|" + strings.Repeat("x", 1100)), Events: events(1)})
			if !errors.Is(stale, annals.ErrConflict) || !errors.Is(long, annals.ErrInvalid) {
				b.Errorf("%v, %v", stale, long)
			}
		},
		"D23": func(b *bench) { // large numbers in JSON
			type amount struct{ N int64 }
			c := codec.JSON[amount]("amount")
			p, err := c.Encode(amount{9007199254740993})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := b.append(annals.Commit{ID: thing, Events: []annals.NewEvent{{Payload: p}}}); err != nil {
				b.Fatal(err)
			}
			got, err := b.replay(thing, 1, 1)
			if err != nil {
				b.Fatal(err)
			}
			if v, err := c.Decode(got[0].Payload); err != nil || v.N != 9007199254740993 {
				b.Errorf("%+v, %v", v, err)
			}
		},
		"D24": func(b *bench) { // a query after each event
			b.reopen(esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 1}})
			b.Log()
			b.write(thing, 0, 1)
			b.write(thing, 1, 1)
			if log := b.Log(); strings.Contains(log, "query") || strings.Count(log, "transaction") != 2 {
				b.Errorf("the requests are\n%s", log)
			}
		},
	}
	var verdicts struct{ Defects []struct{ ID string } }
	if err := json.Unmarshal(plantest.Archive(t, "testdata/esa-rust-5.tar.bz2")[[2]string{"esa-rust-5", "defects.json"}], &verdicts); err != nil || len(verdicts.Defects) != len(tests) {
		t.Errorf("%d defects, %d tests, %v", len(verdicts.Defects), len(tests), err)
	}
	for _, d := range verdicts.Defects {
		t.Run(d.ID, func(t *testing.T) { tests[d.ID](newBench(t, esa.Layout{Peer: esa.Rust5})) })
	}
}

// reopen opens another layout on the tables of b.
func (b *bench) reopen(l esa.Layout) { *b = *on(b.T, l, b.Executor) }

// withSnapshot is a commit of one event with its snapshot.
func withSnapshot(after annals.SeqNr) annals.Commit {
	s := annals.Snapshot{ID: thing, SeqNr: after + 1, Payload: annals.Payload{SerializerID: 31, Data: []byte("{}")}}
	return annals.Commit{ID: thing, After: after, Events: events(1), WriteID: annals.NewWriteID(), Snapshot: &s}
}

// wantActive appends events after … to with their snapshots. want are the copies that are left.
func (b *bench) wantActive(keep int, after, to annals.SeqNr, want string) {
	b.Helper()
	b.reopen(esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: keep}})
	for ; after < to; after++ {
		if _, err := b.append(withSnapshot(after)); err != nil {
			b.Errorf("append after %d: %v", after, err)
		}
	}
	if got := b.active(); got != want {
		b.Errorf("the copies are %s, want %s", got, want)
	}
}

// active are the numbers of the copies that are neither deleted nor marked.
func (b *bench) active() string {
	var all []annals.SeqNr
	for _, it := range b.Items("snapshot") {
		if it["active_history_seq_nr"] != nil {
			n, _ := plan.Number(it, "skey")
			all = append(all, annals.SeqNr(n))
		}
	}
	return fmt.Sprint(all)
}

func (*bench) wantedNumbers(from, to annals.SeqNr) string {
	var all []annals.SeqNr
	for n := from; n <= to; n++ {
		all = append(all, n)
	}
	return fmt.Sprint(all)
}

// withoutIndex fails queries of indexes.
type withoutIndex struct {
	*plantest.Executor
	failed int
}

func (x *withoutIndex) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	if q.Index == "" {
		return x.Executor.Query(ctx, q)
	}
	x.failed++
	return func(yield func(plan.Item, error) bool) { yield(nil, &annals.Error{Kind: annals.ErrUnavailable}) }
}

func (x *withoutIndex) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, x)
}

// runner runs functions on contracts.
type runner struct{ plan.Contracts }

func (r runner) Execute(ctx context.Context, f plan.Function) error {
	return f.Run(ctx, r.Contracts, nil)
}
