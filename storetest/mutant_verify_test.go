package storetest

import (
	"context"
	"errors"
	"iter"
	"runtime"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/memstore"
)

// checking is a store whose checks find what fault says, and nothing else; nil: nothing. They hand over no payloads without it.
type checking struct {
	*memstore.Store
	fault func(ctx context.Context, s *memstore.Store, id annals.PersistenceID) (from, to annals.SeqNr)
}

func (c checking) Check(ctx context.Context, id annals.PersistenceID, see func(ability.Stored)) ([]*ability.Damage, error) {
	if c.fault == nil {
		return nil, nil
	}
	found, err := c.Store.Unwrap().(ability.Checker).Check(ctx, id, see)
	if from, to := c.fault(ctx, c.Store, id); from <= to {
		found = append(found, &ability.Damage{Code: ability.Missing, ID: id, From: from, To: to, Err: errors.New("events are missing")})
	}
	return found, err
}

// firstLost are the numbers before the first event.
func firstLost(ctx context.Context, s *memstore.Store, id annals.PersistenceID) (from, to annals.SeqNr) {
	for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
		if err == nil {
			return 1, e.SeqNr - 1
		}
	}
	last, _ := s.Journal().LastSeqNr(ctx, id)
	return 1, last
}

// grown are all numbers when there are more than a moment before.
func grown(ctx context.Context, s *memstore.Store, id annals.PersistenceID) (from, to annals.SeqNr) {
	before, _ := s.Journal().LastSeqNr(ctx, id)
	for range 100 {
		runtime.Gosched() // as a network would
	}
	if after, _ := s.Journal().LastSeqNr(ctx, id); after > before {
		return 1, after
	}
	return 1, 0
}

// scanning is a store that scans another type, or from another place.
type scanning struct {
	*memstore.Store
	change func(entityType, after string) (string, string)
}

func (s scanning) Scan(ctx context.Context, entityType, after string) iter.Seq2[ability.Scanned, error] {
	entityType, after = s.change(entityType, after)
	return s.Store.Unwrap().(ability.Scanner).Scan(ctx, entityType, after)
}
