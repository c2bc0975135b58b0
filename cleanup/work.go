package cleanup

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
)

// work is what is done to one entity. Its steps fill the Result as they go.
type work struct {
	*Cleaner
	Result
}

func (w *work) deleteEvents(ctx context.Context, to annals.SeqNr) error {
	first, last, err := w.extent(ctx, to)
	if err != nil {
		return err
	}
	if first > 0 {
		if err := w.handled(ctx, last); err != nil {
			return err
		}
	}
	if !w.o.DryRun { // also where nothing is there: a store may have more to remove by now
		if err := w.store.Journal().DeleteTo(ctx, w.ID, to); err != nil {
			return err
		}
	}
	if first > 0 {
		w.Events = last - first + 1
	}
	return nil
}

// extent is the first event up to to and the last one, 0 where there is none.
func (w *work) extent(ctx context.Context, to annals.SeqNr) (first, last annals.SeqNr, err error) {
	for e, err := range w.store.Journal().Replay(ctx, w.ID, 1, to) {
		if err != nil {
			return 0, 0, err
		}
		first = e.SeqNr
		break
	}
	if first == 0 {
		return 0, 0, nil
	}
	last, err = w.store.Journal().LastSeqNr(ctx, w.ID)
	return first, min(last, to), err
}

// handled fails where a projection has not come to event last.
func (w *work) handled(ctx context.Context, last annals.SeqNr) error {
	for _, name := range w.o.Projections {
		newest, _, err := w.store.Offsets().Handled(ctx, name, w.ID)
		if err != nil {
			return err
		}
		if newest.SeqNr < last {
			return &annals.Error{Op: "delete events", ID: w.ID, Kind: annals.ErrUnavailable,
				Err: fmt.Errorf("projection %q has come to event %d, not to %d", name, newest.SeqNr, last)}
		}
	}
	return nil
}

func (w *work) deleteSnapshots(ctx context.Context) error {
	return w.deleteSnapshotsTo(ctx, annals.MaxSeqNr)
}

// deleteSnapshotsTo leaves what is above to.
func (w *work) deleteSnapshotsTo(ctx context.Context, to annals.SeqNr) error {
	if to == 0 {
		return nil
	}
	c := annals.SnapshotCriteria{MaxSeqNr: to}
	_, there, err := w.store.Snapshots().Latest(ctx, w.ID, c)
	if err != nil {
		return err
	}
	if !w.o.DryRun && there {
		if err := w.store.Snapshots().Delete(ctx, w.ID, c); err != nil {
			return err
		}
	}
	w.Snapshots = there
	return nil
}

func (w *work) deleteBeforeSnapshot(ctx context.Context) error {
	var oldest annals.SeqNr // of those kept
	for range w.o.KeepSnapshots {
		if oldest == 1 {
			break // below it there is nothing
		}
		s, there, err := w.store.Snapshots().Latest(ctx, w.ID, annals.SnapshotCriteria{MaxSeqNr: max(oldest-1, 0)})
		if err != nil {
			return err
		}
		if !there {
			break
		}
		oldest = s.SeqNr
	}
	if oldest == 0 {
		return nil
	}
	if err := w.deleteEvents(ctx, oldest); err != nil {
		return err
	}
	return w.deleteSnapshotsTo(ctx, oldest-1)
}

// deleteEntity deletes the events first: left without the snapshot that they follow, they would be taken for the whole
// entity.
func (w *work) deleteEntity(ctx context.Context) error {
	if w.caps.Events {
		if err := w.deleteEvents(ctx, annals.MaxSeqNr); err != nil {
			return err
		}
	}
	if w.caps.Snapshots {
		if err := w.deleteSnapshots(ctx); err != nil {
			return err
		}
	}
	if w.caps.States {
		return w.deleteState(ctx)
	}
	return nil
}

func (w *work) deleteState(ctx context.Context) error {
	state, there, err := w.store.States().Get(ctx, w.ID)
	if err != nil || !there {
		return err
	}
	if !w.o.DryRun {
		write := annals.StateWrite{ID: w.ID, After: state.Revision, WriteID: annals.NewWriteID(), FirstTry: true}
		if _, err := w.store.States().Delete(ctx, write); err != nil {
			return err
		}
	}
	w.State = true
	return nil
}

func (w *work) forget(ctx context.Context) error {
	if w.o.DryRun && (w.Events > 0 || w.Snapshots || w.State) {
		w.Forgotten, w.Waiting = w.o.AtOnce, !w.o.AtOnce // it would be deleted by now
		return nil
	}
	done, err := w.forgetter.Forget(ctx, annals.Forgetting{ID: w.ID, Age: w.o.Age, DryRun: w.o.DryRun})
	w.Forgotten, w.Waiting = done, !done && err == nil
	return err
}
