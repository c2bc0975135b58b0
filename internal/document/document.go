// Package document has values that several processes share, each in one durable state that they change by compare-and-set.
package document

import (
	"context"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/quote"
)

// Document is a value in a durable state.
type Document[T any] struct {
	ID    annals.PersistenceID
	Codec codec.Codec[T]
	Check func(v T) error // what is wrong with a value that was read
}

// ErrUnchanged is returned by a function of Change that has changed nothing: nothing is saved, and Change returns nil.
var ErrUnchanged = errors.New("unchanged")

// Load returns the value and the revision after which it may be saved. A document that was never saved is the zero T. ErrCorrupt when it is
// damaged.
func (d Document[T]) Load(ctx context.Context, s annals.Store) (v T, revision annals.SeqNr, err error) {
	state, ok, err := s.States().Get(ctx, d.ID)
	if err != nil || !ok {
		return v, state.Revision, err
	}
	if v, err = d.Codec.Decode(state.Payload); err == nil {
		err = d.Check(v)
	}
	if err != nil {
		return v, 0, &annals.Error{Op: "read", ID: d.ID, Kind: annals.ErrCorrupt, Err: fmt.Errorf("revision %d: %w", state.Revision, err)}
	}
	return v, state.Revision, nil
}

// Save stores v as revision after+1. ErrConflict when another process saved first.
func (d Document[T]) Save(ctx context.Context, s annals.Store, after annals.SeqNr, v T) error {
	p, err := d.Codec.Encode(v)
	if err != nil {
		return fmt.Errorf("%s: %w", quote.Text(string(d.ID)), err)
	}
	_, err = s.States().Put(ctx, annals.StateWrite{ID: d.ID, After: after, Payload: p})
	return err
}

// Change loads the document, applies fn and saves it, again while another process saves first or an answer is lost. So fn may be called several
// times, also on a value that it has changed before. An error of fn is returned, and nothing is saved; its ErrConflict and ErrUnknown are tried
// again, too.
func (d Document[T]) Change(ctx context.Context, s annals.Store, fn func(v *T) error) error {
	for try := 0; ; try++ {
		v, revision, err := d.Load(ctx, s)
		if err == nil {
			err = fn(&v)
		}
		if err == nil {
			err = d.Save(ctx, s, revision, v)
		}
		switch {
		case errors.Is(err, ErrUnchanged):
			return nil
		case !errors.Is(err, annals.ErrConflict) && !errors.Is(err, annals.ErrUnknown):
			return err
		}
		if ended := backoff.Wait(ctx, try); ended != nil {
			return err
		}
	}
}
