package j5ik2o_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
)

// stepped is an executor that reads each shard of a merge separately, page by page, as the engine does. before is called before each request.
type stepped struct {
	*plantest.Executor
	page   int // rows
	before func()
}

func (s stepped) Get(ctx context.Context, g plan.Get) (plan.Item, bool, error) {
	s.before()
	return s.Executor.Get(ctx, g)
}

func (s stepped) GetAll(ctx context.Context, table string, keys []plan.Item) ([]plan.Item, error) {
	s.before()
	return s.Executor.GetAll(ctx, table, keys)
}

func (s stepped) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	return s.Merge(ctx, []plan.Query{q}, "sequence-nr")
}

// cursor is one query of a merge.
type cursor struct {
	plan.Query
	rows  []plan.Item
	last  int64
	begun bool
	ended bool
}

func (s stepped) fill(ctx context.Context, c *cursor, order string) {
	for len(c.rows) == 0 && !c.ended {
		s.before()
		c.ended = true
		for it, err := range s.Executor.Query(ctx, c.Query) {
			if err != nil {
				panic(err) // the executor of the tests has no errors of its own
			}
			n, _ := plan.Number(it, order)
			if c.begun && (n == c.last || (n < c.last) != c.Backward) {
				continue // of an earlier page
			}
			if len(c.rows) == s.page {
				c.ended = false
				break
			}
			c.rows = append(c.rows, it)
		}
		if len(c.rows) > 0 {
			c.last, _ = plan.Number(c.rows[len(c.rows)-1], order)
			c.begun = true
		}
	}
}

func (s stepped) Merge(ctx context.Context, queries []plan.Query, order string) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		cursors := make([]*cursor, len(queries))
		for i, q := range queries {
			cursors[i] = &cursor{Query: q}
		}
		for {
			var first *cursor
			var head int64
			for _, c := range cursors {
				s.fill(ctx, c, order)
				if len(c.rows) == 0 {
					continue
				}
				if n, _ := plan.Number(c.rows[0], order); first == nil || (n < head) != c.Backward {
					first, head = c, n
				}
			}
			if first == nil {
				return
			}
			it := first.rows[0]
			if first.rows = first.rows[1:]; !yield(it, nil) {
				return
			}
		}
	}
}

// owner is an entity, and the layout and the tables that it is in.
type owner struct {
	*testing.T
	offer plan.Offer
	x     *plantest.Executor
	id    annals.PersistenceID
}

func newOwner(t *testing.T, l j5ik2o.Layout) owner {
	t.Helper()
	offer, err := l.Plan()
	if err != nil {
		t.Fatal(err)
	}
	return owner{t, offer, plantest.New(offer.Tables), "Thread-42"}
}

func (o owner) append(from, to annals.SeqNr) {
	o.Helper()
	for n := from; n <= to; n++ {
		if _, err := o.offer.On(o.x).Journal.Append(o.Context(), annals.Commit{ID: o.id, After: n - 1, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{plantest.Event(fmt.Sprint(n))}}); err != nil {
			o.Fatalf("append after %d: %v", n-1, err)
		}
	}
}

func (o owner) save(n annals.SeqNr) {
	o.Helper()
	if err := o.offer.On(o.x).Snapshots.Save(o.Context(), annals.Snapshot{ID: o.id, SeqNr: n, Time: o.x.Now(), Payload: annals.Payload{SerializerID: 4, Data: []byte("s")}}); err != nil {
		o.Fatalf("save %d: %v", n, err)
	}
}

func (o owner) prune(to annals.SeqNr) {
	o.Helper()
	if err := o.offer.On(o.x).Snapshots.Delete(o.Context(), o.id, annals.SnapshotCriteria{MaxSeqNr: to}); err != nil {
		o.Fatalf("delete snapshots up to %d: %v", to, err)
	}
}

func (o owner) delete(to annals.SeqNr) {
	o.Helper()
	if err := o.offer.On(o.x).Journal.DeleteTo(o.Context(), o.id, to); err != nil {
		o.Fatalf("delete up to %d: %v", to, err)
	}
}

// interleave runs read once for each way in which the steps of others, in their order, can come between its first requests.
func interleave(t *testing.T, requests int, prepare func() (owner, []func()), read func(o owner, x plan.Executor)) {
	t.Helper()
	_, steps := prepare()
	at := make([]int, len(steps)) // the request before which each step is done
	for {
		o, steps := prepare()
		request, done := 0, 0
		read(o, stepped{o.x, 2, func() {
			for done < len(steps) && at[done] <= request {
				steps[done]()
				done++
			}
			request++
		}})
		if t.Failed() {
			t.Fatalf("steps of others before requests %v", at)
		}
		i := len(at) - 1
		for i >= 0 && at[i] == requests {
			i--
		}
		if i < 0 {
			return
		}
		at[i]++
		for j := i + 1; j < len(at); j++ {
			at[j] = at[i]
		}
	}
}

// byNumber are layouts whose reads take more than one request.
func byNumber() map[string]j5ik2o.Layout {
	j, s := j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}, j5ik2o.Snapshot{PartitionKey: j5ik2o.SequenceNumberBased}
	return map[string]j5ik2o.Layout{
		"with an index":    {ShardCount: 3, Journal: j, Snapshot: s},
		"without an index": {ShardCount: 3, Journal: j, Snapshot: s, NoIndex: true},
	}
}

// There is a snapshot at each moment: a new one is saved before the old one is deleted.
func TestLatestBesideSavesAndDeletes(t *testing.T) {
	t.Parallel()
	for name, l := range byNumber() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interleave(t, 7, func() (owner, []func()) {
				o := newOwner(t, l)
				o.save(4)
				return o, []func(){func() { o.save(5) }, func() { o.prune(4) }, func() { o.save(6) }, func() { o.prune(5) }}
			}, func(o owner, x plan.Executor) {
				s, ok, err := o.offer.On(x).Snapshots.Latest(t.Context(), o.id, annals.SnapshotCriteria{})
				if err != nil || !ok || s.SeqNr < 4 || s.SeqNr > 6 {
					t.Errorf("newest snapshot: %d, %v, %v; want one of 4 to 6", s.SeqNr, ok, err)
				}
			})
		})
	}
}

// A recovery returns a state that has existed: the events from 1 on, or a snapshot and the events after it.
func TestRecoverBesideAnOwner(t *testing.T) {
	t.Parallel()
	for name, l := range byNumber() {
		for what, deletes := range map[string]bool{"": false, ", events deleted": true} {
			t.Run(name+what, func(t *testing.T) {
				t.Parallel()
				interleave(t, 13, func() (owner, []func()) {
					o := newOwner(t, l)
					o.append(1, 4)
					o.save(4)
					return o, []func(){func() { o.append(5, 6) }, func() { o.save(6) }, func() {
						if o.prune(4); deletes {
							o.delete(6)
						}
					}}
				}, func(o owner, x plan.Executor) {
					if last := recoverWhole(o, x); last >= 0 && last < 4 {
						t.Errorf("recovered up to %d", last)
					}
				})
			})
		}
	}
}

// A skip writes two rows. A last number read beside a skip is that before or after the skip, not that of the first row. The row before can be one of
// another skip.
func TestLastBesideSkip(t *testing.T) {
	t.Parallel()
	for name, l := range byNumber() {
		for _, events := range []annals.SeqNr{2, 4} {
			t.Run(fmt.Sprintf("%s, %d events", name, events), func(t *testing.T) {
				t.Parallel()
				interleave(t, 13, func() (owner, []func()) {
					o := newOwner(t, l)
					o.append(1, events)
					skip := func(after, n annals.SeqNr) {
						if err := o.offer.On(o.x).SkipTo(t.Context(), o.id, after, n); err != nil {
							t.Error(err)
						}
					}
					if events < 4 {
						skip(events, 4)
					}
					return o, []func(){func() { skip(4, 9) }}
				}, func(o owner, x plan.Executor) {
					if last, err := o.offer.On(x).Journal.LastSeqNr(t.Context(), o.id); last != 4 && last != 9 || err != nil {
						t.Errorf("the last number is %d, %v; want 4 or 9", last, err)
					}
				})
			})
		}
	}
}

// recoverWhole returns the last number, -1 for a recovery that a delete has overtaken.
func recoverWhole(o owner, x plan.Executor) annals.SeqNr {
	var state []annals.SeqNr // the numbers that it has seen
	last, err := o.offer.On(x).Recover(o.Context(), o.id, func(s annals.Snapshot) error {
		state = nil
		for n := annals.SeqNr(1); n <= s.SeqNr; n++ {
			state = append(state, n)
		}
		return nil
	}, func(e annals.Event) error {
		state = append(state, e.SeqNr)
		return nil
	})
	if errors.Is(err, annals.ErrTruncated) {
		return -1
	}
	want := make([]annals.SeqNr, max(last, 0))
	for i := range want {
		want[i] = annals.SeqNr(i + 1)
	}
	if err != nil || !slices.Equal(state, want) {
		o.Errorf("recovered %v up to %d, %v", state, last, err)
	}
	return last
}

// A shard that is read late has a number far above those read before. Rows written in between are read, too.
func TestReplayBesideAppendsToManyShards(t *testing.T) {
	t.Parallel()
	const shards, first, all = 600, 10, 1300
	o := newOwner(t, j5ik2o.Layout{ShardCount: shards, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}})
	o.append(1, first)
	request, next := 0, annals.SeqNr(1)
	x := stepped{o.x, 100, func() {
		if request++; request == shards { // of the last shard
			o.append(first+1, all)
		}
	}}
	for e, err := range o.offer.On(x).Journal.Replay(t.Context(), o.id, 1, annals.MaxSeqNr) {
		if err != nil || e.SeqNr != next {
			t.Fatalf("event %d, %v; want %d", e.SeqNr, err, next)
		}
		next++
	}
	if next <= all-shards {
		t.Errorf("replayed up to %d; shard %d showed a later event", next-1, shards-1)
	}
}

// A replay notices that rows after a yielded event were deleted, also when it asks for no later row.
func TestBoundedReplayBesideHardDelete(t *testing.T) {
	t.Parallel()
	for _, to := range []annals.SeqNr{8, 10, annals.MaxSeqNr} {
		o := newOwner(t, j5ik2o.Layout{ShardCount: 2, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased, HardDelete: true}})
		o.append(1, 10)
		var yielded annals.SeqNr
		var failed error
		for e, err := range o.offer.On(stepped{o.x, 1, func() {}}).Journal.Replay(t.Context(), o.id, 1, to) {
			if failed = err; err == nil {
				if yielded = e.SeqNr; yielded == 3 {
					o.delete(9)
					o.append(11, 12)
					o.delete(11)
				}
			}
		}
		if !errors.Is(failed, annals.ErrTruncated) {
			t.Errorf("up to %d: yielded up to %d, then %v; want it truncated", to, yielded, failed)
		}
	}
}

// A gap that existed before does not hide a later one.
func TestReplayPastAHoleBesideDelete(t *testing.T) {
	t.Parallel()
	o := newOwner(t, j5ik2o.Layout{ShardCount: 2, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}})
	o.append(1, 10)
	flagged, _, err := o.x.Get(t.Context(), plan.Get{Table: "Journal", Key: plan.Item{"pkey": plan.S("Thread-42-0"), "skey": plan.S("42-0000000000000000004")}})
	if err != nil {
		t.Fatal(err)
	}
	flagged["deleted"] = plan.Bool(true) // by hand
	var failed error
	deleted := false
	x := stepped{o.x, 1, func() {}}
	for e, err := range o.offer.On(x).Journal.Replay(t.Context(), o.id, 1, annals.MaxSeqNr) {
		if failed = err; err == nil && e.SeqNr == 5 && !deleted {
			deleted = true
			o.delete(8)
		}
	}
	if !errors.Is(failed, annals.ErrTruncated) {
		t.Errorf("got %v, want it truncated", failed)
	}
}

// A delete writes while it reads, so it does not keep the keys of all rows.
func TestDeletesAreBounded(t *testing.T) {
	t.Parallel()
	o := newOwner(t, j5ik2o.Layout{ShardCount: 2, Journal: j5ik2o.Journal{PartitionKey: j5ik2o.SequenceNumberBased}, Snapshot: j5ik2o.Snapshot{PartitionKey: j5ik2o.SequenceNumberBased}})
	const rows, page = 40, 2
	o.append(1, rows)
	for n := range annals.SeqNr(rows) {
		o.save(n + 1)
	}
	for name, run := range map[string]func(x plan.Executor) error{
		"events": func(x plan.Executor) error { return o.offer.On(x).Journal.DeleteTo(t.Context(), o.id, rows) },
		"snapshots": func(x plan.Executor) error {
			return o.offer.On(x).Snapshots.Delete(t.Context(), o.id, annals.SnapshotCriteria{MaxSeqNr: rows})
		},
	} {
		x := &counted{}
		x.stepped = stepped{o.x, page, func() { x.reads++ }}
		if err := run(x); err != nil {
			t.Fatal(err)
		}
		if x.writes != rows || x.ahead > 8 {
			t.Errorf("%s: %d writes, %d pages of %d rows read before a write that needed no more; want %d writes and few pages", name, x.writes, x.ahead, page, rows)
		}
	}
}

// counted counts how many requests reads are ahead of writes.
type counted struct {
	stepped
	reads, writes, ahead int
}

func (c *counted) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	c.ahead = max(c.ahead, c.reads-c.writes/c.page)
	c.writes += len(w.Ops)
	return c.stepped.Write(ctx, w)
}
