package late

import (
	"context"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/faulty"
)

// Lies are what a store does wrong, so that a follower of it does not do one part of its work. The zero Lies are none.
type Lies struct {
	InOrder  bool // it claims that events become visible in order, and its watermark is now
	Now      bool // its watermark is now
	NoHoles  bool // its journal finds nothing
	Newest   bool // a position is at the newest event that was handled
	Start    bool // a position is at the beginning
	Beyond   bool // a position has no events beyond Through
	Once     bool // Save drops Once
	Epoch    bool // Save drops Epoch
	Revision bool // a transaction writes states at any revision
}

// Liar is a store that lies, with the abilities of the store in it.
type Liar struct {
	faulty.Able
	Lies Lies
}

// In returns s with the lies l.
func (l Lies) In(s annals.Store) Liar {
	return Liar{faulty.Able{Store: &faulty.Store{Store: s, Around: l.Around}}, l}
}

// Capabilities are those of the store, unless Lies has others.
func (s Liar) Capabilities() annals.Capabilities {
	c := s.Able.Capabilities()
	if s.Lies.InOrder {
		c.Lateness = 0
	}
	return c
}

// Around is a faulty.Around that makes the call c and lies about it.
func (l Lies) Around(ctx context.Context, c *faulty.Call, run func() error) error {
	switch arg := c.Arg.(type) {
	case *annals.Progress:
		arg.Once = arg.Once && !l.Once
		if l.Epoch {
			arg.Epoch = 0
		}
	case *annals.StateWrite:
		if c.InTx && l.Revision {
			stored, _, err := c.Store.States().Get(ctx, c.ID)
			if err != nil {
				return err
			}
			arg.After = stored.Revision
		}
	}
	if c.Op == "replay" && l.NoHoles {
		return nil
	}
	err := run()
	switch result := c.Result.(type) {
	case *time.Time:
		if l.Now || l.InOrder {
			*result = time.Now().UTC()
		}
	case *[]annals.Position:
		for i := range *result {
			p := &(*result)[i]
			if l.Newest {
				for _, offset := range p.Offsets {
					if offset.Compare(p.Through) > 0 {
						p.Through = offset
					}
				}
			}
			if l.Start {
				p.Through = annals.Offset{}
			}
			if l.Newest || l.Beyond || l.Start {
				p.Offsets = nil
			}
		}
	}
	return err
}
