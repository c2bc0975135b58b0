package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/keys"
	"github.com/annals-go/annals/internal/panics"
	"github.com/annals-go/annals/internal/progress"
	"github.com/annals-go/annals/internal/quote"
)

// work processes one entity. Its methods are the steps; they fill the Result.
type work struct {
	*Cleaner
	Result

	whole bool         // the entity is deleted, not a part of it
	last  annals.SeqNr // its last number, when deleteEvents read it
}

func (w *work) deleteEvents(ctx context.Context, to annals.SeqNr) error {
	first, last, err := w.extent(ctx, to)
	if err != nil {
		return err
	}
	w.last = last
	if first > 0 {
		if err := w.handled(ctx, last); err != nil {
			return err
		}
	}
	// Delete also when there is no event: a store may be able to remove more than at an earlier delete. Never delete above last: whether
	// later events are handled has not been checked.
	switch {
	case w.o.DryRun || last == 0:
	case w.whole && first > 0 && w.retires():
		err = w.retire(ctx)
	default:
		err = w.store.Journal().DeleteTo(ctx, w.ID, last)
	}
	if err != nil {
		return err
	}
	if first > 0 {
		w.Events = last - first + 1
	}
	return nil
}

// extent returns the number of the first event up to to, 0 when there is none, and the entity's last number, or to if that is less. It is ErrConflict
// when all events of an entity that is deleted whole are later than the last number: another cleaner has deleted the others, and may not have taken a number.
func (w *work) extent(ctx context.Context, to annals.SeqNr) (first, last annals.SeqNr, err error) {
	last, err = w.store.Journal().LastSeqNr(ctx, w.ID) // asked first: what is written after it is above it
	if last = min(last, to); err != nil || last < 1 {
		return 0, last, err
	}
	for e, err := range w.store.Journal().Replay(ctx, w.ID, 1, to) {
		switch {
		case err != nil:
			return 0, 0, err
		case e.SeqNr <= last:
			first = e.SeqNr
		case w.whole:
			return 0, 0, &annals.Error{Op: "delete events", ID: w.ID, After: last, Last: e.SeqNr, Kind: annals.ErrConflict}
		}
		break
	}
	return first, last, nil
}

// handled returns an error when a projection has not handled event last.
func (w *work) handled(ctx context.Context, last annals.SeqNr) error {
	n, name, err := progress.Handled(ctx, w.store, w.o.Projections, w.ID, last)
	if err == nil && n < last {
		err = &annals.Error{Op: "delete events", ID: w.ID, Kind: annals.ErrUnavailable,
			Err: fmt.Errorf("projection %s has handled the events up to %d, not up to %d", quote.Text(name), n, last)}
	}
	return err
}

// deleteSnapshots deletes the snapshots with numbers up to to.
func (w *work) deleteSnapshots(ctx context.Context, to annals.SeqNr) error {
	if to == 0 {
		return nil
	}
	c := annals.SnapshotCriteria{MaxSeqNr: to}
	newest, there, err := w.store.Snapshots().Latest(ctx, w.ID, c)
	if err != nil || !there {
		return err
	}
	fences := w.whole && w.retires()
	if fences && w.Events == 0 && newest.SeqNr == w.last && !w.o.DryRun {
		err = w.retire(ctx)
	}
	if err == nil && fences {
		c.MaxSeqNr = max(w.last, newest.SeqNr)
		if newest.SeqNr > w.last { // of an owner that has begun the entity again, or of events that are lost
			var now annals.SeqNr
			if now, err = w.store.Journal().LastSeqNr(ctx, w.ID); err == nil && now > w.last {
				err = &annals.Error{Op: "delete snapshots", ID: w.ID, After: w.last, Last: now, Kind: annals.ErrConflict}
			}
		}
	}
	if err == nil && !w.o.DryRun {
		err = w.store.Snapshots().Delete(ctx, w.ID, c)
		if fences { // an owner may have loaded one of them after the events were deleted; also when the answer was lost
			err = cmp.Or(err, w.retire(ctx))
		}
	}
	w.Snapshots = err == nil
	return err
}

func (w *work) deleteBeforeSnapshot(ctx context.Context) error {
	var oldest annals.SeqNr // of those kept
	var covering annals.Snapshot
	for kept := 0; kept < w.o.KeepSnapshots && oldest != 1; kept++ { // there is no number below 1
		s, there, err := w.store.Snapshots().Latest(ctx, w.ID, annals.SnapshotCriteria{MaxSeqNr: max(oldest-1, 0)})
		if err != nil {
			return err
		}
		if !there {
			break
		}
		oldest, covering = s.SeqNr, s
	}
	if oldest == 0 {
		return nil
	}
	if w.o.Readable != nil {
		if err := panics.Contain("read back snapshot", w.ID, func() error { return w.o.Readable(covering) }); err != nil {
			kind := annals.ErrCorrupt
			if errors.Is(err, annals.ErrUnavailable) { // of the codec: it says nothing of the snapshot
				kind = annals.ErrUnavailable
			}
			return &annals.Error{Op: "read back snapshot", ID: w.ID, Last: oldest, Kind: kind, Err: err}
		}
	}
	if err := w.deleteEvents(ctx, oldest); err != nil {
		return err
	}
	return w.deleteSnapshots(ctx, oldest-1)
}

// deleteEntity deletes the state first, which some stores refuse, and the events before the snapshots: events without the snapshot before
// them would be read as the whole entity.
func (w *work) deleteEntity(ctx context.Context) error {
	w.whole = true
	if w.caps.States {
		if err := w.deleteState(ctx); err != nil {
			return err
		}
	}
	if w.caps.Events {
		if err := w.deleteEvents(ctx, annals.MaxSeqNr); err != nil {
			return err
		}
	}
	if w.caps.Snapshots {
		return w.deleteSnapshots(ctx, annals.MaxSeqNr)
	}
	return nil
}

func (w *work) retires() bool { return w.skipper != nil && 0 < w.last && w.last < annals.MaxSeqNr-1 }

// retire deletes the events and takes the number after the last one. So an owner that has the entity in memory finds another last number,
// and its next write is ErrConflict. A number is taken only when something is there to delete: otherwise each run would delay the forgetting.
func (w *work) retire(ctx context.Context) error {
	err := w.skipper.SkipTo(ctx, w.ID, w.last, w.last+1)
	if err == nil {
		w.last++
	}
	return err
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
		w.Forgotten, w.Waiting = w.o.AtOnce, !w.o.AtOnce // it would be deleted now
		return nil
	}
	f := ability.Forgetting{ID: w.ID, Age: w.o.Age, DryRun: true}
	done, err := w.forgetter.Forget(ctx, f)
	if err == nil && done && !w.o.DryRun {
		// The entity comes last: the store does not list the id of one that it has forgotten, so a later run would not find what is left.
		if err = errors.Join(w.forgetProgress(ctx), w.forgetKeys(ctx, f)); err == nil {
			f.DryRun = false
			done, err = w.forgetter.Forget(ctx, f)
		}
	}
	w.Forgotten, w.Waiting = done && err == nil, !done && err == nil
	return err
}

// forgetKeys removes the keys of the commands to the entity of f. An entity that can be forgotten has no writers, so the keys need no age.
func (w *work) forgetKeys(ctx context.Context, f ability.Forgetting) error {
	if !w.caps.States {
		return nil
	}
	id := keys.ID(w.ID)
	state, there, err := w.store.States().Get(ctx, id)
	switch {
	case errors.Is(err, annals.ErrInvalid): // an id that the store refuses, as one that is too long, has no keys
		return nil
	case err != nil || state.Revision == 0:
		return err
	}
	if there {
		if _, err := w.forgetter.Forget(ctx, f); err != nil {
			return err // the keys may be of a command that was executed since
		}
		write := annals.StateWrite{ID: id, After: state.Revision, WriteID: annals.NewWriteID(), FirstTry: true}
		if _, err := w.store.States().Delete(ctx, write); err != nil {
			return err
		}
	}
	_, err = w.forgetter.Forget(ctx, ability.Forgetting{ID: id})
	return err
}

// forgetProgress removes the entity from what projections keep in the store.
func (w *work) forgetProgress(ctx context.Context) error {
	if !w.caps.Offsets {
		return nil
	}
	names, err := progress.Names(ctx, w.store, w.o.Projections)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := progress.Forget(ctx, w.store, name, w.ID); err != nil {
			return err
		}
	}
	return nil
}
