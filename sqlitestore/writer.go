package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
)

// A group is bounded so that the first of it does not wait for ever, and the log does not grow by leaps.
const (
	maxGroupWrites = 512
	maxGroupBytes  = 8 << 20
)

// writer owns the one connection that writes. Its goroutine takes whatever waits in the queue and commits it as one
// transaction; each write is answered when COMMIT has returned.
type writer struct {
	conn       *sql.Conn
	statements *statements
	clock      clock
	committed  func() // called behind every COMMIT

	mu      sync.Mutex
	queue   []*write
	closing bool
	wanted  int // signal gathered when so many wait

	lastGroup  int // writes in the group just committed
	lastCommit time.Duration

	wake     chan struct{} // the queue is no longer empty, or closing
	gathered chan struct{}
	stopped  chan struct{}

	commits, grouped atomic.Int64 // COMMITs of groups, and the writes in them
}

// write is one entry of the queue.
type write struct {
	// apply checks, then writes. An *annals.Error says that it refused before it wrote anything; any other error is
	// the driver's and undoes the whole group.
	apply func(ctx context.Context, t *transaction) error
	bytes int

	alone bool // it was in a group that failed
	state atomic.Int32
	done  chan error // buffered

	granted, released chan struct{} // not nil where the caller wants the connection to itself; closed by writer and caller
}

const (
	waiting int32 = iota
	taken         // by the writer, or by its caller's end
)

func newWriter(conn *sql.Conn, c clock, committed func()) *writer {
	w := &writer{conn: conn, clock: c, committed: committed, wake: make(chan struct{}, 1), gathered: make(chan struct{}, 1), stopped: make(chan struct{}),
		statements: &statements{prepare: conn.PrepareContext}}
	go w.run()
	return w
}

// submit queues j and waits for its outcome. When ctx ends first, a write that still waits is withdrawn; one that is
// being written goes on.
func (w *writer) submit(ctx context.Context, c annals.Call, j *write) error {
	j.done = make(chan error, 1)
	if err := w.enqueue(ctx, c, j); err != nil {
		return err
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
	}
	if j.state.CompareAndSwap(waiting, taken) {
		return withdrawn(ctx, c.Op, c.ID)
	}
	select {
	case err := <-j.done:
		return err
	default:
		return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrUnknown, Err: ctx.Err()}
	}
}

// exclusive waits until the connection is the caller's alone; release gives it back.
func (w *writer) exclusive(ctx context.Context, c annals.Call) (release func(), err error) {
	j := &write{granted: make(chan struct{}), released: make(chan struct{})}
	if err := w.enqueue(ctx, c, j); err != nil {
		return nil, err
	}
	release = func() { close(j.released) }
	select {
	case <-j.granted:
		return release, nil
	case <-ctx.Done():
	}
	if !j.state.CompareAndSwap(waiting, taken) {
		<-j.granted
		release()
	}
	return nil, withdrawn(ctx, c.Op, c.ID)
}

// close lets the queue run empty and ends the goroutine.
func (w *writer) close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	signal(w.wake)
	<-w.stopped
}

func (w *writer) enqueue(ctx context.Context, c annals.Call, j *write) error {
	if ctx.Err() != nil {
		return withdrawn(ctx, c.Op, c.ID)
	}
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		return &annals.Error{Op: c.Op, ID: c.ID, Kind: annals.ErrClosed}
	}
	w.queue = append(w.queue, j)
	first, gathered := len(w.queue) == 1, len(w.queue) == w.wanted
	w.mu.Unlock()
	if first {
		signal(w.wake)
	}
	if gathered {
		signal(w.gathered)
	}
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *writer) run() {
	defer close(w.stopped)
	for {
		w.gather()
		head, closing := w.head()
		switch {
		case head == nil && closing:
			return
		case head == nil:
			<-w.wake
		case head.granted != nil:
			w.grant()
		default:
			w.turn()
		}
	}
}

// gather lets those who have just been answered come back with their next write, or groups would halve: one fsync for
// the first to come, one for all others. It waits for as many as there were, and at most half as long as their COMMIT
// took. Where one was alone it does not wait.
func (w *writer) gather() {
	if w.lastGroup < 2 {
		return
	}
	w.mu.Lock()
	w.wanted = w.lastGroup
	w.lastGroup = 0
	complete := len(w.queue) >= w.wanted
	select {
	case <-w.gathered: // left over from the last time
	default:
	}
	w.mu.Unlock()
	if complete {
		return
	}
	patience := time.NewTimer(w.lastCommit / 2)
	defer patience.Stop()
	select {
	case <-w.gathered:
	case <-patience.C:
	}
}

// head is the first write that still waits; it drops those withdrawn before it.
func (w *writer) head() (head *write, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		if w.queue[0].state.Load() == waiting {
			return w.queue[0], w.closing
		}
		w.pop()
	}
	return nil, w.closing
}

func (w *writer) pop() *write {
	j := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	return j
}

// grant hands the connection to the caller at the head of the queue until it gives it back.
func (w *writer) grant() {
	w.mu.Lock()
	j := w.pop()
	w.mu.Unlock()
	if j.state.CompareAndSwap(waiting, taken) {
		close(j.granted)
		<-j.released
	}
}

// turn commits one group. The writes are taken when the transaction has begun: until then they can be withdrawn.
func (w *writer) turn() {
	ctx := context.Background()
	begun, err := w.begin(func() bool { head, _ := w.head(); return head != nil })
	if err != nil {
		for _, j := range w.take() {
			j.done <- err
		}
	}
	if !begun {
		return
	}
	group := w.take()
	if len(group) == 0 {
		w.rollback()
		return
	}
	t := &transaction{statements: w.statements, clock: &w.clock}
	answers := make([]error, len(group))
	for i, j := range group {
		answers[i] = j.apply(ctx, t)
		if !refused(answers[i]) {
			w.rollback()
			w.undone(group, answers[i], false)
			return
		}
	}
	syncing := time.Now()
	if _, err := w.statements.exec(ctx, `COMMIT`); err != nil {
		w.rollback()
		w.undone(group, err, uncertain(err))
		return
	}
	w.lastGroup, w.lastCommit = len(group), time.Since(syncing)
	w.commits.Add(1)
	w.grouped.Add(int64(len(group)))
	w.committed()
	for i, j := range group {
		j.done <- answers[i]
	}
}

// refused reports whether err, from apply, leaves the transaction as it was before.
func refused(err error) bool {
	if err == nil {
		return true
	}
	e := (*annals.Error)(nil)
	return errors.As(err, &e)
}

// undone answers a group that was rolled back because of err. When the fault may be one member's, they all go again,
// each alone.
func (w *writer) undone(group []*write, err error, uncertain bool) {
	if uncertain {
		err = &annals.Error{Kind: annals.ErrUnknown, Err: err}
	}
	if len(group) == 1 && !busy(err) || uncertain {
		for _, j := range group {
			j.done <- err
		}
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	again := make([]*write, 0, len(group)+len(w.queue))
	for _, j := range group {
		j.alone = true
		j.state.Store(waiting)
		again = append(again, j)
	}
	w.queue = append(again, w.queue...)
}

// take removes from the queue what goes into one group.
func (w *writer) take() (group []*write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	bytes := 0
	for len(w.queue) > 0 && len(group) < maxGroupWrites {
		j := w.queue[0]
		if j.granted != nil || len(group) > 0 && (j.alone || bytes+j.bytes > maxGroupBytes) {
			break
		}
		w.pop()
		if !j.state.CompareAndSwap(waiting, taken) {
			continue
		}
		bytes += j.bytes
		group = append(group, j)
		if j.alone {
			break
		}
	}
	return group
}

// begin takes the file's write lock. While another process holds it, it tries again for as long as wanted says so;
// false without an error when that ended.
func (w *writer) begin(wanted func() bool) (bool, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := w.statements.exec(context.Background(), `BEGIN IMMEDIATE`)
		switch {
		case err == nil:
			return true, nil
		case !busy(err):
			w.rollback() // in case an earlier ROLLBACK failed
			return false, err
		}
		<-time.After(jitter(pause))
		if !wanted() {
			return false, nil
		}
	}
}

func (w *writer) rollback() { _, _ = w.statements.exec(context.Background(), `ROLLBACK`) }

// Pauses between two tries for a lock that another process holds. They stay short: the other one gives the lock up
// for a moment only, between two of its groups.
const (
	firstPause = 100 * time.Microsecond
	lastPause  = 2 * time.Millisecond
)

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
