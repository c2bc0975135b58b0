package esa

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// D3, D4: the newest copies stay, and none is removed while there are no more than Keep. D8: a copy is marked once.
func TestRetention(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		layout Layout
		want   []string // after each commit
	}{
		{"one", Layout{Snapshot: Snapshot{Keep: 1}}, []string{"0 1", "0 2", "0 3", "0 3", "0 5"}},
		{"three", Layout{Peer: Rust, Snapshot: Snapshot{Keep: 3}}, []string{"0 1", "0 1 2", "0 1 2 3", "0 1 2 3", "0 2 3 5"}},
		{"rust 3", Layout{Peer: Rust3, Snapshot: Snapshot{Keep: 2}}, []string{"0 1", "0 1 2", "0 2 3", "0 2 3", "0 3 5"}},
		{"js 3", Layout{Peer: JS3, Snapshot: Snapshot{Keep: 2}}, []string{"0 1", "0 1 2", "0 2 3", "0 2 3", "0 3 5"}},
		{"marked", Layout{Peer: Rust3, Snapshot: Snapshot{Keep: 1, Expire: time.Hour}}, []string{"0 1", "0 1~ 2", "0 1~ 2~ 3", "0 1~ 2~ 3", "0 1~ 2~ 3~ 5"}},
		{"marked, js 3", Layout{Peer: JS3, Snapshot: Snapshot{Keep: 2, Expire: time.Hour}}, []string{"0 1", "0 1 2", "0 1~ 2 3", "0 1~ 2 3", "0 1~ 2~ 3 5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.layout)
			marks := map[string]string{}
			for i, want := range c.want {
				text := "state"
				if i == 3 {
					text = "" // an event without a snapshot
				}
				b.Executor.Log()
				b.commit(annals.SeqNr(i+1), text)
				if log := b.Executor.Log(); text == "" && strings.Count(log, "query") > 0 {
					t.Errorf("D24: an event without a snapshot made the requests\n%s", log)
				}
				if got := b.rowNumbers(); got != want {
					t.Errorf("after %d: %s, want %s", i+1, got, want)
				}
				for _, it := range b.Items(b.shape.Name) {
					key, ttl := plan.KeyText(it[attrSort]), plan.KeyText(it[attrTTL])
					if before := marks[key]; before != "" && before != "0" && before != ttl {
						t.Errorf("%s was marked for %s, and then for %s", key, before, ttl)
					}
					marks[key] = ttl
					active, _ := plan.Number(it, "active_ttl_seq_nr")
					if head := strings.HasSuffix(key, "-0"); (active > 0) != (c.layout.Peer == JS3 && ttl == "0" && !head) {
						t.Errorf("%s has active_ttl_seq_nr %d", key, active)
					}
				}
			}
		})
	}
}

// D6: the copies that are too many after Keep is lowered are deleted at once, whatever their number. Copies that were never made do no harm.
func TestKeepIsChanged(t *testing.T) {
	t.Parallel()
	b := newBench(t, Layout{Snapshot: Snapshot{Keep: 500}})
	for n := range annals.SeqNr(240) {
		b.commit(n+1, "x")
	}
	for _, change := range []struct {
		keep    int
		n       annals.SeqNr
		text    string
		want    string
		deletes int
	}{
		{5, 241, "", "", 0},
		{5, 242, "x", "0 237 238 239 240 242", 3},
		{0, 243, "x", "0 237 238 239 240 242", 0},
		{0, 244, "x", "0 237 238 239 240 242", 0},
		{3, 245, "x", "0 240 242 245", 1},
		{7, 246, "x", "0 240 242 245 246", 0},
	} {
		b.keep = change.keep
		b.Executor.Log()
		b.commit(change.n, change.text)
		log := b.Executor.Log()
		if got := b.rowNumbers(); change.want != "" && got != change.want || strings.Count(log, "delete all") != change.deletes {
			t.Errorf("after %d with Keep %d: %s, want %s, with %d deletes", change.n, change.keep, got, change.want, strings.Count(log, "delete all"))
		}
	}
}

// The copy that was just written counts, although the index does not have it yet.
func TestIndexWithoutTheCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, Layout{Snapshot: Snapshot{Keep: 2}})
	for n := range annals.SeqNr(3) {
		b.commit(n+1, "x")
	}
	if err := b.DeleteAll(t.Context(), b.shape.Name, []plan.Item{mustKey(t, b.snapshots, 3)}); err != nil {
		t.Fatal(err)
	}
	b.Executor.Log()
	if err := b.retain(t.Context(), account, 3); err != nil || b.rowNumbers() != "0 2" {
		t.Errorf("%s, %v", b.rowNumbers(), err)
	}
	b.commit(4, "x")
	if err := b.retain(t.Context(), account, 3); err != nil || b.rowNumbers() != "0 4" { // 3 was written before 4
		t.Errorf("%s, %v", b.rowNumbers(), err)
	}
}

// D5: a write whose retention fails is stored, and returns no error. The next one removes what was left.
func TestRetentionFails(t *testing.T) {
	t.Parallel()
	for name, expire := range map[string]time.Duration{"delete": 0, "mark": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Layout{Peer: JS3, Snapshot: Snapshot{Keep: 1, Expire: expire}})
			x := &failing{Executor: b.Executor}
			b.use(x)
			b.commit(1, "x")
			x.query = true
			b.commit(2, "x")
			if err := b.Save(t.Context(), taken(2, "again")); err != nil {
				t.Errorf("save: %v", err)
			}
			x.query, x.delete, x.write = false, true, true
			b.use(x)
			if err := b.retain(t.Context(), account, 0); !errors.Is(err, annals.ErrUnavailable) {
				t.Errorf("retain: %v", err)
			}
			if got := b.rowNumbers(); got != "0 1 2" {
				t.Errorf("rows %s", got)
			}
			x.delete, x.write = false, false
			b.commit(3, "x")
			if got, want := b.rowNumbers(), map[time.Duration]string{0: "0 3", time.Hour: "0 1~ 2~ 3"}[expire]; got != want {
				t.Errorf("rows %s, want %s", got, want)
			}
			x.query = true
			if err := b.retain(t.Context(), account, 0); !errors.Is(err, annals.ErrUnavailable) {
				t.Errorf("retain: %v", err)
			}
		})
	}
}

// A marked copy is found until its time, and then not, although the row is still there.
func TestExpiredCopies(t *testing.T) {
	t.Parallel()
	b := newBench(t, Layout{Peer: Rust3, Snapshot: Snapshot{Keep: 1, Expire: time.Hour}})
	b.commit(1, "x")
	b.commit(2, "x")
	b.commit(3, "x")
	for _, c := range []annals.SnapshotCriteria{{MaxSeqNr: 2}, {MinSeqNr: 2, MaxSeqNr: 2}} {
		if n := b.latest(c); n != 2 {
			t.Errorf("%+v before its time: %d", c, n)
		}
	}
	b.Time = b.Time.Add(time.Hour)
	for _, c := range []annals.SnapshotCriteria{{MaxSeqNr: 2}, {MinSeqNr: 2, MaxSeqNr: 2}} {
		if n := b.latest(c); n != 0 {
			t.Errorf("%+v after its time: %d", c, n)
		}
	}
	if n := b.latest(annals.SnapshotCriteria{}); n != 3 {
		t.Errorf("newest: %d", n)
	}
}

// Rows of another entity with the same aid, and of other settings, are not counted as copies.
func TestCopiesOfOthers(t *testing.T) {
	t.Parallel()
	b := newBench(t, Layout{Peer: Rust, BareAID: true, Snapshot: Snapshot{Keep: 1}})
	for i, key := range []string{"Other-7-%d", "Account-7-00%d"} {
		for n := range annals.SeqNr(3) {
			it := mustKey(t, b.snapshots, n+1)
			it[attrAID], it[attrSort], it[attrSeq], it[attrTTL] = plan.S("7"), plan.S(fmt.Sprintf(key, n+1)), plan.N(n+10*annals.SeqNr(i)+1), plan.N(0)
			if _, err := b.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: b.shape.Name, Put: it}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.commit(1, "x")
	b.commit(2, "x")
	if got := len(b.Items(b.shape.Name)); got != 6+2 {
		t.Errorf("%d rows, want 8: %s", got, b.rowNumbers())
	}
	if n := b.latest(annals.SnapshotCriteria{}); n != 2 {
		t.Errorf("newest %d", n)
	}
}

// A copy that is marked or deleted after the index was read is left as it is.
func TestMarkedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(b *bench, key plan.Item) error{
		"deleted": func(b *bench, key plan.Item) error {
			return b.DeleteAll(b.Context(), b.shape.Name, []plan.Item{key})
		},
		"marked": func(b *bench, key plan.Item) error {
			_, err := b.Write(b.Context(), plan.Write{Ops: []plan.Op{b.mark(key, plan.N(b.Now().Unix()))}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Layout{Peer: JS3, Snapshot: Snapshot{Keep: 1, Expire: time.Hour}})
			b.keep = 2
			b.commit(1, "x")
			b.commit(2, "x")
			b.keep = 1
			var before string
			b.Meanwhile = func() {
				if err := meanwhile(b, mustKey(t, b.snapshots, 1)); err != nil {
					t.Error(err)
				}
				before = fmt.Sprint(b.Items(b.shape.Name))
			}
			if err := b.retain(t.Context(), account, 0); err != nil {
				t.Error(err)
			}
			if after := fmt.Sprint(b.Items(b.shape.Name)); after != before {
				t.Errorf("got\n%s\nwant\n%s", after, before)
			}
		})
	}
}

// The index may lack copies, also the one that was just written: number written. None that stays is removed.
func TestRetentionByTheIndex(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep    int
		indexed []annals.SeqNr
		written annals.SeqNr
		want    string // of the numbers 1 … 5, which are all stored
	}{
		"keep none":                        {0, []annals.SeqNr{5, 4, 3, 2, 1}, 5, "0 1 2 3 4 5"},
		"keep two":                         {2, []annals.SeqNr{5, 4, 3, 2, 1}, 5, "0 4 5"},
		"more than there are":              {9, []annals.SeqNr{5, 4, 3, 2, 1}, 5, "0 1 2 3 4 5"},
		"the new copy is not in the index": {2, []annals.SeqNr{4, 3, 2, 1}, 5, "0 4 5"},
		"nothing is known to be written":   {1, []annals.SeqNr{5, 4, 3, 2, 1}, 0, "0 5"},
		"the index lacks two":              {2, []annals.SeqNr{3, 2, 1}, 5, "0 3 4 5"},
		"a newer copy than that written":   {1, []annals.SeqNr{5, 3, 2, 1}, 4, "0 4 5"},
		"the copy written is an old one":   {2, []annals.SeqNr{5, 4, 3, 1}, 2, "0 2 4 5"},
		"the copy written is in between":   {3, []annals.SeqNr{5, 3, 2, 1}, 4, "0 3 4 5"},
	} {
		for _, peer := range []Peer{Go, JS3} {
			for _, expire := range []time.Duration{0, time.Hour} {
				b := newBench(t, Layout{Peer: peer, Snapshot: Snapshot{Keep: 100}})
				for n := range annals.SeqNr(5) {
					b.commit(n+1, "x")
				}
				b.use(lacking{b.Executor, c.indexed})
				b.keep, b.expire = c.keep, expire
				for range 2 {
					if err := b.retain(t.Context(), account, c.written); err != nil {
						t.Fatal(err)
					}
				}
				left := strings.Fields(b.rowNumbers())
				left = slices.DeleteFunc(left, func(n string) bool { return strings.HasSuffix(n, "~") })
				if got := strings.Join(left, " "); got != c.want {
					t.Errorf("%s, %v, expire %v: left are %s, want %s", name, peer, expire, got, c.want)
				}
			}
		}
	}
}

// lacking is an Executor whose indexes have only rows with these numbers.
type lacking struct {
	*plantest.Executor
	numbers []annals.SeqNr
}

func (x lacking) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	return plan.Picked(x.Executor.Query(ctx, q), func(it plan.Item) (plan.Item, bool, error) {
		key := plan.KeyText(it[attrSort])
		n, _ := strconv.ParseInt(key[strings.LastIndex(key, "-")+1:], 10, 64)
		return it, slices.Contains(x.numbers, annals.SeqNr(n)), nil
	})
}
