package akka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// failing is an executor whose writes fail after some. A delete of many items that fails has removed every second one.
type failing struct {
	*plantest.Executor
	left int
}

var errFailing = errors.New("failing")

func (x *failing) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	if x.left--; x.left < 0 {
		return plan.Outcome{}, errFailing
	}
	return x.Executor.Write(ctx, w)
}

func (x *failing) DeleteAll(ctx context.Context, table string, keys []plan.Item) error {
	if x.left--; x.left >= 0 {
		return x.Executor.DeleteAll(ctx, table, keys)
	}
	for i := 0; i < len(keys); i += 2 {
		if err := x.Executor.DeleteAll(ctx, table, keys[i:i+1]); err != nil {
			return err
		}
	}
	return errFailing
}

// A delete that is interrupted after any of its writes has deleted what it should, as far as readers see, and the next delete removes what it has
// left. The same for Purge, which must be repeated.
func TestInterruptedDeletes(t *testing.T) {
	t.Parallel()
	const events = 320
	full, j := filled(t, events, 40)
	for _, to := range []annals.SeqNr{150, 199, 200, events, annals.MaxSeqNr} {
		for writes := 0; ; writes++ {
			x := &failing{full.Clone(), writes}
			err := onto(j, x).DeleteTo(t.Context(), entityID, to)
			if err == nil && writes > 0 {
				break
			}
			if err == nil || !errors.Is(err, errFailing) {
				t.Fatalf("delete to %d, %d writes: %v", to, writes, err)
			}
			whole := onto(j, x.Executor)
			if last, err := whole.LastSeqNr(t.Context(), entityID); last != events || err != nil {
				t.Errorf("delete to %d interrupted after %d writes: the last number is %d, %v", to, writes, last, err)
			}
			first := min(to, events) + 1
			if writes == 0 {
				first = 1 // not even the mark was set
			}
			shown(t, whole, first, events)
			if err := whole.DeleteTo(t.Context(), entityID, min(to, 210)); err != nil {
				t.Errorf("delete to %d, resumed after %d writes: %v", to, writes, err)
			}
			found, _, _, err := whole.list(t.Context(), entityID)
			if want := min(max(first-1, min(to, 210)), events-1); err != nil || len(found) != int(events-want) || found[0] != want+1 {
				t.Errorf("delete to %d, resumed after %d writes, has left %v, %v", to, writes, found, err)
			}
		}
	}
	for writes := 0; ; writes++ {
		x := &failing{full.Clone(), writes}
		if err := onto(j, x).purge(t.Context(), entityID); err == nil {
			break
		} else if !errors.Is(err, errFailing) {
			t.Fatal(err)
		}
		if err := onto(j, x.Executor).purge(t.Context(), entityID); err != nil || len(x.Items(journalTable)) != 0 {
			t.Errorf("purge, repeated after %d writes, has left %d items, %v", writes, len(x.Items(journalTable)), err)
		}
	}
}

// filled returns tables with events in batches of a size, and a journal with few markers.
func filled(t *testing.T, events annals.SeqNr, size int) (*plantest.Executor, *journal) {
	t.Helper()
	offer, err := three.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	j := offer.On(x).Journal.(*journal)
	for after := annals.SeqNr(0); after < events; after += annals.SeqNr(size) {
		c := annals.Commit{ID: entityID, After: after, WriteID: annals.NewWriteID(), Events: slices.Repeat([]annals.NewEvent{plantest.Event("e")}, size)}
		if _, err := j.Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return x, j
}

// onto returns a journal of another process, with other tables.
func onto(j *journal, x plan.Executor) *journal {
	other := *j
	other.x, other.known, other.snapshots = x, &plan.Recent[annals.PersistenceID, known]{}, nil
	other.Reads = func(id annals.PersistenceID) driver.Reader { return &reader{journal: &other, id: id} }
	return &other
}

// shown checks that a replay yields the events first … last and no others.
func shown(t *testing.T, j *journal, first, last annals.SeqNr) {
	t.Helper()
	next := first
	for e, err := range j.Replay(t.Context(), entityID, 1, annals.MaxSeqNr) {
		if err != nil || e.SeqNr != next {
			t.Fatalf("event %d, %v, want %d", e.SeqNr, err, next)
		}
		next++
	}
	if next != last+1 {
		t.Errorf("the events end before %d, want up to %d", next, last)
	}
}

// A limit counts stored events before incomplete batches are left out, and a batch that it cuts is left out.
func TestReplayLimit(t *testing.T) {
	t.Parallel()
	x, j := filled(t, 3, 1)
	if _, err := j.Append(t.Context(), annals.Commit{ID: entityID, After: 3, WriteID: annals.NewWriteID(), Events: slices.Repeat([]annals.NewEvent{plantest.Event("e")}, 2)}); err != nil {
		t.Fatal(err)
	}
	s := runner{plan.Contracts{Journal: j}, x}
	for limit, want := range map[int]string{-1: "[]", 0: "[]", 1: "[1]", 3: "[1 2 3]", 4: "[1 2 3]", 5: "[1 2 3 4 5]", 9: "[1 2 3 4 5]"} {
		var got []annals.SeqNr
		for e, err := range ReplayLimit(t.Context(), plantest.Store(s), entityID, 0, annals.MaxSeqNr, limit) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.SeqNr)
		}
		if fmt.Sprint(got) != want && (want != "[]" || got != nil) {
			t.Errorf("limit %d: %v, want %s", limit, got, want)
		}
	}
}

// The functions of the layout are unsupported on a store with another layout, and on one without a journal.
func TestFunctionsOfAnotherLayout(t *testing.T) {
	t.Parallel()
	offer, err := Layout{Journal: Journal{Off: true}}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	x := plantest.New(offer.Tables)
	for _, s := range []plan.Runner{runner{}, runner{offer.On(x), x}} {
		errs := []error{Purge(t.Context(), plantest.Store(s), entityID)}
		_, _, _, err := ListAll(t.Context(), plantest.Store(s), entityID)
		errs = append(errs, err)
		_, err = Repair(t.Context(), plantest.Store(s), entityID)
		errs = append(errs, err)
		for _, err := range ReplayLimit(t.Context(), plantest.Store(s), entityID, 1, 2, 1) {
			errs = append(errs, err)
		}
		for i, err := range errs {
			if len(errs) != 4 || !errors.Is(err, annals.ErrUnsupported) {
				t.Errorf("function %d of %d: %v", i, len(errs), err)
			}
		}
	}
}

// Many groups that are emptied during a replay are no damage: the replay begins anew, or is ErrTruncated when it has yielded events.
func TestDeletedWhileRead(t *testing.T) {
	t.Parallel()
	for _, begun := range []bool{false, true} {
		x, j := filled(t, 1, 1)
		if _, err := j.Append(t.Context(), annals.Commit{ID: entityID, After: 19_999, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{plantest.Event("e")}}); err != nil {
			t.Fatal(err)
		}
		deletes := func() {
			if err := onto(j, x).DeleteTo(t.Context(), entityID, 19_999); err != nil {
				t.Error(err)
			}
		}
		if !begun {
			x.Meanwhile = deletes // after the markers were read
		}
		var got []annals.SeqNr
		var failed error
		for e, err := range j.Replay(t.Context(), entityID, 1, annals.MaxSeqNr) {
			if failed = err; err == nil {
				got = append(got, e.SeqNr)
			}
			if begun && len(got) == 1 && err == nil {
				deletes()
			}
		}
		if begun && !(fmt.Sprint(got) == "[1]" && errors.Is(failed, annals.ErrTruncated)) || !begun && (fmt.Sprint(got) != "[20000]" || failed != nil) {
			t.Errorf("begun %v: replayed %v, %v", begun, got, failed)
		}
	}
}

// After a delete of everything no commit can have numbers on both sides of the mark, and the last number does not depend on the marks.
func TestDeleteLeavesTheLastRow(t *testing.T) {
	t.Parallel()
	x, j := filled(t, 6, 2)
	if err := j.DeleteTo(t.Context(), entityID, annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	commit := func(after annals.SeqNr, size int) error {
		_, err := onto(j, x).Append(t.Context(), annals.Commit{ID: entityID, After: after, WriteID: annals.NewWriteID(), Events: slices.Repeat([]annals.NewEvent{plantest.Event("e")}, size)})
		return err
	}
	for after := range annals.SeqNr(6) {
		if err := commit(after, int(6-after)+1); !errors.Is(err, annals.ErrConflict) {
			t.Errorf("a commit after %d that passes the mark: %v", after, err)
		}
	}
	p := &plugin{x: x, shards: 3}
	if highest, events := p.highest(), p.replay(1, annals.MaxSeqNr); highest != 6 || events != nil {
		t.Errorf("the plugin finds the last number %d, and the events %v", highest, events)
	}
	shown(t, j, 7, 6)
	if err := commit(6, 2); err != nil {
		t.Fatal(err)
	}
	shown(t, j, 7, 8)
	if err := j.DeleteTo(t.Context(), entityID, annals.MaxSeqNr); err != nil {
		t.Fatal(err)
	}
	if found, _, _, err := j.list(t.Context(), entityID); err != nil || fmt.Sprint(found) != "[8]" {
		t.Errorf("left are %v, %v", found, err)
	}
}

// A million deleted events leave ten thousand empty groups, which are no sign of a wrong marker.
func TestPurgeBehindManyDeletedEvents(t *testing.T) {
	t.Parallel()
	x, j := filled(t, 5, 1)
	const last = 100 * (mostListed + 5)
	c := annals.Commit{ID: entityID, After: last - 1, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{plantest.Event("e")}}
	if _, err := j.Append(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if err := j.DeleteTo(t.Context(), entityID, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{j.putLow(entityID, last-250)}}); err != nil { // in a group without events
		t.Fatal(err)
	}
	found, _, _, err := j.list(t.Context(), entityID)
	if err != nil || !slices.Equal(found, []annals.SeqNr{last}) {
		t.Errorf("listed %v, %v", found, err)
	}
	if err := j.purge(t.Context(), entityID); err != nil || len(x.Items(journalTable)) != 0 {
		t.Errorf("purge has left %d items, %v", len(x.Items(journalTable)), err)
	}
}

// A lost event is missed in the group of the greatest number, too, which has fewer numbers than others.
func TestLostInTheLastGroup(t *testing.T) {
	t.Parallel()
	const first = annals.MaxSeqNr - annals.MaxSeqNr%perGroup
	x, j := filled(t, 0, 1)
	for n := first; n < first+5; n++ {
		c := annals.Commit{ID: entityID, After: n - 1, WriteID: annals.NewWriteID(), Events: []annals.NewEvent{plantest.Event("e")}}
		if _, err := j.Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.DeleteAll(t.Context(), journalTable, []plan.Item{j.key(entityID, first+2)}); err != nil {
		t.Fatal(err)
	}
	var got []annals.SeqNr
	var failed error
	for e, err := range j.Replay(t.Context(), entityID, first, annals.MaxSeqNr) {
		if failed = err; err == nil {
			got = append(got, e.SeqNr-first)
		}
	}
	if !slices.Equal(got, []annals.SeqNr{0, 1}) || !errors.Is(failed, annals.ErrCorrupt) {
		t.Errorf("replayed %v, %v", got, failed)
	}
}
