package host

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// Send writes w, sending the identical write again for as long as ctx allows while its outcome is unknown or the store
// unavailable. The error is then certain (nothing of w was written) unless it is ErrUnknown. retries
// counts the tries beyond the first.
func Send[C, S, R any](ctx context.Context, m Model[C, S, R], w *Write) (r annals.Receipt, retries int, err error) {
	doubt := false // an earlier try may have landed
	for ; ; retries++ {
		w.State.FirstTry = !doubt
		r, err := m.Send(ctx, w)
		if err == nil {
			return r, retries, nil
		}
		doubt = doubt || !certain(err)
		again := (!certain(err) || annals.SafeToRetry(err)) && !forgotten(err)
		// After a doubtful try only a store that knows its writes again can say that none of them landed: for any
		// other the conflict may be with ourselves.
		if doubt && (!errors.Is(err, annals.ErrConflict) || !m.Repeatable()) {
			err = unknown(w, err)
		}
		if !again || backoff.Wait(ctx, retries) != nil {
			return r, retries, err
		}
	}
}

// Check looks whether the store has what the commands of an empty w saw: ErrConflict when another owner has written.
func Check[C, S, R any](ctx context.Context, m Model[C, S, R], w *Write) error {
	last, err := m.Last(ctx, w.ID())
	if err != nil {
		return loadFailed(w.ID(), err)
	}
	if last != w.After() {
		return &annals.Error{Op: OpConfirm, ID: w.ID(), After: w.After(), Last: last, Kind: annals.ErrConflict}
	}
	return nil
}

// certain reports whether a write that returned err wrote nothing. An error that is not of a store's own making says
// nothing about what happened.
func certain(err error) bool {
	e := (*annals.Error)(nil)
	return errors.As(err, &e) && !errors.Is(err, annals.ErrUnknown)
}

// forgotten reports whether the store no longer remembers who wrote what follows w.After: it will not remember later.
func forgotten(err error) bool {
	e := (*annals.Error)(nil)
	return errors.Is(err, annals.ErrUnknown) && errors.As(err, &e) && e.Last > e.After
}

// unknown is err with the kind that the whole of the tries has. A store's own error goes in as text: its kind was that
// of one try.
func unknown(w *Write, err error) error {
	if e := (*annals.Error)(nil); errors.As(err, &e) {
		if errors.Is(err, annals.ErrUnknown) {
			return err
		}
		err = errors.New(err.Error())
	}
	return &annals.Error{Op: w.Op(), ID: w.ID(), After: w.After(), Kind: annals.ErrUnknown, Err: err}
}
