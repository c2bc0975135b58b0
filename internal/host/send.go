package host

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// parts are those of a store that a host writes to.
type parts struct {
	journal annals.Journal
	states  annals.StateStore
	within  bool // a transaction: nothing is sent again in it, because it may be broken and holds up others
}

func partsOf(s annals.Store) parts { return parts{journal: s.Journal(), states: s.States()} }

// send is Observed.Write. retries counts the tries after the first. repeatable says that the store recognises a write that is sent again.
func (p parts) send(ctx context.Context, w *Write, repeatable bool) (r annals.Receipt, retries int, err error) {
	doubt := false // an earlier try may have been stored
	for ; ; retries++ {
		w.State.FirstTry = !doubt
		r, err := p.try(ctx, w)
		if err == nil {
			return r, retries, nil
		}
		doubt = doubt || !certain(err)
		again := (!certain(err) || annals.SafeToRetry(err)) && !forgotten(err)
		// After a try with an unknown outcome, a conflict may be one with that try. Only a store that recognises repeated writes
		// reports a conflict for certain.
		if doubt && (!errors.Is(err, annals.ErrConflict) || !repeatable) {
			err = unknown(w, err)
		}
		if !again || p.within || backoff.Wait(ctx, retries) != nil {
			return r, retries, err
		}
	}
}

// try tries once to write w.
func (p parts) try(ctx context.Context, w *Write) (annals.Receipt, error) {
	switch {
	case w.State.ID == "":
		return p.journal.Append(ctx, w.Commit)
	case w.Delete:
		return p.states.Delete(ctx, w.State)
	}
	return p.states.Put(ctx, w.State)
}

// Check compares the number in the store with the one that the commands of an empty w saw: ErrConflict when another owner has written.
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

// certain reports whether a write that returned err wrote nothing for certain. An error that is no *annals.Error leaves the outcome open.
func certain(err error) bool {
	e := (*annals.Error)(nil)
	return errors.As(err, &e) && !errors.Is(err, annals.ErrUnknown)
}

// forgotten reports whether the store no longer knows which write followed the number w.After. Another try cannot change that.
func forgotten(err error) bool {
	e := (*annals.Error)(nil)
	return errors.Is(err, annals.ErrUnknown) && errors.As(err, &e) && e.Last > e.After
}

// unknown is an error of kind ErrUnknown with err as its cause. An *annals.Error is included as text, because its kind is that of one try
// and must not match.
func unknown(w *Write, err error) error {
	if e := (*annals.Error)(nil); errors.As(err, &e) {
		if errors.Is(err, annals.ErrUnknown) {
			return err
		}
		err = errors.New(err.Error())
	}
	return &annals.Error{Op: w.Op(), ID: w.ID(), After: w.After(), Kind: annals.ErrUnknown, Err: err}
}
