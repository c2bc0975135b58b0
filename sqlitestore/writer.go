package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/watchers"
)

// A group is bounded so that its first write does not wait for long, and the log does not grow by much at once.
const (
	maxGroupWrites = 512
	maxGroupBytes  = 8 << 20
	// maxMembers is how long transactions begin in a group.
	maxMembers = 10 * time.Millisecond
)

// writer owns the connection that writes. Who has the turn uses it alone: takes the writes that wait, executes them in one transaction, and
// answers them when COMMIT has returned. For each write that waits, a goroutine waits for the turn: its caller, so that a single writer waits
// for no other goroutine, or where the write runs code of the user the server, which lasts as long as such writes wait.
type writer struct {
	statements *statements
	files      files
	clock      clock
	checksums  *checksums                  // nil where none are written
	committed  func(dated watchers.Signal) // called after each COMMIT

	begins time.Duration // maxMembers; tests set it

	turn chan struct{} // has a value while somebody has the turn

	mu       sync.Mutex
	queue    []*write
	left     int           // writes that were withdrawn since those in the queue were removed
	wanted   int           // length of the queue at which enqueue signals gathered
	gathered chan struct{} // of capacity 1
	served   int           // callers of submit that the server serves
	server   *server       // while there are some

	// Only who has the turn uses these.
	lastGroup  int // writes in the group just committed
	lastCommit time.Duration
	checked    time.Time // when the files were found to be there

	commits, grouped atomic.Int64 // COMMITs of groups, and the writes in them
}

// write is one entry of the queue.
type write struct {
	// apply checks the write, then executes it. An *annals.Error means that nothing was written. Any other error is one of the driver,
	// and the whole group is rolled back.
	apply func(ctx context.Context, t *transaction) error
	bytes int
	plain bool // it runs no code of the user, so the caller of another write may execute it
	// single: it changes something with one statement, which SQLite undoes when it breaks a rule.
	single bool
	// member is set for a transaction with a function of the user, which the caller of submit runs. A group comes to it at the end.
	member *member

	taken atomic.Bool // into a group, or withdrawn by its caller
	done  chan error  // buffered
}

func newWriter(conn *sql.Conn, f files, c clock, committed func(watchers.Signal)) *writer {
	return &writer{files: f, clock: c, committed: committed, gathered: make(chan struct{}, 1), turn: make(chan struct{}, 1), begins: maxMembers,
		statements: &statements{conn: conn}}
}

// renew replaces the statements after they have been ended.
func (w *writer) renew() { w.statements = &statements{conn: w.statements.conn} }

// submit adds j to the queue and waits until it has been executed. When ctx ends first, a write that still waits is withdrawn, and one
// that is being executed continues. A caller that has the turn stays until the group has been executed.
func (w *writer) submit(ctx context.Context, j *write) error {
	if ctx.Err() != nil {
		return withdrawn(ctx)
	}
	j.done = make(chan error, 1)
	w.enqueue(j)
	turn, begun := w.turn, j.member.begins()
	if !j.plain {
		turn = nil
		w.serve()
		defer w.unserve()
	}
	for {
		select {
		case err := <-j.done:
			return err
		case turn <- struct{}{}:
			w.execute(ctx, true)
			<-w.turn
			continue
		case within := <-begun:
			if err := j.member.run(within); err != nil && ctx.Err() != nil {
				return err
			}
			begun = nil
			continue
		case <-ctx.Done():
		}
		if w.withdraw(j) || begun != nil {
			return withdrawn(ctx)
		}
		select {
		case err := <-j.done:
			return err
		default:
			return &annals.Error{Kind: annals.ErrUnknown, Err: ctx.Err()}
		}
	}
}

// server executes groups for callers whose writes run code of the user. One goroutine does it for all of them, because a new one has to make its
// stack larger several times.
type server struct {
	queued chan struct{} // holds one: such a write was queued
	stop   context.CancelFunc
}

// serve has the server execute a write that is in the queue, until the caller calls unserve.
func (w *writer) serve() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.served++; w.served == 1 {
		ctx, stop := context.WithCancel(context.Background())
		w.server = &server{queued: make(chan struct{}, 1), stop: stop}
		go w.run(ctx, w.server.queued)
	}
	select {
	case w.server.queued <- struct{}{}:
	default:
	}
}

func (w *writer) unserve() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.served--; w.served == 0 {
		w.server.stop()
	}
}

// run executes what is queued, until ctx ends.
func (w *writer) run(ctx context.Context, queued <-chan struct{}) {
	for {
		select {
		case <-queued:
		case <-ctx.Done():
			return
		}
		for w.anyWaits(false) {
			release, err := w.exclusive(ctx)
			if err != nil {
				return
			}
			w.execute(ctx, false)
			release()
		}
	}
}

// exclusive waits until the caller has the turn, until it calls release.
func (w *writer) exclusive(ctx context.Context) (release func(), err error) {
	select {
	case w.turn <- struct{}{}:
		return func() { <-w.turn }, nil
	case <-ctx.Done():
		return nil, withdrawn(ctx)
	}
}

// close waits for the turn and keeps it. It is called once, and nothing is added to the queue then.
func (w *writer) close() { w.turn <- struct{}{} }

func (w *writer) enqueue(j *write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queue = append(w.queue, j)
	if len(w.queue) == w.wanted {
		select {
		case w.gathered <- struct{}{}:
		default:
		}
	}
}

// withdraw takes j out of the queue, and reports whether it could: false means that j is being executed. When more than half of the queue may have been
// withdrawn, withdraw removes these writes. Otherwise they would stay in memory as long as another process has the write lock, or a function of the
// user has a transaction.
func (w *writer) withdraw(j *write) bool {
	if !j.taken.CompareAndSwap(false, true) {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left++; 2*w.left > len(w.queue) {
		w.clean()
	}
	return true
}

// clean removes the writes that were taken or withdrawn. w.mu is held.
func (w *writer) clean() {
	w.queue, w.left = slices.DeleteFunc(w.queue, func(j *write) bool { return j.taken.Load() }), 0
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
	members  []*write      // that waited when the first of them began
	until    time.Time     // no more of them begin; zero: none has begun
}

// execute executes one group. It takes the writes when the transaction has begun; until then they can be withdrawn. While another process
// has the write lock, it waits until ctx ends. plain is true in the goroutine of a caller, which takes plain writes only.
func (w *writer) execute(ctx context.Context, plain bool) {
	if !w.anyWaits(plain) {
		return
	}
	w.yield()
	g := group{plain: plain, expected: w.lastGroup, patience: w.lastCommit / 2}
	err := w.begin(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return // the others wait for the turn
	case err != nil:
		for w.take(&g) || w.takeMember(&g) {
			continue
		}
	default:
		err = w.apply(&g)
	}
	switch {
	case err == nil:
	case refused(err), len(g.writes) == 1 && !busy(err):
		g.fail(err)
	default: // one of them may be the cause
		for _, j := range g.writes {
			w.retry(j, err)
		}
	}
}

// retry executes a write of a group that was rolled back because of cause in a transaction of its own. A function of the user runs once.
func (w *writer) retry(j *write, cause error) {
	for {
		if j.member.ran() {
			j.done <- &annals.Error{Kind: annals.ErrUnavailable, Err: cause}
			return
		}
		alone := group{writes: []*write{j}, full: true, plain: true}
		err := w.begin(context.Background())
		if err == nil {
			err = w.apply(&alone)
		}
		if !busy(err) {
			alone.fail(err)
			return
		}
		cause = err
	}
}

// fail answers all writes of g with err, unless it is nil.
func (g *group) fail(err error) {
	for _, j := range g.writes {
		if err != nil {
			j.done <- err
		}
	}
}

// apply executes the writes of g, and those that it takes, commits and answers them. When it returns an error nobody has an answer, and the
// transaction was rolled back, or is ErrUnknown because the COMMIT may be on the disk.
func (w *writer) apply(g *group) error {
	ctx := context.Background()
	t := &transaction{statements: w.statements, clock: &w.clock, checksums: w.checksums}
	for len(g.answers) < len(g.writes) || w.take(g) || w.gather(g) || w.takeMember(g) {
		for _, j := range g.writes[len(g.answers):] {
			answer := j.apply(ctx, t)
			g.answers = append(g.answers, answer)
			if !refused(answer) {
				w.rollback()
				return answer
			}
		}
	}
	if len(g.writes) == 0 {
		w.rollback()
		return nil
	}
	syncing := time.Now()
	if err := w.statements.exec(ctx, `COMMIT`); err != nil {
		w.rollback()
		if uncertain(err) {
			return &annals.Error{Kind: annals.ErrUnknown, Err: err}
		}
		return err
	}
	w.lastGroup, w.lastCommit = len(g.writes), time.Since(syncing)
	if err := w.settle(t); err != nil {
		return err
	}
	w.commits.Add(1)
	w.grouped.Add(int64(len(g.writes)))
	for i, j := range g.writes {
		j.done <- g.answers[i]
	}
	return nil
}

// settle is called after the COMMIT of t. It is ErrUnknown when a file is missing: the write is found again where the file comes back.
func (w *writer) settle(t *transaction) error {
	if t.dated {
		w.clock.settle(t.statements)
	}
	if err := w.check(annals.ErrUnknown); err != nil {
		return err
	}
	w.committed(t.signal)
	return nil
}

// check is an error of a kind when the files are not there any more.
func (w *writer) check(kind error) error {
	w.checked = time.Time{}
	err := w.files.missing(kind)
	if err == nil {
		w.checked = time.Now()
	}
	return err
}

// gather waits for the callers of the group before, which often write again at once. Without it, the first of them would make a group of
// its own, and all others would wait for that fsync and the next. It waits for as many writes as the group before had, and at most half
// as long as its COMMIT took. After a group of one write it does not wait.
func (w *writer) gather(g *group) bool {
	if len(g.writes) >= g.expected || g.full || g.patience <= 0 {
		return false
	}
	w.mu.Lock()
	w.wanted = g.expected - len(g.writes)
	complete := len(w.queue) >= w.wanted || len(g.writes)+len(w.queue) == 0
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

// yield lets the goroutines run that are ready, as long as some of them write: after a group its callers often read and write again. On a disk whose
// COMMIT is short gather does not wait long enough for them. A writer that was alone in the group before does not yield. No other process
// waits meanwhile, because the file is not locked yet.
func (w *writer) yield() {
	if w.lastGroup <= 1 {
		return
	}
	for before := -1; ; {
		w.mu.Lock()
		n := len(w.queue)
		w.mu.Unlock()
		if n <= before || n >= maxGroupWrites {
			return
		}
		before = n
		runtime.Gosched()
	}
}

// refused reports whether err, a result of apply, means that the transaction is as it was before. It is true for nil.
func refused(err error) bool {
	e := (*annals.Error)(nil)
	return err == nil || errors.As(err, &e)
}

// anyWaits reports whether there is a write that execute can take.
func (w *writer) anyWaits(plain bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clean()
	return slices.ContainsFunc(w.queue, func(j *write) bool { return j.plain || !plain })
}

// take moves writes from the queue into g as long as g has space, and reports whether it moved any.
func (w *writer) take(g *group) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(g.writes)
	w.queue = slices.DeleteFunc(w.queue, func(j *write) bool {
		g.full = g.full || len(g.writes) > 0 && g.bytes+j.bytes > maxGroupBytes
		if g.full || g.plain && !j.plain || j.member != nil {
			return false
		}
		if j.taken.CompareAndSwap(false, true) {
			g.writes, g.bytes = append(g.writes, j), g.bytes+j.bytes
			g.full = len(g.writes) == maxGroupWrites
		}
		return true
	})
	return len(g.writes) > before
}

// takeMember takes one of the transactions that waited when it was called for g for the first time, and reports whether there is one. From then on g
// takes nothing else: a function of the user may wait for another transaction that has begun, and that has no answer before the COMMIT.
func (w *writer) takeMember(g *group) bool {
	if g.until.IsZero() && !g.plain {
		w.mu.Lock()
		for _, j := range w.queue {
			if j.member != nil {
				g.members = append(g.members, j)
			}
		}
		w.mu.Unlock()
		g.full, g.until = true, time.Now().Add(w.begins)
	}
	for len(g.members) > 0 && time.Now().Before(g.until) {
		j := g.members[0]
		g.members = g.members[1:]
		if j.taken.CompareAndSwap(false, true) {
			g.writes = append(g.writes, j)
			return true
		}
	}
	return false
}

// checkEvery is how long the files are taken to be there after they were checked: in a series of groups the check after one COMMIT counts
// for the next transaction, too.
const checkEvery = 10 * time.Millisecond

// begin waits for the write lock of the file until ctx ends. It is ErrCorrupt when the files are not there any more.
func (w *writer) begin(ctx context.Context) error {
	err := patiently(ctx, func() error {
		err := w.statements.exec(context.Background(), `BEGIN IMMEDIATE`)
		if err != nil && !busy(err) {
			w.rollback() // in case an earlier ROLLBACK failed
			err = w.statements.exec(context.Background(), `BEGIN IMMEDIATE`)
		}
		return err
	})
	if err == nil && time.Since(w.checked) > checkEvery {
		if err = w.check(annals.ErrCorrupt); err != nil {
			w.rollback()
		}
	}
	return err
}

func (w *writer) rollback() { _ = w.statements.exec(context.Background(), `ROLLBACK`) }

// Pauses between two tries for the write lock while another process has it. They are short, because the other process releases the lock
// only for a moment between two of its groups.
const (
	firstPause = 100 * time.Microsecond
	lastPause  = 2 * time.Millisecond
)

// patiently repeats fn while another process holds the lock, until ctx ends.
func patiently(ctx context.Context, fn func() error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := fn()
		if !busy(err) {
			return err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
