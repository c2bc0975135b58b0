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

// A group is bounded so that its first write does not wait for long, and the log does not grow by much at once.
const (
	maxGroupWrites = 512
	maxGroupBytes  = 8 << 20
)

// writer owns the connection that writes. One goroutine at a time serves the queue: it takes the writes that wait, executes them in one
// transaction, and answers them when COMMIT has returned. A write that finds the queue unserved is served by its own caller, so that a
// single writer does not wait for another goroutine. Writes that arrive meanwhile are served by a new goroutine.
type writer struct {
	conn       *sql.Conn
	statements *statements
	files      files
	clock      clock
	checksums  *checksums // nil where none are written
	committed  func()     // called after each COMMIT

	mu      sync.Mutex
	queue   []*write
	serving bool // a goroutine serves the queue
	closing bool
	wanted  int // length of the queue at which enqueue signals gathered

	// Only the goroutine that serves the queue uses these.
	lastGroup  int // writes in the group just committed
	lastCommit time.Duration

	gathered chan struct{}
	stopped  chan struct{} // closed when the queue is no longer served after close

	commits, grouped atomic.Int64 // COMMITs of groups, and the writes in them
}

// write is one entry of the queue.
type write struct {
	// apply checks the write, then executes it. An *annals.Error means that nothing was written. Any other error is one of the driver,
	// and the whole group is rolled back.
	apply func(ctx context.Context, t *transaction) error
	bytes int
	plain bool // it runs no code of the user, so its caller may serve it

	alone bool // it was in a group that failed, and is now executed in a transaction of its own
	state atomic.Int32
	done  chan error // buffered

	granted, released chan struct{} // not nil when the caller wants to use the connection alone; closed by the writer and by the caller
}

const (
	waiting int32 = iota
	taken         // by the writer, or withdrawn by its caller
)

func newWriter(conn *sql.Conn, f files, c clock, committed func()) *writer {
	return &writer{conn: conn, files: f, clock: c, committed: committed, gathered: make(chan struct{}, 1), stopped: make(chan struct{}),
		statements: &statements{conn: conn}}
}

// submit adds j to the queue and waits until it has been executed. When ctx ends first, a write that still waits is withdrawn, and one
// that is being executed continues. A caller that serves its own write stays until it has been executed.
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

// exclusive waits until the caller may use the connection alone, until it calls release.
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

// enqueue adds j to the queue, and reports whether the caller has to serve the queue.
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

// lead serves one group, with the caller's own write in it. If writes are left in the queue, a new goroutine serves them.
func (w *writer) lead(ctx context.Context) {
	defer func() {
		if w.head() != nil || !w.rest() {
			go w.serve()
		}
	}()
	w.turn(ctx, true)
}

// serve serves the queue until it is empty.
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

// rest stops serving, unless there are writes in the queue. It reports whether it did.
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

// head is the first write that still waits. It removes withdrawn writes before it.
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

// grant lets the caller at the head of the queue use the connection until it calls release.
func (w *writer) grant() {
	w.mu.Lock()
	j := w.pop()
	w.mu.Unlock()
	if j.state.CompareAndSwap(waiting, taken) {
		close(j.granted)
		<-j.released
	}
}

// turn executes one group. It takes the writes when the transaction has begun; until then they can be withdrawn. While another process
// has the write lock, turn waits until the context wait ends. plain is true in the goroutine of a caller, which takes plain writes only.
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
	if err := w.files.checkCommitted(); err != nil {
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
	patience time.Duration // how long to wait for this number
}

// gather waits for the callers of the group before, which often write again at once. Without it, the first of them would make a group of
// its own, and all others would wait for that fsync and the next. It waits for as many writes as the group before had, and at most half
// as long as its COMMIT took. After a group of one write it does not wait.
func (w *writer) gather(g *group) bool {
	if len(g.writes) == 0 || len(g.writes) >= g.expected || g.full || g.patience <= 0 {
		return false
	}
	w.mu.Lock()
	w.wanted = g.expected - len(g.writes)
	complete := len(w.queue) >= w.wanted
	select {
	case <-w.gathered: // a signal of an earlier call
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

// refused reports whether err, a result of apply, means that the transaction is as it was before. It is true for nil.
func refused(err error) bool {
	if err == nil {
		return true
	}
	e := (*annals.Error)(nil)
	return errors.As(err, &e)
}

// undone handles a group that was rolled back because of err. A group of several writes goes back to the queue, and each is executed in
// a transaction of its own, because one of them may be the cause. When the outcome of the COMMIT is uncertain, all get ErrUnknown.
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

// take moves writes from the queue into g as long as g has space, and reports whether it moved any.
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

// begin takes the write lock of the file. While another process has it, begin tries again, as long as wanted returns true. It returns
// false without an error when wanted returned false, and ErrCorrupt when the files are not there any more.
func (w *writer) begin(wanted func() bool) (bool, error) {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		_, err := w.statements.exec(context.Background(), `BEGIN IMMEDIATE`)
		if err != nil && !busy(err) {
			w.rollback() // in case an earlier ROLLBACK failed
			_, err = w.statements.exec(context.Background(), `BEGIN IMMEDIATE`)
		}
		switch {
		case err == nil:
			if err := w.files.check(); err != nil {
				w.rollback()
				return false, err
			}
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

// Pauses between two tries for the write lock while another process has it. They are short, because the other process releases the lock
// only for a moment between two of its groups.
const (
	firstPause = 100 * time.Microsecond
	lastPause  = 2 * time.Millisecond
)

func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }
