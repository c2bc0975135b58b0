package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/contexts"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
)

// The suite finds stores that do not tell an Observer the truth. Each mutant stands between a true store and the Observer.
func TestObserverMutants(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]struct {
		mutate func(o annals.Observer) annals.Observer
		caught []string
	}{
		"ends a call twice": {func(o annals.Observer) annals.Observer {
			return mutantObserver{Observer: o, end: func(ctx context.Context, c annals.Call, r annals.Result) {
				o.End(ctx, c, r)
				o.End(ctx, c, r)
			}}
		}, []string{"OBSERVE-1", "OBSERVE-4", "TX-15"}},
		"does not end a loop that breaks off": {func(o annals.Observer) annals.Observer {
			return mutantObserver{Observer: o, end: func(ctx context.Context, c annals.Call, r annals.Result) {
				if c.Op != "replay" || r.Events != 1 {
					o.End(ctx, c, r)
				}
			}}
		}, []string{"OBSERVE-2"}},
		"ends a call with another context": {func(o annals.Observer) annals.Observer {
			return mutantObserver{Observer: o, end: func(_ context.Context, c annals.Call, r annals.Result) { o.End(context.Background(), c, r) }}
		}, []string{"OBSERVE-1"}},
		"counts events that were read ahead": {func(o annals.Observer) annals.Observer {
			return mutantObserver{Observer: o, end: func(ctx context.Context, c annals.Call, r annals.Result) {
				if c.Op == "replay" && r.Events == 1 {
					r.Events, r.Bytes = 3, 3*r.Bytes
				}
				o.End(ctx, c, r)
			}}
		}, []string{"OBSERVE-2"}},
		"counts manifests": {func(o annals.Observer) annals.Observer {
			return mutantObserver{Observer: o, end: func(ctx context.Context, c annals.Call, r annals.Result) {
				if r.Bytes > 0 {
					r.Bytes++
				}
				o.End(ctx, c, r)
			}}
		}, []string{"OBSERVE-1", "OBSERVE-2"}},
		"has an error of its own": {func(o annals.Observer) annals.Observer {
			return mutantObserver{Observer: o, end: func(ctx context.Context, c annals.Call, r annals.Result) {
				if r.Err != nil {
					r.Err = errors.New("failed")
				}
				o.End(ctx, c, r)
			}}
		}, []string{"OBSERVE-3", "OBSERVE-4"}},
		"does not say which entity": {func(o annals.Observer) annals.Observer {
			return mutantObserver{Observer: o, start: func(ctx context.Context, c annals.Call) context.Context {
				c.ID = ""
				return o.Start(ctx, c)
			}}
		}, []string{"OBSERVE-1"}},
		"hides refused calls": {func(o annals.Observer) annals.Observer {
			return mutantObserver{Observer: o,
				start: func(ctx context.Context, _ annals.Call) context.Context { return ctx },
				end: func(ctx context.Context, c annals.Call, r annals.Result) {
					if !errors.Is(r.Err, annals.ErrInvalid) {
						o.End(o.Start(ctx, c), c, r)
					}
				}}
		}, []string{"OBSERVE-4"}},
		"keeps the callers to itself": {func(o annals.Observer) annals.Observer {
			return mutantObserver{Observer: o, start: func(ctx context.Context, c annals.Call) context.Context {
				return o.Start(contexts.WithCallers(ctx, nil), c)
			}}
		}, []string{"OBSERVE-6"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantCaught(t, m.caught, Config{Open: openMem, Short: true, OpenObserved: func(tb testing.TB, o annals.Observer) annals.Store {
				return openMemObserved(tb, m.mutate(o))
			}})
		})
	}
	t.Run("lets the Observer end a call", func(t *testing.T) {
		t.Parallel()
		wantCaught(t, []string{"OBSERVE-5"}, Config{Open: openMem, Short: true, OpenObserved: func(_ testing.TB, o annals.Observer) annals.Store {
			return memoryAround(func(ctx context.Context, c *faulty.Call, run func() error) error {
				if c.Op == "last number" {
					o.Start(ctx, annals.Call{Op: c.Op, ID: c.ID}) // without a recover
				}
				return run()
			})
		}})
	})
}

// mutantObserver is an Observer with some methods replaced.
type mutantObserver struct {
	annals.Observer
	start func(ctx context.Context, c annals.Call) context.Context
	end   func(ctx context.Context, c annals.Call, r annals.Result)
}

func (m mutantObserver) Start(ctx context.Context, c annals.Call) context.Context {
	if m.start != nil {
		return m.start(ctx, c)
	}
	return m.Observer.Start(ctx, c)
}

func (m mutantObserver) End(ctx context.Context, c annals.Call, r annals.Result) {
	if m.end != nil {
		m.end(ctx, c, r)
		return
	}
	m.Observer.End(ctx, c, r)
}

// misnamed calls an operation by another name.
func misnamed(_ context.Context, c *faulty.Call, run func() error) error {
	err := run()
	if e := (*annals.Error)(nil); c.Op == "last number" && errors.As(err, &e) {
		err = &annals.Error{Op: "last", ID: e.ID, Kind: e.Kind, Err: e.Err}
	}
	return err
}

// readsAhead yields what it has read before, also when it is closed meanwhile.
type readsAhead struct{ *memstore.Store }

func (s readsAhead) Journal() annals.Journal {
	j := s.Store.Journal()
	return mutantJournal{Journal: j, replay: func(ctx context.Context, id annals.PersistenceID, from, to annals.SeqNr) iter.Seq2[annals.Event, error] {
		return listed(collect(j.Replay(ctx, id, from, to)))
	}}
}

// hastyClose does not wait.
type hastyClose struct{ *memstore.Store }

func (s hastyClose) Close() error {
	go func() { _ = s.Store.Close() }()
	return nil
}

// waitingClose waits for recoveries, and with them for the caller's functions.
type waitingClose struct {
	*memstore.Store
	recoveries sync.WaitGroup
}

func (s *waitingClose) Recover(ctx context.Context, id annals.PersistenceID, snapshot func(annals.Snapshot) error, event func(annals.Event) error) (annals.SeqNr, error) {
	s.recoveries.Add(1)
	defer s.recoveries.Done()
	return ability.Recover(ctx, s.Store, id, snapshot, event)
}

func (s *waitingClose) Close() error {
	s.recoveries.Wait()
	return s.Store.Close()
}

// endless has an inner store whose snapshots can be read when the transaction has ended.
type endless struct{ *memstore.Store }

func (s endless) Atomically(ctx context.Context, fn func(ctx context.Context, in annals.Store) error) error {
	return ability.Atomically(ctx, s.Store, func(ctx context.Context, in annals.Store) error {
		return fn(ctx, endlessInside{in, s})
	})
}

type endlessInside struct {
	annals.Store
	outer annals.Store
}

func (s endlessInside) Snapshots() annals.SnapshotStore { return s.outer.Snapshots() }

// changing changes filters.
func changing(filter func(f *annals.Filter)) faulty.Around {
	return func(_ context.Context, c *faulty.Call, run func() error) error {
		if f, ok := c.Arg.(*annals.Filter); ok {
			filter(f)
		}
		return run()
	}
}

// quietRefusals ends a loop that is ErrInvalid without an error.
type quietRefusals struct{ *memstore.Store }

func (s quietRefusals) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		for d, err := range s.Store.Unwrap().(ability.Subscriber).Subscribe(ctx, name, f) {
			if errors.Is(err, annals.ErrInvalid) || !yield(d, err) {
				return
			}
		}
	}
}

// filteredNames keeps a subscription for each name and filter.
type filteredNames struct{ *memstore.Store }

func (s filteredNames) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		for d, err := range s.Store.Unwrap().(ability.Subscriber).Subscribe(ctx, fmt.Sprint(name, f), f) {
			if !yield(d, err) {
				return
			}
		}
	}
}

// risingNumbers knows an entity by its highest number, also when it was forgotten.
type risingNumbers struct{ *memstore.Store }

func (s risingNumbers) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		highest := map[annals.PersistenceID]annals.SeqNr{}
		for d, err := range s.Store.Unwrap().(ability.Subscriber).Subscribe(ctx, name, f) {
			for _, e := range d.Events {
				if e.SeqNr <= highest[e.ID] { // the case need not wait for the next number
					yield(ability.Delivery{}, &annals.Error{Op: "subscribe", Kind: annals.ErrCorrupt})
					return
				}
				highest[e.ID] = e.SeqNr
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// hastyAcks acknowledges a delivery when the next one is asked for. Its loops end soon, so that the case need not wait for deliveries.
type hastyAcks struct{ *memstore.Store }

func (s hastyAcks) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		ctx, cancel := context.WithTimeout(ctx, 5*soon)
		defer cancel()
		for d, err := range s.Store.Unwrap().(ability.Subscriber).Subscribe(ctx, name, f) {
			if !yield(d, err) {
				return
			}
			if err == nil {
				_ = d.Ack(ctx)
			}
		}
	}
}

// acksOfTheEnded takes acknowledgements of loops that have ended.
type acksOfTheEnded struct{ *memstore.Store }

func (s acksOfTheEnded) Subscribe(ctx context.Context, name string, f annals.Filter) iter.Seq2[ability.Delivery, error] {
	return func(yield func(ability.Delivery, error) bool) {
		for d, err := range s.Store.Unwrap().(ability.Subscriber).Subscribe(ctx, name, f) {
			ack := d.Ack
			d.Ack = func(ctx context.Context) error {
				if err := ack(ctx); !errors.Is(err, annals.ErrFenced) {
					return err
				}
				return nil
			}
			if !yield(d, err) {
				return
			}
		}
	}
}

// wrappedTimes keeps imported times in 64 bits of nanoseconds.
var wrappedTimes = writing(func(e *annals.NewEvent) {
	if !e.Time.IsZero() {
		e.Time = time.Unix(0, e.Time.UnixNano())
	}
})

// carelessSkips skips to the number before, over what is there, and to any number.
type carelessSkips struct{ *memstore.Store }

func (s carelessSkips) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	return carelessly(s.Store.Unwrap().(ability.Skipper).SkipTo(ctx, id, min(after, n-2), n-1))
}

func (s carelessSkips) SkipStateTo(ctx context.Context, id annals.PersistenceID, n annals.SeqNr) error {
	return carelessly(s.Store.Unwrap().(ability.StateSkipper).SkipStateTo(ctx, id, n-1))
}

func carelessly(err error) error {
	if errors.Is(err, annals.ErrConflict) || errors.Is(err, annals.ErrInvalid) {
		return nil
	}
	return err
}

// hastySkips looks whether an entity has the number that was given, and skips later from the one that it has then: of two skips at the same time the
// first waits until the second has looked, too.
type hastySkips struct {
	*memstore.Store
	looked chan struct{}
}

func (s hastySkips) SkipTo(ctx context.Context, id annals.PersistenceID, after, n annals.SeqNr) error {
	last, err := s.Journal().LastSeqNr(ctx, id)
	switch {
	case err != nil:
		return err
	case last != after && last != n:
		return &annals.Error{Op: "skip", ID: id, Kind: annals.ErrConflict}
	}
	select {
	case s.looked <- struct{}{}:
	case <-s.looked:
	case <-time.After(100 * time.Millisecond): // no other skip looks
	}
	if last, err = s.Journal().LastSeqNr(ctx, id); err != nil {
		return err
	}
	return s.Store.Unwrap().(ability.Skipper).SkipTo(ctx, id, last, n)
}

// bareDeletes drops the metadata of deletes.
func bareDeletes(_ context.Context, c *faulty.Call, run func() error) error {
	if c.Op == "delete state" {
		c.Arg.(*annals.StateWrite).Metadata = annals.Payload{}
	}
	return run()
}

// writingHealth checks by a write that stays, and does not mind being closed.
type writingHealth struct{ *memstore.Store }

func (s writingHealth) CheckHealth(ctx context.Context) error {
	_, _ = s.Journal().Append(ctx, annals.Commit{ID: "Health|check", Events: newEvents(0, 1)})
	return nil
}
