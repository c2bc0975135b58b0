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

// writer owns the one connection that writes. One at a time serves the queue: takes whatever waits and commits it as one
// transaction; each write is answered when COMMIT has returned. A write that finds nobody is served by its own caller, so
// that a lone writer waits for no other goroutine; what comes meanwhile gets a goroutine.
type writer struct {
	conn       *sql.Conn
	statements *statements
	files      files
	clock      clock
	checksums  *checksums // nil where none are written
	committed  func()     // called behind every COMMIT

	mu      sync.Mutex
	queue   []*write
	serving bool // somebody serves the queue
	closing bool
	wanted  int // signal gathered when so many wait

	// These belong to whoever serves.
	lastGroup  int // writes in the group just committed
	lastCommit time.Duration

	gathered chan struct{}
	stopped  chan struct{} // closed when closing and nobody serves any more

	commits, grouped atomic.Int64 // COMMITs of groups, and the writes in them
}

// write is one entry of the queue.
type write struct {
	// apply checks, then writes. An *annals.Error says that it refused before it wrote anything; any other error is
	// the driver's and undoes the whole group.
	apply func(ctx context.Context, t *transaction) error
	bytes int
	plain bool // it runs no code of the user, so it is over soon and its caller may do it

	alone bool // it was in a group that failed
	state atomic.Int32
	done  chan error // buffered

	granted, released chan struct{} // not nil where the caller wants the connection to itself; closed by writer and caller
}

const (
	waiting int32 = iota
	taken         // by the writer, or by its caller's end
)

func newWriter(conn *sql.Conn, f files, c clock, committed func()) *writer {
	return &writer{conn: conn, files: f, clock: c, committed: committed, gathered: make(chan struct{}, 1), stopped: make(chan struct{}),
		statements: &statements{conn: conn}}
}

// submit queues j and waits for its outcome. When ctx ends first, a write that still waits is withdrawn; one that is
// being written goes on. A plain one may be written by its caller, who then stays until it is.
func (w *writer) submit(ctx context.Context, j *write) error {
	if ctx.Err() != nil {
		return withdrawn(ctx)
	}
	j.done = make(chan error, 1)
	switch first := w.enqueue(j); {
	case first && j.plain:
		w.lead(ctx)
	case first:
		go w.serve()
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
	}
	if j.state.CompareAndSwap(waiting, taken) {
		return withdrawn(ctx)
	}
	select {
	case err := <-j.done:
		return err
	default:
		return &annals.Error{Kind: annals.ErrUnknown, Err: ctx.Err()}
	}
}

// exclusive waits until the connection is the caller's alone; release gives it back.
func (w *writer) exclusive(ctx context.Context) (release func(), err error) {
	j := &write{granted: make(chan struct{}), released: make(chan struct{})}
	if w.enqueue(j) {
		go w.serve()
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
	return nil, withdrawn(ctx)
}

// close waits until the queue is empty. It is called once, and nothing is added to the queue then.
func (w *writer) close() {
	w.mu.Lock()
	w.closing = true
	serving := w.serving
	w.mu.Unlock()
	if serving {
		<-w.stopped
	}
}

// enqueue reports whether j is the first: then it is for the caller to serve the queue.
func (w *writer) enqueue(j *write) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, j)
	if len(w.queue) == w.wanted {
		select {
		case w.gathered <- struct{}{}:
		default:
		}
	}
	first = !w.serving
	w.serving = true
	return first
}

// lead serves the caller's own write, and what has joined it.
func (w *writer) lead(ctx context.Context) {
	defer func() {
		if w.head() != nil || !w.rest() {
			go w.serve()
		}
	}()
	w.turn(ctx, true)
}

// serve works until nothing waits.
func (w *writer) serve() {
	for {
		switch head := w.head(); {
		case head == nil:
			if w.rest() {
				return
			}
		case head.granted != nil:
			w.grant()
		default:
			w.turn(context.Background(), false)
		}
	}
}

// rest ends the serving, unless something waits.
func (w *writer) rest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) > 0 {
		return false
	}
	w.serving = false
	if w.closing {
		close(w.stopped)
	}
	return true
}

// head is the first write that still waits; it drops those withdrawn before it.
func (w *writer) head() *write {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.queue) > 0 {
		if w.queue[0].state.Load() == waiting {
			return w.queue[0]
		}
		w.pop()
	}
	return nil
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

// turn commits one group. Writes are taken when the transaction has begun: until then they can be withdrawn. It waits for
// another process's lock until wait ends; what is taken is written whatever becomes of the callers. A caller's turn takes
// plain writes only.
func (w *writer) turn(wait context.Context, plain bool) {
	ctx := context.Background()
	begun, err := w.begin(func() bool { return wait.Err() == nil && w.head() != nil })
	g := group{plain: plain, expected: w.lastGroup, patience: w.lastCommit / 2}
	if err != nil {
		w.take(&g)
		for _, j := range g.writes {
			j.done <- err
		}
	}
	if !begun {
		return
	}
	t := &transaction{statements: w.statements, clock: &w.clock, checksums: w.checksums}
	for w.take(&g) || w.gather(&g) {
		for _, j := range g.writes[len(g.answers):] {
			answer := j.apply(ctx, t)
			g.answers = append(g.answers, answer)
			if !refused(answer) {
				w.rollback()
				w.undone(g.writes, answer, false)
				return
			}
		}
	}
	if len(g.writes) == 0 {
		w.rollback()
		return
	}
	syncing := time.Now()
	if _, err := w.statements.exec(ctx, `COMMIT`); err != nil {
		w.rollback()
		w.undone(g.writes, err, uncertain(err))
		return
	}
	w.lastGroup, w.lastCommit = len(g.writes), time.Since(syncing)
	if err := w.files.check(); err != nil {
		for _, j := range g.writes {
			j.done <- err
		}
		return
	}
	w.commits.Add(1)
	w.grouped.Add(int64(len(g.writes)))
	w.committed()
	for i, j := range g.writes {
		j.done <- g.answers[i]
	}
}

// group is the writes of one transaction.
type group struct {
	writes   []*write
	answers  []error // of those that were applied
	bytes    int
	full     bool
	plain    bool          // takes plain writes only
	expected int           // writes in the group before
	patience time.Duration // how long to wait for as many
}

// gather lets those who were answered with the group before come back with their next write, or groups would halve: one
// fsync for the first to come, one for all others. It waits for as many as there were, and at most half as long as their
// COMMIT took. Where one was alone it does not wait.
func (w *writer) gather(g *group) bool {
	if len(g.writes) == 0 || len(g.writes) >= g.expected || g.full || g.patience <= 0 {
		return false
	}
	w.mu.Lock()
	w.wanted = g.expected - len(g.writes)
	complete := len(w.queue) >= w.wanted
	select {
	case <-w.gathered: // left over from the last time
	default:
	}
	w.mu.Unlock()
	patience := time.NewTimer(g.patience)
	defer patience.Stop()
	g.patience = 0
	if !complete {
		select {
		case <-w.gathered:
		case <-patience.C:
		}
	}
	return w.take(g)
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

// take moves from the queue into g what goes into one group, and reports whether that was anything.
func (w *writer) take(g *group) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(g.writes)
	for len(w.queue) > 0 && !g.full {
		j := w.queue[0]
		if j.granted != nil || g.plain && !j.plain || len(g.writes) > 0 && (j.alone || g.bytes+j.bytes > maxGroupBytes) {
			g.full = true
			break
		}
		w.pop()
		if !j.state.CompareAndSwap(waiting, taken) {
			continue
		}
		g.writes, g.bytes = append(g.writes, j), g.bytes+j.bytes
		g.full = j.alone || len(g.writes) == maxGroupWrites
	}
	return len(g.writes) > before
}

// begin takes the file's write lock. While another process holds it, it tries again for as long as wanted says so;
// false without an error when that ended.
func (w *writer) begin(wanted func() bool) (bool, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := w.statements.exec(context.Background(), `BEGIN IMMEDIATE`)
		if err != nil && !busy(err) {
			w.rollback() // in case an earlier ROLLBACK failed
			_, err = w.statements.exec(context.Background(), `BEGIN IMMEDIATE`)
		}
		switch {
		case err == nil:
			return true, nil
		case !busy(err):
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
