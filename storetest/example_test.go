package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/storetest"
)

// Store keeps events in memory, and nothing else. All else answers ErrUnsupported.
type Store struct {
	annals.Unsupported
	mu      sync.Mutex
	closed  bool
	streams map[annals.PersistenceID]*stream
}

type stream struct {
	last   annals.SeqNr
	events []annals.Event                   // replaced, never changed in place: replays keep what they saw
	writes map[annals.SeqNr]acknowledgement // by After; they outlive the events
}

type acknowledgement struct {
	id      annals.WriteID
	receipt annals.Receipt
}

var limits = annals.Limits{MaxEvents: 1000, MaxBytes: 1 << 20, MaxIDBytes: 1000}

// Capabilities are the claims that storetest checks. False is the weaker claim.
func (s *Store) Capabilities() annals.Capabilities {
	return annals.Capabilities{Events: true, Tags: true, Metadata: true, Repeatable: true, FenceAfterDelete: true, Limits: limits}
}

func (s *Store) Journal() annals.Journal { return journal{s} }

func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

type journal struct{ s *Store }

// begin locks the stream of id, unless ctx has ended or the store is closed.
func (j journal) begin(ctx context.Context, op string, id annals.PersistenceID) (*stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, &annals.Error{Op: op, ID: id, Kind: annals.ErrUnavailable, Err: err}
	}
	j.s.mu.Lock()
	if j.s.closed {
		j.s.mu.Unlock()
		return nil, &annals.Error{Op: op, ID: id, Kind: annals.ErrClosed}
	}
	if st := j.s.streams[id]; st != nil {
		return st, nil
	}
	return &stream{writes: map[annals.SeqNr]acknowledgement{}}, nil
}

func (j journal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if err := c.Validate(limits); err != nil { // before anything else
		return annals.Receipt{}, err
	}
	if c.Snapshot != nil { // CommitSnapshot is not claimed
		return annals.Receipt{}, &annals.Error{Op: "append", ID: c.ID, Kind: annals.ErrUnsupported}
	}
	st, err := j.begin(ctx, "append", c.ID)
	if err != nil {
		return annals.Receipt{}, err
	}
	defer j.s.mu.Unlock()
	if st.last != c.After {
		if w, ok := st.writes[c.After]; ok && !c.WriteID.IsZero() && w.id == c.WriteID {
			w.receipt.Repeated = true
			return w.receipt, nil
		}
		return annals.Receipt{}, &annals.Error{Op: "append", ID: c.ID, After: c.After, Last: st.last, Kind: annals.ErrConflict}
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	if n := len(st.events); n > 0 && now.Before(st.events[n-1].Time) {
		now = st.events[n-1].Time // clocks go back, times do not
	}
	for _, e := range c.Events {
		st.last++
		st.events = append(st.events, annals.Event{ID: c.ID, SeqNr: st.last, Time: now, Payload: e.Payload,
			Tags: slices.Clone(e.Tags), Metadata: e.Metadata, Adapter: e.Adapter, WriteID: c.WriteID})
	}
	receipt := annals.Receipt{SeqNr: st.last, Time: now}
	st.writes[c.After] = acknowledgement{c.WriteID, receipt}
	if j.s.streams == nil {
		j.s.streams = map[annals.PersistenceID]*stream{}
	}
	j.s.streams[c.ID] = st
	return receipt, nil
}

func (j journal) Replay(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
	return func(yield func(annals.Event, error) bool) {
		events, err := j.events(ctx, id)
		for _, e := range events {
			if err = ctx.Err(); err != nil {
				err = &annals.Error{Op: "replay", ID: id, Kind: annals.ErrUnavailable, Err: err}
				break
			}
			if from <= e.SeqNr && e.SeqNr <= to && !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(annals.Event{}, err)
		}
	}
}

// events are those of this moment: no lock is held while the body of a replay runs.
func (j journal) events(ctx context.Context, id annals.PersistenceID) ([]annals.Event, error) {
	if err := id.ValidateRead("replay", limits); err != nil {
		return nil, err
	}
	st, err := j.begin(ctx, "replay", id)
	if err != nil {
		return nil, err
	}
	defer j.s.mu.Unlock()
	return st.events, nil
}

func (j journal) LastSeqNr(ctx context.Context, id annals.PersistenceID) (annals.SeqNr, error) {
	if err := id.ValidateRead("last number", limits); err != nil {
		return 0, err
	}
	st, err := j.begin(ctx, "last number", id)
	if err != nil {
		return 0, err
	}
	defer j.s.mu.Unlock()
	return st.last, nil
}

func (j journal) DeleteTo(ctx context.Context, id annals.PersistenceID, to annals.SeqNr) error {
	if err := id.ValidateRead("delete events", limits); err != nil {
		return err
	}
	st, err := j.begin(ctx, "delete events", id)
	if err != nil {
		return err
	}
	defer j.s.mu.Unlock()
	kept := slices.IndexFunc(st.events, func(e annals.Event) bool { return e.SeqNr > to })
	if kept < 0 {
		kept = len(st.events)
	}
	st.events = slices.Clone(st.events[kept:]) // last and writes stay: numbers never come back
	return nil
}

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Config{Open: func(testing.TB) annals.Store { return &Store{} }})
}

// The store at work: of two writers after the same number the second is refused.
func Example() {
	s := &Store{}
	c := annals.Commit{ID: "Cart|7", Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 31, Manifest: "Added", Data: []byte(`{"sku":"x"}`)}}}, WriteID: annals.NewWriteID()}
	_, first := s.Journal().Append(context.Background(), c)
	c.WriteID = annals.NewWriteID()
	_, second := s.Journal().Append(context.Background(), c)
	last, _ := annals.Recover(context.Background(), s, "Cart|7", func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
	fmt.Println(first, errors.Is(second, annals.ErrConflict), last)
	// Output: <nil> true 1
}
