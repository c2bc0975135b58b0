package storetest

import (
	"context"
	"errors"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/internal/valid"
	"github.com/annals-go/annals/memstore"
)

// lightLimits counts only the data of payloads.
type lightLimits struct{ *memstore.Store }

func (s lightLimits) Capabilities() annals.Capabilities {
	c := s.Store.Capabilities()
	c.Limits.MaxBytes = 64 << 10
	return c
}

func (s lightLimits) Journal() annals.Journal {
	j := s.Store.Journal()
	return mutantJournal{Journal: j, append: func(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
		light := c
		light.Events = slices.Clone(c.Events)
		for i := range light.Events {
			e := &light.Events[i]
			e.Manifest, e.Tags, e.Adapter, e.Metadata = "", nil, "", annals.Payload{}
		}
		if err := valid.Commit(light, s.Capabilities().Limits); err != nil {
			return annals.Receipt{}, err
		}
		return j.Append(ctx, c)
	}}
}

// longErrors adds the whole id to the error.
func longErrors(_ context.Context, c *faulty.Call, run func() error) error {
	err := run()
	if c.Op == "append" && err != nil {
		err = errors.Join(err, errors.New(string(c.ID)))
	}
	return err
}

// fillsHoles stores a commit with any After above the last number, after events that make the numbers consecutive.
func fillsHoles(ctx context.Context, c *faulty.Call, run func() error) error {
	if commit, ok := c.Arg.(*annals.Commit); ok {
		j := c.Store.Journal()
		last, err := j.LastSeqNr(ctx, c.ID)
		if err == nil && commit.After > last {
			_, err = j.Append(ctx, annals.Commit{ID: c.ID, After: last, Events: newEvents(last, int(commit.After-last)), WriteID: annals.NewWriteID()})
		}
		if err != nil {
			return err
		}
	}
	return run()
}
