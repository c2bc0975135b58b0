package rust5_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

func at(n annals.SeqNr) time.Time { return time.Date(2026, 1, 1, 0, int(n), 0, 0, time.UTC) }

// saves saves the snapshots from … to.
func (b *bench) saves(from, to annals.SeqNr) {
	b.Helper()
	for n := from; n <= to; n++ {
		s := annals.Snapshot{ID: thing, SeqNr: n, Time: at(n), Payload: annals.Payload{SerializerID: 31, Data: []byte("{}")}}
		if err := b.Snapshots.Save(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) wantNewest(c annals.SnapshotCriteria, want annals.SeqNr) {
	b.Helper()
	s, ok, err := b.Snapshots.Latest(b.Context(), thing, c)
	if err != nil || s.SeqNr != want || ok != (want > 0) || ok && !s.Time.Equal(at(want)) {
		b.Errorf("newest snapshot that fits %+v: %d at %v, %v, want %d", c, s.SeqNr, s.Time, err, want)
	}
}

// Copies answer criteria that the current snapshot does not fit. After a delete of the current snapshot the newest copy is in its place.
func TestCopies(t *testing.T) {
	t.Parallel()
	b := newBench(t, esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 3}})
	b.write(thing, 0, 5)
	b.saves(1, 5)
	b.wantNewest(annals.SnapshotCriteria{}, 5)
	b.wantNewest(annals.SnapshotCriteria{MaxSeqNr: 4}, 4)
	b.wantNewest(annals.SnapshotCriteria{MaxSeqNr: 2}, 0) // deleted
	b.wantNewest(annals.SnapshotCriteria{MaxTime: at(4).Add(time.Second)}, 4)
	b.wantNewest(annals.SnapshotCriteria{MinSeqNr: 4, MaxSeqNr: 3}, 0)
	b.wantNewest(annals.SnapshotCriteria{MinSeqNr: 6}, 0)
	b.wantNewest(annals.SnapshotCriteria{MinTime: at(3), MaxTime: at(3)}, 3)
	if err := b.Snapshots.Delete(t.Context(), thing, annals.SnapshotCriteria{MinSeqNr: 4, MaxSeqNr: 5}); err != nil {
		t.Fatal(err)
	}
	b.wantNewest(annals.SnapshotCriteria{}, 3)
	if r, err := b.recover(thing); err != nil || r.snapshot == nil || r.snapshot.SeqNr != 3 {
		t.Errorf("recovery after the delete: %+v, %v", r, err)
	}
	if items := b.Items("snapshot"); items[0]["active_history_seq_nr"] != nil || items[0]["ttl"] != nil {
		t.Errorf("the current snapshot is %v", items[0])
	}
}

// Marked copies are read until they expire, also when the service has not yet removed them. They never become the current snapshot after that.
func TestMarkedCopiesExpire(t *testing.T) {
	t.Parallel()
	b := newBench(t, esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 1, Expire: time.Hour}})
	b.saves(1, 3)
	b.wantNewest(annals.SnapshotCriteria{MaxSeqNr: 2}, 2)
	b.Executor.Time = b.Executor.Time.Add(2 * time.Hour)
	b.wantNewest(annals.SnapshotCriteria{MaxSeqNr: 2}, 0)
	if err := b.Snapshots.Delete(t.Context(), thing, annals.SnapshotCriteria{MinSeqNr: 3, MaxSeqNr: 3}); err != nil {
		t.Fatal(err)
	}
	b.wantNewest(annals.SnapshotCriteria{}, 0)
}

// The copy just made counts, also when the index does not have it yet.
func TestRetentionCountsTheNewCopy(t *testing.T) {
	t.Parallel()
	b := newBench(t, esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 2}})
	b.saves(1, 4)
	late := &bench{b.T, b.Executor, b.offer.On(lagging{b.Executor, b.Executor.Clone()}), b.offer}
	late.saves(5, 5)
	if got := b.active(); got != "[4 5]" {
		t.Errorf("the copies are %s", got)
	}
}

// An index that lags behind does not have the newest copies, and still has deleted and marked ones. Nothing is removed that should stay, and the end
// of a marked copy does not move. The next run repairs what is left.
func TestRetentionOnALaggingIndex(t *testing.T) {
	t.Parallel()
	for name, expire := range map[string]time.Duration{"deleted": 0, "marked": time.Hour} {
		b := newBench(t, esa.Layout{Peer: esa.Rust5, Snapshot: esa.Snapshot{Keep: 2, Expire: expire}})
		b.saves(1, 4)
		before := b.Executor.Clone()
		b.saves(5, 5)
		ends := b.ends()
		late := &bench{b.T, b.Executor, b.offer.On(lagging{b.Executor, before}), b.offer}
		late.saves(6, 6)
		if got := b.active(); got != "[4 5 6]" {
			t.Errorf("%s: the copies are %s", name, got)
		}
		for n, end := range b.ends() {
			if ends[n] != "" && end != ends[n] {
				t.Errorf("%s: the end of copy %s has moved", name, n)
			}
		}
		if err := esa.Retain(t.Context(), plantest.Store(b), thing); err != nil || b.active() != "[5 6]" {
			t.Errorf("%s: the copies are %s, %v", name, b.active(), err)
		}
	}
}

// ends are the times at which copies expire.
func (b *bench) ends() map[string]string {
	all := map[string]string{}
	for _, it := range b.Items("snapshot") {
		all[plan.KeyText(it["skey"])] = plan.KeyText(it["ttl"])
	}
	return all
}

// lagging has the indexes of an earlier time.
type lagging struct {
	*plantest.Executor
	before *plantest.Executor
}

func (x lagging) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	if q.Index != "" {
		return x.before.Query(ctx, q)
	}
	return x.Executor.Query(ctx, q)
}

func (x lagging) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, x)
}
