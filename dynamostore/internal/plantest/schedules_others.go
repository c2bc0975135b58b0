package plantest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// The other entities of a history: one with a state, one that skips numbers, and one that is forgotten.
const (
	stateID  annals.PersistenceID = "State|1"
	skipID   annals.PersistenceID = "Skip|1"
	forgetID annals.PersistenceID = "Forget|1"
)

// conflicts reports whether err is a conflict that a write may have.
func (h *history) conflicts(err error, unknown, repeatable bool) bool {
	return errors.Is(err, annals.ErrConflict) && (h.owners > 1 || unknown && !repeatable)
}

// stepState puts or deletes the state.
func (h *history) stepState(x plan.Executor) error {
	caps := h.Offer.Capabilities
	if h.Offer.States == nil {
		return nil
	}
	h.writes++
	w := plan.StateWrite{StateWrite: annals.StateWrite{ID: stateID, After: h.revision, WriteID: annals.WriteID{14: 2, 15: h.writes}}, Time: x.Now(), Given: true}
	if caps.DeletesStates && h.revision > 0 && h.random.OneIn(4) {
		w.Deleted = true
	} else {
		w.Payload = object(h.writes).Payload
	}
	if event := object(h.writes); h.stateEvents {
		w.Event = &event
	}
	h.put[w.After+1] = append(h.put[w.After+1], string(w.Payload.Data))
	unknown, err := call(func() error { _, err := h.Offer.States.Write(h.Ctx, x, w); return err })
	if h.conflicts(err, unknown, caps.IdempotentState) {
		st, _, err := h.Offer.States.Get(h.Ctx, x, stateID)
		h.revision = max(h.revision, st.Revision)
		return err
	}
	if err != nil {
		return fmt.Errorf("state after %d: %w", w.After, err)
	}
	h.revision = max(h.revision, w.After+1)
	return nil
}

// stepSkip skips numbers, or appends an event after them. Of several writes after one number one is stored.
func (h *history) stepSkip(x plan.Executor) error {
	c := h.Offer.On(x)
	if c.Skipper == nil {
		return nil
	}
	after, n := h.skipped, h.skipped+1+annals.SeqNr(h.random.IntN(5))
	what := fmt.Sprintf("skip to %d", n)
	do, repeatable := func() error { return c.SkipTo(h.Ctx, skipID, after, n) }, true
	if h.random.OneIn(3) {
		h.writes++
		commit := annals.Commit{ID: skipID, After: after, WriteID: annals.WriteID{14: 3, 15: h.writes}, Events: []annals.NewEvent{object(h.writes)}}
		n, what, repeatable = after+1, fmt.Sprintf("append by %d", h.writes), h.Offer.Capabilities.Repeatable
		do = func() error { _, err := c.Journal.Append(h.Ctx, commit); return err }
	}
	if strings.HasPrefix(what, "skip") {
		h.targets[n] = append(h.targets[n], after)
	}
	unknown, err := call(do)
	switch {
	case h.conflicts(err, unknown, repeatable):
		last, err := c.Journal.LastSeqNr(h.Ctx, skipID)
		h.skipped = max(h.skipped, last)
		return err
	case err != nil:
		return fmt.Errorf("%s after %d: %w", what, after, err)
	case slices.ContainsFunc(h.targets[n], func(from annals.SeqNr) bool { return from != after }): // a skip to the same number succeeds
	case h.skips[after] != "" && h.skips[after] != what:
		return fmt.Errorf("after %d both are stored: %s, and %s", after, h.skips[after], what)
	}
	h.skips[after], h.skipped = what, max(h.skipped, n)
	return nil
}

// stepForget appends an event, deletes it and forgets the entity.
func (h *history) stepForget(x plan.Executor) error {
	c := h.Offer.On(x)
	if c.Forgetter == nil || h.owners > 1 || h.run.Late { // a late write is stored again
		return nil
	}
	h.writes++
	commit := annals.Commit{ID: forgetID, WriteID: annals.WriteID{14: 4, 15: h.writes}, Events: []annals.NewEvent{object(h.writes)}}
	for _, do := range []func() error{
		func() error { _, err := c.Journal.Append(h.Ctx, commit); return err },
		func() error { return c.Journal.DeleteTo(h.Ctx, forgetID, annals.MaxSeqNr) },
		func() error { _, err := c.Forget(h.Ctx, ability.Forgetting{ID: forgetID}); return err },
	} {
		if _, err := call(do); err != nil {
			return fmt.Errorf("an entity that is forgotten: %w", err)
		}
	}
	if last, err := c.Journal.LastSeqNr(h.Ctx, forgetID); last != 0 || err != nil {
		return fmt.Errorf("a forgotten entity has the last number %d, %w", last, err)
	}
	return nil
}

// numbers reads the numbers that a transaction is guarded by; none where the layout does not claim it.
func (h *history) numbers(x plan.Executor) ([]driver.Seen, error) {
	if !h.Offer.Capabilities.GuardsReads {
		return nil, nil
	}
	seen := []driver.Seen{{ID: h.ID}}
	if h.Offer.On(x).Skipper != nil {
		seen = append(seen, driver.Seen{ID: skipID})
	}
	if h.Offer.States != nil {
		seen = append(seen, driver.Seen{ID: stateID, State: true})
	}
	if h.stateEvents {
		seen = append(seen, driver.Seen{ID: stateID})
	}
	return h.guards.Read(x, h.Offer, seen...)
}

// others reads the other entities.
func (h *history) others(x plan.Executor) error {
	if h.Offer.States != nil {
		revision := h.revision
		switch st, _, err := h.Offer.States.Get(h.Ctx, x, stateID); {
		case err != nil:
			return fmt.Errorf("state: %w", err)
		case st.Revision < revision:
			return fmt.Errorf("the state has the revision %d, %d was acknowledged", st.Revision, revision)
		case st.Revision > 0 && !slices.Contains(h.put[st.Revision], string(st.Data)):
			return fmt.Errorf("revision %d has the data %q, want one of %q", st.Revision, st.Data, h.put[st.Revision])
		}
		if h.stateEvents {
			var last annals.SeqNr
			for e, err := range h.Offer.On(x).Journal.Replay(h.Ctx, stateID, 1, annals.MaxSeqNr) {
				if last++; err != nil || e.SeqNr != last {
					return fmt.Errorf("events of the state: %d after %d: %w", e.SeqNr, last-1, err)
				}
			}
			if last < revision {
				return fmt.Errorf("events of the state to %d, revision %d was acknowledged", last, revision)
			}
		}
	}
	if c := h.Offer.On(x); c.Skipper != nil {
		skipped := h.skipped
		if last, err := c.Journal.LastSeqNr(h.Ctx, skipID); last < skipped || err != nil {
			return fmt.Errorf("the last number is %d, skipped was to %d: %w", last, skipped, err)
		}
	}
	return nil
}
