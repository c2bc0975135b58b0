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
	columns annals.Columns // additional ones; never changed
	writes  []stateCommit  // the last writesKept, oldest first
}

type stateCommit struct {
	revision annals.SeqNr
	writeID  annals.WriteID
	time     time.Time
}

// writesKept is how many writes a state remembers, to recognise one that comes again.
const writesKept = 4

// Get is annals.StateStore.
func (v states) Get(ctx context.Context, id annals.PersistenceID) (annals.State, bool, error) {
	d, unlock := v.read(ctx)
	defer unlock()
	row, ok := d.states[id]
	return row.State, ok && !row.Deleted, nil
}

// Put is annals.StateStore.
func (v states) Put(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.change(ctx, w, false)
}

// Delete is annals.StateStore.
func (v states) Delete(ctx context.Context, w annals.StateWrite) (annals.Receipt, error) {
	return v.change(ctx, w, true)
}

func (v states) change(ctx context.Context, w annals.StateWrite, deletes bool) (annals.Receipt, error) {
	d, unlock := v.write()
	defer unlock()
	old := d.states[w.ID]
	if old.Revision != w.After {
		return old.repeated(w)
	}
	s := annals.State{ID: w.ID, Revision: w.After + 1, Payload: w.Payload, Tags: slices.Clone(w.Tags), Metadata: w.Metadata, Deleted: deletes}
	if last := d.streams[w.ID].last; w.Event != nil && last != w.After {
		return annals.Receipt{}, &annals.Error{Kind: annals.ErrInvalid,
			Err: fmt.Errorf("the write carries event %d, but the journal's last number is %d: every write of the entity must carry one", s.Revision, last)}
	}
	s.Time = d.now()
	columns, err := v.handle(ctx, d, old, s)
	if err != nil {
		return annals.Receipt{}, err
	}
	if w.Event != nil {
		d.append(w.ID, []annals.NewEvent{*w.Event}, w.WriteID, s.Time)
	}
	kept := old.writes[max(0, len(old.writes)-writesKept+1):]
	d.putState(stateRow{s, columns, append(slices.Clone(kept), stateCommit{s.Revision, w.WriteID, s.Time})})
	return annals.Receipt{SeqNr: s.Revision, Time: s.Time}, nil
}

func (d *data) putState(row stateRow) {
	if d.states == nil {
		d.states = map[annals.PersistenceID]stateRow{}
	}
	d.states[row.ID] = row
}

// repeated answers a write whose After is not the last revision: it may be one that comes again.
func (r stateRow) repeated(w annals.StateWrite) (annals.Receipt, error) {
	kind := annals.ErrConflict
	if w.After < r.Revision {
		if !w.FirstTry {
			kind = annals.ErrUnknown // an earlier try may have been stored before the writes that are remembered
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
	return annals.Receipt{}, &annals.Error{After: w.After, Last: r.Revision, Kind: kind}
}
