package plan

import (
	"slices"

	"github.com/annals-go/annals"
)

// Judge returns the outcomes of writes that were sent together, and that the service has refused because conditions failed. It has evaluated
// all of them. failed is what it said of each op, in the order of writes: nil where the condition held, an empty Item where the
// condition failed and there was no item, or else the item that made it fail. own reports that there were items of the caller's own as well.
// open reports that the outcome of an earlier try is not known, and cause is the service's error.
//
// An earlier try has stored all of the writes when each that can tell says so, and no other was refused. What the transaction has only read may
// have changed since.
func Judge(writes []Write, failed []Item, own, open bool, cause error) ([]Outcome, error) {
	outcomes := make([]Outcome, len(writes))
	conflict := &annals.Error{Kind: annals.ErrConflict, Err: cause}
	able, stored, expected := 0, 0, false
	var refusal, changed error
	alone := len(slices.DeleteFunc(slices.Clone(writes), func(w Write) bool { return w.Guards })) == 1 && !own
	for i, w := range writes {
		old := slices.Clone(failed[:len(w.Ops)])
		failed = failed[len(w.Ops):]
		can, refused, ours := false, false, false
		for j, op := range w.Ops {
			can, refused = can || op.Ours != nil, refused || old[j] != nil
			if len(old[j]) == 0 {
				old[j] = nil
			}
			ours = ours || op.Ours != nil && old[j] != nil && op.Ours(old[j])
		}
		if can {
			able++
		}
		switch {
		case ours:
			stored++
			outcomes[i] = Outcome{Repeated: true, Old: old}
			continue
		case w.Guards:
			if refused && changed == nil {
				changed = w.Refused(old, open)
			}
			continue
		case !refused || refusal != nil:
			continue
		case w.Refused != nil:
			refusal = w.Refused(old, open)
			if refusal == nil && alone {
				outcomes[i], expected = Outcome{Refused: true, Old: old}, true
				continue
			}
		}
		if refusal == nil { // or it is expected of this write, but the others were not stored either
			refusal = conflict
		}
	}
	switch {
	case refusal != nil:
		return nil, refusal
	case stored > 0 && stored == able:
		return outcomes, nil
	case changed != nil:
		return nil, changed
	case expected:
		return outcomes, nil
	case stored == 0: // one of the caller's own items
		return nil, &annals.Error{Kind: annals.ErrConstraint, Err: cause}
	}
	return nil, conflict
}
