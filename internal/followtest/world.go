package followtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/late"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/projection"
)

const (
	name     = "followed" // of the projection
	writers  = 6
	each     = 4 // entities of a writer
	runners  = 4 // at a time
	ranges   = 8
	lease    = 300 * time.Millisecond
	poll     = 100 * time.Millisecond
	oneIn    = 60               // how many requests of a runner there are for each that fails
	patience = 10 * time.Minute // a schedule takes half a minute under the race detector, and many times as long on a busy machine
)

// world is one projection under test.
type world[T any] struct {
	Target[T]
	guarantee guarantee
	random    *random.Source
	kills     int
	rounds    int           // in each of which a writer writes to each of its entities
	lies      late.Lies     // of the store to the runners
	broken    atomic.Bool   // the handler of each event fails, and its entity is parked
	patience  time.Duration // how long the runners may take after the last write
	timeout   time.Duration // of a handler of one event; 0: the default
	audit     time.Duration // as projection.Options.Audit
	poll      time.Duration // as projection.Options.Poll

	log     lines
	before  atomic.Pointer[map[Entry]bool] // what had its effect before the last reset, without stamps; nil: there was none
	breaks  atomic.Pointer[breakage[T]]    // of the transaction of one event, until OnError is asked
	failed  atomic.Int64                   // handlers that failed at random
	asked   atomic.Int64                   // about events that failed
	blamed  atomic.Pointer[annals.Event]   // the last of them
	stamp   atomic.Int64
	killed  atomic.Int64
	mu      sync.Mutex
	last    map[annals.PersistenceID]annals.SeqNr // that was written
	handled []Entry                               // by handlers without a transaction
	since   int64                                 // the last stamp before the last reset

	written, skipped, doubled int
}

// lines are what was logged.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func newWorld[T any](target Target[T], g guarantee, r *random.Source) *world[T] {
	if target.Events == nil {
		target.Events = target.Store
	}
	return &world[T]{Target: target, guarantee: g, random: r, rounds: 25, patience: patience, poll: poll, last: map[annals.PersistenceID]annals.SeqNr{}}
}

// run writes events and kills runners. It returns what is wrong with what they handled.
func (w *world[T]) run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, writers+runners)
	var writing, handling sync.WaitGroup
	for i := range writers {
		writing.Go(func() { errs[i] = w.write(ctx, i) })
	}
	for i := range runners {
		handling.Go(func() { errs[writers+i] = w.keepRunning(running) })
	}
	writing.Wait()
	err := w.await(ctx)
	stop()
	handling.Wait()
	if asked, failed := w.asked.Load(), w.failed.Load(); asked > failed {
		err = errors.Join(err, fmt.Errorf("asked about %d failures of events, handlers have failed %d times", asked, failed))
	}
	return errors.Join(append(errs, err, w.check(ctx))...)
}

// write writes the events of one writer: in commits, and in transactions of two entities that stay open for a while, some of which are
// undone.
func (w *world[T]) write(ctx context.Context, writer int) error {
	var ids [each]annals.PersistenceID
	for i := range ids {
		ids[i] = annals.NewPersistenceID(Type, fmt.Sprintf("%d-%d", writer, i))
	}
	for range w.rounds {
		for i, id := range ids {
			if !w.random.OneIn(8) || w.Events != annals.Store(w.Store) {
				if err := w.append(ctx, w.commit(id)); err != nil {
					return err
				}
				continue
			}
			if err := w.appendBoth(ctx, id, ids[(i+1)%each], w.random.OneIn(3)); err != nil {
				return err
			}
		}
		_ = backoff.Wait(ctx, 6)
	}
	return nil
}

// commit is the next commit of id. Where states are followed it is one write of a state.
func (w *world[T]) commit(id annals.PersistenceID) annals.Commit {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := annals.Commit{ID: id, After: w.last[id], WriteID: annals.NewWriteID()}
	events := 1 + w.random.IntN(5)
	if w.guarantee == ofStates {
		events = 1
	}
	for range events {
		c.Events = append(c.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: 4, Data: []byte("1")}})
	}
	return c
}

// store stores c in s: events, or a state. Every fifth write of a state deletes it.
func (w *world[T]) store(ctx context.Context, s annals.Store, c annals.Commit) (err error) {
	state := annals.StateWrite{ID: c.ID, After: c.After, Payload: c.Events[0].Payload, WriteID: c.WriteID}
	switch {
	case w.guarantee != ofStates:
		_, err = s.Journal().Append(ctx, c)
	case c.After%5 == 4:
		_, err = s.States().Delete(ctx, state)
	default:
		_, err = s.States().Put(ctx, state)
	}
	return err
}

// wrote says that c is stored.
func (w *world[T]) wrote(c annals.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last[c.ID] = c.After + annals.SeqNr(len(c.Events))
}

func (w *world[T]) append(ctx context.Context, c annals.Commit) error {
	for try := 0; ; try++ {
		s := w.Events
		if w.Beside != nil && w.random.OneIn(2) {
			s = w.Beside
		}
		err := w.store(ctx, s, c)
		if err == nil {
			w.wrote(c)
			return nil
		}
		if !errors.Is(err, annals.ErrUnavailable) && !errors.Is(err, annals.ErrUnknown) || backoff.Wait(ctx, try) != nil {
			return err
		}
	}
}

// errUndone undoes a transaction, errBroken is a failure of a handler.
var errUndone, errBroken = errors.New("undone on purpose"), errors.New("broken on purpose")

func (w *world[T]) appendBoth(ctx context.Context, first, second annals.PersistenceID, undone bool) error {
	a, b := w.commit(first), w.commit(second)
	err := w.Store.InTx(ctx, func(ctx context.Context, _ T, in annals.Store) error {
		for _, c := range []annals.Commit{a, b} {
			if err := w.store(ctx, in, c); err != nil {
				return err
			}
			_ = backoff.Wait(ctx, 5)
		}
		if undone {
			return errUndone
		}
		return nil
	})
	switch {
	case err == nil:
		w.wrote(a)
		w.wrote(b)
		return nil
	case errors.Is(err, errUndone), errors.Is(err, annals.ErrUnavailable):
		return nil
	}
	return err
}

// keepRunning runs one runner after the other until ctx ends. As long as there are kills, each ends after a while: it leaves its ranges, or it
// is killed, which means that no request of it reaches the store any more, or it is stopped for longer than its lease and goes on.
func (w *world[T]) keepRunning(ctx context.Context) error {
	for ctx.Err() == nil {
		s := newUnreliable(w.Store, w.Events, w.lies, w.random, oneIn)
		r, err := w.runner(s)
		if err != nil {
			return err
		}
		life, end := context.WithCancel(ctx)
		if w.killed.Add(1) <= int64(w.kills) {
			time.AfterFunc(lease/3+w.random.Below(2*lease), func() {
				switch w.random.IntN(3) {
				case 0:
					s.dead.Store(true)
				case 1:
					s.stops.Store(true)
					time.AfterFunc(4*lease, end)
					return
				}
				end()
			})
		}
		err = r.Run(life)
		end()
		if err != nil {
			return fmt.Errorf("a runner has ended: %w", err)
		}
	}
	return nil
}

// fails decides at random whether a handler fails.
func (w *world[T]) fails(s *unreliable[T]) bool {
	if !w.random.OneIn(4 * s.oneIn) {
		return false
	}
	w.failed.Add(1)
	return true
}

// entry is that of an event that is handled now. Its number is negative when Rebuilding is not what the entries before the last reset say.
func (w *world[T]) entry(e envelope) Entry {
	entry, rebuilt := Entry{ID: e.ID, SeqNr: e.SeqNr}, false
	if before := w.before.Load(); before != nil {
		rebuilt = (*before)[entry]
	}
	if e.Rebuilding != rebuilt && w.guarantee != atLeastOnce {
		entry.SeqNr = -entry.SeqNr
	}
	entry.Stamp = w.stamp.Add(1)
	return entry
}

type envelope = projection.Envelope[[]byte]

// runner is a new runner of the projection.
func (w *world[T]) runner(s *unreliable[T]) (*projection.Runner, error) {
	source := projection.Source[[]byte]{Store: s.source, Type: Type, Codec: plain{}, States: w.guarantee == ofStates}
	o := projection.Options{Ranges: ranges, BatchSize: 1 + w.random.IntN(20), Lease: lease, Poll: w.poll, Audit: w.audit, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
		OnError: func(_ context.Context, f projection.Failure) projection.Verdict {
			w.asked.Add(1)
			w.blamed.Store(&f.Event)
			w.breaks.Store(nil)
			if w.broken.Load() {
				return projection.Park
			}
			return projection.Retry
		}}
	switch w.guarantee {
	case exactlyOnce, ofStates:
		o.HandlerTimeout = w.timeout
		return projection.ExactlyOnce(name, source, s, func(ctx context.Context, tx T, e envelope) error {
			if e.Deleted != (w.guarantee == ofStates && e.SeqNr%5 == 0) {
				return fmt.Errorf("%q: Deleted of number %d is %v", e.ID, e.SeqNr, e.Deleted)
			}
			if w.broken.Load() || w.fails(s) {
				return errBroken
			}
			if s.hangs != nil {
				<-s.hangs
				ctx = context.WithoutCancel(ctx)
			}
			if b := w.breaks.Load(); b != nil && b.id == e.ID && b.number == e.SeqNr {
				return b.by(ctx, tx)
			}
			return w.Add(ctx, tx, w.entry(e))
		}, o)
	case exactlyOnceGrouped:
		return projection.ExactlyOnceGrouped(name, source, s, func(ctx context.Context, tx T, es []envelope) error {
			for _, e := range es {
				if err := w.Add(ctx, tx, w.entry(e)); err != nil {
					return err
				}
			}
			if w.fails(s) {
				return errBroken
			}
			return nil
		}, o)
	}
	o.HandlerTimeout = w.timeout
	return projection.AtLeastOnce(name, source, s, func(_ context.Context, e envelope) error {
		if w.broken.Load() {
			return errBroken
		}
		if s.hangs != nil {
			<-s.hangs
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.handled = append(w.handled, w.entry(e))
		if w.fails(s) {
			return errBroken
		}
		return nil
	}, o)
}

// plain is a codec that leaves payloads as they are.
type plain struct{}

var _ codec.Codec[[]byte] = plain{}

func (plain) Encode(b []byte) (annals.Payload, error) {
	return annals.Payload{SerializerID: 4, Data: b}, nil
}
func (plain) Decode(p annals.Payload) ([]byte, error) { return p.Data, nil }

// entries are what was handled, in the order of their stamps.
func (w *world[T]) entries(ctx context.Context) (all []Entry, err error) {
	if w.guarantee == atLeastOnce {
		w.mu.Lock()
		all = slices.Clone(w.handled)
		w.mu.Unlock()
	} else if all, err = w.Entries(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Stamp, b.Stamp) })
	return all, nil
}

// await returns when everything that was written has been handled and all kills are done, when something is wrong that cannot become right, or
// when that takes too long.
func (w *world[T]) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	for ctx.Err() == nil {
		all, err := w.entries(ctx)
		if err != nil {
			return err
		}
		if faults := w.compare(all); len(faults) > 0 || w.doubled > 0 || w.skipped == 0 && w.killed.Load() >= int64(w.kills+runners) {
			return nil
		}
		_ = backoff.Wait(ctx, 7)
	}
	return nil // check says what is missing
}

// check says what is wrong with what was handled.
func (w *world[T]) check(ctx context.Context) error {
	all, err := w.entries(ctx)
	if err != nil {
		return err
	}
	faults := w.compare(all)
	if w.skipped > 0 || w.doubled > 0 {
		faults = append(faults, fmt.Errorf("of %d events %d were not handled and %d more than once", w.written, w.skipped, w.doubled))
	}
	return errors.Join(faults[:min(len(faults), 10)]...)
}

// compare compares what was handled with what was written. It counts what is missing and what is doubled, and returns other faults. Of the states
// of an entity only the last can be missing.
func (w *world[T]) compare(all []Entry) (faults []error) {
	highest := map[annals.PersistenceID]annals.SeqNr{} // that was handled
	times := map[Entry]int{}
	for _, e := range all {
		if e.SeqNr < 0 {
			faults = append(faults, fmt.Errorf("%q: number %d was handed over with the wrong Rebuilding", e.ID, -e.SeqNr))
			continue
		}
		gap, back := e.SeqNr > highest[e.ID]+1, e.SeqNr < highest[e.ID]
		if w.guarantee == ofStates && back && w.before.Load() == nil || w.guarantee != ofStates && gap {
			faults = append(faults, fmt.Errorf("%q: number %d was handled after %d", e.ID, e.SeqNr, highest[e.ID]))
		}
		highest[e.ID] = max(highest[e.ID], e.SeqNr)
		e.Stamp = 0
		times[e]++
	}
	w.written, w.skipped, w.doubled = 0, 0, 0
	for id, last := range w.last {
		for n := annals.SeqNr(1); n <= last; n++ {
			w.written++
			switch t := times[Entry{ID: id, SeqNr: n}]; {
			case t == 0 && w.guarantee == ofStates && n < last:
			case t == 0:
				w.skipped++
			case t > 1 && w.guarantee != atLeastOnce && w.before.Load() == nil:
				w.doubled++
			}
		}
		if highest[id] > last {
			faults = append(faults, fmt.Errorf("%q: number %d was handled, the last is %d", id, highest[id], last))
		}
	}
	return faults
}
