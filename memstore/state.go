package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
)

type states struct{ view }

type stateRow struct {
	annals.State
	writes []stateCommit // the last writesKept, oldest first
}

type stateCommit struct {
	revision annals.SeqNr
	writeID  annals.WriteID
	time     time.Time
}

// writesKept is how many writes a state remembers, to recognise one that comes again.
const writesKept = 4

func (v states) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	if err := id.ValidateRead("get state", annals.Limits{}); err != nil {
		return annals.State{}, false, err
	}
	d, unlock, err := v.begin(ctx, "get state", id)
	if err != nil {
		return annals.State{}, false, err
	}
	defer unlock()
	row, ok := d.states[id]
	return row.State, ok && !row.Deleted, nil
}

func (v states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.write(ctx, "put state", w, annals.State{ID: w.ID, Revision: w.After + 1, Payload: w.Payload, Tags: slices.Clone(w.Tags)})
}

func (v states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.write(ctx, "delete state", w, annals.State{ID: w.ID, Revision: w.After + 1, Tags: slices.Clone(w.Tags), Deleted: true})
}

func (v states) write(ctx context.Context, op string, w annals.StateWrite, s annals.State) (annals.Receipt, error) {
	if err := w.Validate(op, annals.Limits{}); err != nil {
		return annals.Receipt{}, err
	}
	d, unlock, err := v.beginWrite(ctx, op, w.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	defer unlock()
	old := d.states[w.ID]
	if old.Revision != w.After {
		return old.repeated(op, w)
	}
	if last := d.streams[w.ID].last; w.Event != nil && last != w.After {
		return annals.Receipt{}, &annals.Error{Op: op, ID: w.ID, Kind: annals.ErrInvalid,
			Err: fmt.Errorf("the write carries event %d, but the journal's last number is %d: every write of the entity must carry one", s.Revision, last)}
	}
	s.Time = d.now()
	if w.Event != nil {
		d.append(w.ID, []annals.NewEvent{*w.Event}, w.WriteID, s.Time)
	}
	if d.states == nil {
		d.states = map[annals.PersistenceID]stateRow{}
	}
	kept := old.writes[max(0, len(old.writes)-writesKept+1):]
	d.states[w.ID] = stateRow{s, append(slices.Clone(kept), stateCommit{s.Revision, w.WriteID, s.Time})}
	return annals.Receipt{SeqNr: s.Revision, Time: s.Time}, nil
}

// repeated answers a write whose After is not the last revision: it may be one that comes again.
func (r stateRow) repeated(op string, w annals.StateWrite) (annals.Receipt, error) {
	kind := annals.ErrConflict
	if w.After < r.Revision && !w.WriteID.IsZero() {
		if !w.FirstTry {
			kind = annals.ErrUnknown // it may have landed before what is remembered
		}
		for _, c := range r.writes {
			if c.revision != w.After+1 {
				continue
			}
			if c.writeID == w.WriteID {
				return annals.Receipt{SeqNr: c.revision, Time: c.time, Repeated: true}, nil
			}
			kind = annals.ErrConflict
		}
	}
	return annals.Receipt{}, &annals.Error{Op: op, ID: w.ID, After: w.After, Last: r.Revision, Kind: kind}
}
