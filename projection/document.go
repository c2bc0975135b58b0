package projection

import (
	"context"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/quote"
)

// document is a durable state of a projection that several processes change by compare-and-set.
type document[T any] struct {
	id    annals.PersistenceID
	codec codec.Codec[T]
	check func(v T) error // what is wrong with a value that was read
}

// load returns the value and the revision after which it may be saved. A document that was never saved is the zero T. ErrCorrupt when it is
// damaged.
func (d document[T]) load(ctx context.Context, s annals.Store) (v T, revision annals.SeqNr, err error) {
	state, ok, err := s.States().Get(ctx, d.id)
	if err != nil || !ok {
		return v, state.Revision, err
	}
	if v, err = d.codec.Decode(state.Payload); err == nil {
		err = d.check(v)
	}
	if err != nil {
		return v, 0, &annals.Error{Op: "read", ID: d.id, Kind: annals.ErrCorrupt, Err: fmt.Errorf("revision %d: %w", state.Revision, err)}
	}
	return v, state.Revision, nil
}

// save stores v as revision after+1. ErrConflict when another process saved first.
func (d document[T]) save(ctx context.Context, s annals.Store, after annals.SeqNr, v T) error {
	p, err := d.codec.Encode(v)
	if err != nil {
		return fmt.Errorf("%s: %w", quote.Text(string(d.id)), err)
	}
	_, err = s.States().Put(ctx, annals.StateWrite{ID: d.id, After: after, Payload: p})
	return err
}

// change loads the document, applies fn and saves it, again while another process saves first or an answer is lost. So fn may be called several
// times, also on a value that it has changed before. An error of fn is returned, and nothing is saved; its ErrConflict and ErrUnknown are tried
// again, too.
func (d document[T]) change(ctx context.Context, s annals.Store, fn func(v *T) error) error {
	for try := 0; ; try++ {
		v, revision, err := d.load(ctx, s)
		if err == nil {
			err = fn(&v)
		}
		if err == nil {
			err = d.save(ctx, s, revision, v)
		}
		if !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrUnknown) {
			return err
		}
		if ended := backoff.Wait(ctx, try); ended != nil {
			return err
		}
	}
}
