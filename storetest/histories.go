package storetest

import (
	"errors"
	"fmt"

	"pgregory.net/rapid"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
)

var historyCases = []testCase{
	{id: "HISTORY-1", about: "random operations on a journal and its snapshots have the answers of the reference store", needs: needs(events), run: journalHistories},
	{id: "HISTORY-2", about: "random operations on durable states have the answers of the reference store", needs: needs(states), run: stateHistories},
}

// twin runs each action on the store under test and on the reference store, and compares the answers.
type twin struct {
	*rapid.T
	h             *harness
	tested, model annals.Store
	id            annals.PersistenceID
	ends          []annals.SeqNr // the numbers that a writer may take for the last
	deleted       annals.SeqNr
	commits       []annals.Commit
	writes        []stateCall
	revision      annals.SeqNr
}

type stateCall struct {
	w      annals.StateWrite
	delete bool
}

// histories draws random sequences of actions, each sequence on its own entity. Actions that are listed twice are drawn more often.
func (h *harness) histories(actions ...func(tw *twin)) {
	h.Helper()
	steps := h.volume(40, 12)
	rapid.Check(h.TB, func(t *rapid.T) {
		model := memstore.New()
		defer model.Close()
		tw := &twin{T: t, h: h, tested: h.store, model: model, id: h.id(), ends: []annals.SeqNr{0}}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(actions)-1), 1, steps).Draw(t, "actions") {
			actions[i](tw)
		}
	})
}

func journalHistories(h *harness) {
	actions := []func(*twin){(*twin).append, (*twin).append, (*twin).append, (*twin).deleteEvents, (*twin).replay, (*twin).lastSeqNr, (*twin).recover}
	if h.caps.Repeatable {
		actions = append(actions, (*twin).repeatAppend)
	}
	if h.caps.Snapshots {
		actions = append(actions, (*twin).saveSnapshot, (*twin).latestSnapshot, (*twin).deleteSnapshots)
	}
	h.histories(actions...)
}

func stateHistories(h *harness) {
	actions := []func(*twin){(*twin).writeState, (*twin).writeState, (*twin).writeState, (*twin).getState}
	if h.caps.IdempotentState {
		actions = append(actions, (*twin).repeatState)
	}
	h.histories(actions...)
}

// both runs an action on both stores and compares the answers.
func (tw *twin) both(did string, run func(s annals.Store) any) {
	tw.Helper()
	got, want := run(tw.tested), run(tw.model)
	if !equal(got, want) {
		tw.Fatalf("%s: got %v, want %v as the reference store has it", did, got, want)
	}
}

func (tw *twin) number(label string, from, to annals.SeqNr) annals.SeqNr {
	return annals.SeqNr(rapid.Int64Range(int64(from), int64(to)).Draw(tw.T, label))
}

func (tw *twin) last() annals.SeqNr { return tw.ends[len(tw.ends)-1] }

// append uses the last number as After more often than an older one.
func (tw *twin) append() {
	after := tw.last()
	if rapid.IntRange(0, 3).Draw(tw.T, "stale") == 0 {
		after = rapid.SampledFrom(tw.ends).Draw(tw.T, "after")
	}
	if after != tw.last() && after < tw.deleted && !tw.h.caps.FenceAfterDelete {
		return
	}
	c := tw.h.commit(tw.id, after, tw.h.batch(rapid.IntRange(1, 4).Draw(tw.T, "events")))
	if tw.h.caps.CommitSnapshot && rapid.IntRange(0, 4).Draw(tw.T, "with snapshot") == 0 {
		s := snapshotOf(tw.id, after+annals.SeqNr(len(c.Events)))
		c.Snapshot = &s
	}
	if rapid.IntRange(0, 4).Draw(tw.T, "without WriteID") == 0 {
		c.WriteID = annals.WriteID{}
	}
	tw.commits = append(tw.commits, c)
	tw.send("append", c)
	if after == tw.last() {
		tw.ends = append(tw.ends, after+annals.SeqNr(len(c.Events)))
	}
}

// repeatAppend sends a commit again, whether it was stored or not, unless its events have been deleted: stores may differ then.
func (tw *twin) repeatAppend() {
	if len(tw.commits) == 0 {
		return
	}
	c := rapid.SampledFrom(tw.commits).Draw(tw.T, "commit")
	if c.After >= tw.deleted && c.After != tw.last() {
		tw.send("append again", c)
	}
}

func (tw *twin) send(did string, c annals.Commit) {
	tw.Helper()
	tw.both(fmt.Sprintf("%s %d events after %d, write %v", did, len(c.Events), c.After, c.WriteID), func(s annals.Store) any {
		return outcome(tw.h.send(tw.h.ctx, s, c))
	})
}

func (tw *twin) deleteEvents() {
	to := tw.number("delete to", 0, tw.last()+2)
	if to > tw.last()+1 {
		to = annals.MaxSeqNr
	}
	tw.both(fmt.Sprintf("delete to %d", to), func(s annals.Store) any { return kind(s.Journal().DeleteTo(tw.h.ctx, tw.id, to)) })
	tw.deleted = max(tw.deleted, min(to, tw.last()))
}

func (tw *twin) replay() {
	from, to := tw.number("from", 0, tw.last()+1), tw.number("to", 0, tw.last()+1)
	tw.both(fmt.Sprintf("replay from %d to %d", from, to), func(s annals.Store) any {
		es, err := collect(s.Journal().Replay(tw.h.ctx, tw.id, from, to))
		return [2]any{kind(err), contents(es)}
	})
}

func (tw *twin) lastSeqNr() {
	tw.both("last number", func(s annals.Store) any {
		n, err := s.Journal().LastSeqNr(tw.h.ctx, tw.id)
		return [2]any{kind(err), n}
	})
}

// recover compares the recovered entities.
func (tw *twin) recover() {
	if tw.h.caps.Limits.FirstSnapshot && !tw.h.caps.Snapshots {
		return
	}
	for _, hidden := range []bool{false, true} {
		tw.both(fmt.Sprintf("recovery, fallback %v", hidden), func(s annals.Store) any {
			if hidden {
				s = withoutAbilities{s}
			}
			r, last, err := tw.h.recover(s, tw.id)
			return [3]any{kind(err), last, fmt.Sprintf("%+v", r)}
		})
	}
}

// saveSnapshot saves snapshots of numbers that exist.
func (tw *twin) saveSnapshot() {
	if tw.last() == 0 {
		return
	}
	n := tw.number("snapshot", 1, tw.last())
	tw.both(fmt.Sprintf("save snapshot %d", n), func(s annals.Store) any { return kind(s.Snapshots().Save(tw.h.ctx, snapshotOf(tw.id, n))) })
}

func (tw *twin) latestSnapshot() {
	var c annals.SnapshotCriteria
	if tw.h.caps.ManySnapshots {
		c.MaxSeqNr, c.MinSeqNr = tw.number("at most", 0, tw.last()), tw.number("at least", 0, 3)
	}
	tw.both(fmt.Sprintf("newest snapshot from %d to %d", c.MinSeqNr, c.MaxSeqNr), func(s annals.Store) any {
		snap, ok, err := s.Snapshots().Latest(tw.h.ctx, tw.id, c)
		return [4]any{kind(err), ok, snap.SeqNr, snap.Payload}
	})
}

func (tw *twin) deleteSnapshots() {
	n := tw.number("delete snapshots to", 1, tw.last()+1)
	tw.both(fmt.Sprintf("delete snapshots to %d", n), func(s annals.Store) any {
		return kind(s.Snapshots().Delete(tw.h.ctx, tw.id, annals.SnapshotCriteria{MaxSeqNr: n}))
	})
}

func (tw *twin) writeState() {
	after := tw.revision
	if rapid.IntRange(0, 2).Draw(tw.T, "stale") == 0 {
		after = tw.number("after", 0, tw.revision+2)
	}
	c := stateCall{stateWrite(tw.id, after), rapid.IntRange(0, 3).Draw(tw.T, "delete") == 0 && tw.h.caps.DeletesStates}
	c.w.Manifest = rapid.StringMatching("[a-z]{0,3}").Draw(tw.T, "manifest")
	if !tw.h.caps.IdempotentState || rapid.IntRange(0, 4).Draw(tw.T, "without WriteID") == 0 {
		c.w.WriteID = annals.WriteID{}
	}
	tw.writes = append(tw.writes, c)
	tw.sendState("state write", c)
	if after == tw.revision {
		tw.revision++
	}
}

// repeatState sends a state write again, whether it was stored or not, unless it would be stored now.
func (tw *twin) repeatState() {
	if len(tw.writes) == 0 {
		return
	}
	if c := rapid.SampledFrom(tw.writes).Draw(tw.T, "write"); c.w.After != tw.revision {
		tw.sendState("state write again", c)
	}
}

func (tw *twin) sendState(did string, c stateCall) {
	tw.Helper()
	tw.both(fmt.Sprintf("%s after %d, delete %v, write %v, at revision %d", did, c.w.After, c.delete, c.w.WriteID, tw.revision), func(s annals.Store) any {
		if c.delete {
			return outcome(s.States().Delete(tw.h.ctx, c.w))
		}
		return outcome(s.States().Put(tw.h.ctx, c.w))
	})
	tw.getState()
}

func (tw *twin) getState() {
	tw.Helper()
	tw.both("state", func(s annals.Store) any {
		st, ok, err := s.States().Get(tw.h.ctx, tw.id)
		return [5]any{kind(err), ok, st.Revision, st.Deleted, st.Payload}
	})
}

// outcome is the part of an answer that is the same in all stores: a receipt without its time, and the kind of the error.
func outcome(r annals.Receipt, err error) any {
	return [3]any{kind(err), r.SeqNr, r.Repeated}
}

// contents are events without the fields that differ from store to store.
func contents(es []annals.Event) (all []any) {
	for _, e := range es {
		all = append(all, [3]any{e.ID, e.SeqNr, e.Payload})
	}
	return all
}

// kind is the kind of an error, "" for none.
func kind(err error) string {
	for _, k := range []error{annals.ErrInvalid, annals.ErrConflict, annals.ErrUnknown, annals.ErrUnavailable, annals.ErrUnsupported,
		annals.ErrTruncated, annals.ErrTooLarge, annals.ErrCorrupt, annals.ErrFenced, annals.ErrClosed} {
		if errors.Is(err, k) {
			return k.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
