package projection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/quote"
)

// ErrParked is in the error of Control.Await for an event that waits because its entity is parked.
var ErrParked = errors.New("the entity is parked")

// A Control that polls looks after firstPoll, and then each time when it has waited for an eighth longer, but at least every mostPoll. One whose
// Runner has the slice is told, and polls every heldPoll in case that the Runner did not get the answer to a write.
const (
	firstPoll = 10 * time.Millisecond
	mostPoll  = 250 * time.Millisecond
	heldPoll  = time.Second
)

// Await waits until the projection has handled the event n of the entity id, or a later one, so that its read model has their effect. source is
// the store of the events. With Source.States n is a revision. It does not matter in which process the runners are: a Control of
// Runner.Control is woken by that Runner for the ranges that it has, and others read the position again and again.
//
//   - An event that is not stored yet is waited for, and so is one that a Reset has taken back, and the order of a Retry or Discard.
//   - The event of a parked entity is ErrParked, which is an annals.ErrUnavailable. What Skip or Discard left out counts as handled.
//   - An event without Source.Tag is never handled. It counts as handled when the position has passed it; without other events that can take
//     15 seconds. An entity of another type than Source.Type is annals.ErrInvalid.
//   - With Source.States, the revisions before ParkedEntity.From count as handled, also one that was replaced before it was.
//   - In place of a number without an event, which was deleted or left unused, the next event of the entity counts, and nothing is waited for
//     without one.
//   - What becomes visible later than its store promises counts as handled until it is found (see Options.Audit).
//
// When ctx ends first the error is annals.ErrUnavailable, with that of ctx. A store that is unavailable for a while is asked again.
func (c *Control) Await(ctx context.Context, source annals.Store, id annals.PersistenceID, n annals.SeqNr) error {
	if err := c.complete("await"); err != nil {
		return err
	}
	if source == nil || n < 1 {
		return c.fault("await", annals.ErrInvalid, fmt.Errorf("the store of the events is missing, or the number is %d", n))
	}
	w := awaited{c: c, source: source, id: id, n: n}
	var woken <-chan struct{}
	if c.runner != nil {
		w.from = stream{source, c.runner.stream.source}
		var leave func()
		woken, leave = c.runner.waits.join(id)
		defer leave()
	}
	for began := time.Now(); ; {
		handled, err := w.look(ctx)
		if handled || err != nil && (errors.Is(err, ErrParked) || !annals.SafeToRetry(err) && !errors.Is(err, annals.ErrTruncated)) {
			return err
		}
		pause := min(max(firstPoll, time.Since(began)/8), mostPoll)
		if c.runner != nil && c.runner.waits.holds(id) {
			pause = heldPoll
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-woken:
		case <-ctx.Done():
		}
		next.Stop()
		if ended := ctx.Err(); ended != nil {
			return w.fault(annals.ErrUnavailable, errors.Join(ended, err))
		}
	}
}

// awaited is an event that Await waits for.
type awaited struct {
	c      *Control
	source annals.Store // of the events
	id     annals.PersistenceID
	n      annals.SeqNr

	from  stream // what the projection follows; without a store before that is known
	found bool
	at    annals.Offset // of event n, or the next one; the zero Offset when there is none
}

func (w *awaited) fault(kind, err error) error {
	return &annals.Error{Op: "await projection " + quote.Text(w.c.name), ID: w.id, Kind: kind, Err: fmt.Errorf("event %d: %w", w.n, err)}
}

// look reports whether the event has been handled.
func (w *awaited) look(ctx context.Context) (bool, error) {
	if !w.found {
		if err := w.find(ctx); err != nil || !w.found {
			return false, err
		}
	}
	if w.at == (annals.Offset{}) {
		return true, nil
	}
	handled, err := w.c.store.Offsets().Handled(ctx, w.c.name, w.id)
	if err != nil {
		return false, err
	}
	to := handled[0]
	if passed := w.at.SeqNr > w.n && to.ID == w.id && to.SeqNr >= w.n; !passed && !to.Covers(w.at) {
		return false, nil
	}
	// The entry of a parked entity is written before the position passes its event, and removed after the event was handled. So it is read
	// after the position.
	p, err := loadParked(ctx, w.c.store, w.c.name, w.id.Slice())
	if err != nil {
		return false, err
	}
	x, parked := p.entities[w.id]
	again := w.at.SeqNr < x.From && !x.offset().Covers(w.at) // the entity was forgotten and begins again
	switch {
	case !again && (!parked || w.n < x.From || x.LateTo > 0 && w.n > x.LateTo || !to.Covers(x.offset())):
		return true, nil
	case x.Retry:
		return false, nil
	}
	return false, w.fault(annals.ErrUnavailable, fmt.Errorf("%w from event %d on", ErrParked, x.From))
}

// find looks for the event. It is not found before it is stored, and before it is known what the projection follows.
func (w *awaited) find(ctx context.Context) error {
	if w.from.store == nil {
		r, err := w.c.read(ctx, "await")
		if err != nil || len(r.Ranges) == 0 {
			return err
		}
		w.from = stream{w.source, r.Source}
	}
	from := w.from
	if from.Type != "" && from.Type != w.id.Type() {
		return w.fault(annals.ErrInvalid, fmt.Errorf("the projection follows %v", from.source))
	}
	if !from.States {
		for e, err := range w.source.Journal().Replay(ctx, w.id, w.n, w.n) {
			w.found, w.at = err == nil, e.Offset()
			return err
		}
		last, err := w.source.Journal().LastSeqNr(ctx, w.id) // before the events, so that none below it is missed
		if err != nil || last < w.n {
			return err
		}
	}
	for e, err := range from.entity(ctx, w.id, w.n) {
		w.found, w.at = err == nil, e.Offset()
		return err
	}
	w.found = !from.States
	return nil
}

// waits are the calls of Await that a Runner wakes. The zero waits is ready for use.
type waits struct {
	mu   sync.Mutex
	of   map[annals.PersistenceID][]chan struct{} // each buffers one signal
	held map[annals.SliceRange]int                // the ranges that the Runner has, and how often
}

// join returns a channel with a signal after each step of the Runner that has handled an event of id, until leave.
func (w *waits) join(id annals.PersistenceID) (woken <-chan struct{}, leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	signal := make(chan struct{}, 1)
	if w.of == nil {
		w.of = map[annals.PersistenceID][]chan struct{}{}
	}
	w.of[id] = append(w.of[id], signal)
	return signal, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.of[id] = slices.DeleteFunc(w.of[id], func(c chan struct{}) bool { return c == signal }); len(w.of[id]) == 0 {
			delete(w.of, id)
		}
	}
}

// wake signals that events of id may have been handled.
func (w *waits) wake(id annals.PersistenceID) {
	for _, signal := range w.of[id] {
		select {
		case signal <- struct{}{}:
		default:
		}
	}
}

// stepped signals what s has handled, or left out.
func (w *waits) stepped(s step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.of) == 0 {
		return
	}
	for _, e := range s.events {
		w.wake(e.ID)
	}
	for _, o := range s.progress.Offsets {
		w.wake(o.ID)
	}
}

// begins signals what was handled in r before a worker of the Runner began.
func (w *waits) begins(r annals.SliceRange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.of {
		if r.Contains(id.Slice()) {
			w.wake(id)
		}
	}
}

// hold notes that the Runner has r once more, for 1, or once less, for -1.
func (w *waits) hold(r annals.SliceRange, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held == nil {
		w.held = map[annals.SliceRange]int{}
	}
	if w.held[r] += n; w.held[r] == 0 {
		delete(w.held, r)
	}
}

// holds reports whether the Runner has the slice of id.
func (w *waits) holds(id annals.PersistenceID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range w.held {
		if r.Contains(id.Slice()) {
			return true
		}
	}
	return false
}
