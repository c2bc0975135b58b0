package pgstore

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
)

// notifyEvery is how far apart notifications are at least: what is written in between shares the next.
const notifyEvery = 100 * time.Millisecond

// channel is the name that writers notify and watchers listen on. Each set of tables has its own, as far as
// PostgreSQL's bound on names lets it: a shared one only means signals without cause.
func (s *backend) channel() string {
	name := "annals " + s.tables.Schema + " " + s.tables.Journal
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "")
}

// wrote tells watchers, here and in other processes, that something was committed.
func (s *backend) wrote() {
	s.listener.wake()
	select {
	case s.notifier.dirty <- struct{}{}:
	default: // a notification is due already
	}
}

// notifier sends NOTIFY after commits, in a statement of its own: inside a writing transaction it would take a lock of the
// whole database until the commit is flushed.
type notifier struct {
	dirty chan struct{} // room for one
	stop  context.CancelFunc
	ended sync.WaitGroup
}

func (n *notifier) start(s *backend) {
	n.dirty = make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.ended.Go(func() { n.run(ctx, s) })
}

// close sends what is due and ends.
func (n *notifier) close() {
	n.stop()
	n.ended.Wait()
}

func (n *notifier) run(ctx context.Context, s *backend) {
	for {
		select {
		case <-n.dirty:
			s.notify()
		case <-ctx.Done():
			select {
			case <-n.dirty:
				s.notify()
			default:
			}
			return
		}
		select {
		case <-time.After(notifyEvery):
		case <-ctx.Done():
		}
	}
}

// notify sends one NOTIFY over a connection for groups, which are never busy for long. It stores nothing, so it does not wait
// for a flush. Watchers poll as well: a lost notification costs time, no event.
func (s *backend) notify() {
	ctx, cancel := s.writeContext()
	defer cancel()
	_, _ = s.group.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, '')", pgx.QueryExecModeSimpleProtocol, s.channel())
}

// listener wakes the watches of this store, with one connection for all of them, held while there are any.
type listener struct {
	s       *backend
	mu      sync.Mutex
	watches map[chan struct{}]bool
	stop    context.CancelFunc // of the connection; nil when there is none
	ended   sync.WaitGroup
}

func (l *listener) start(s *backend) {
	l.s = s
	l.watches = map[chan struct{}]bool{}
}

// Watch implements annals.Watcher.
func (v *view) Watch(ctx context.Context, _ annals.Filter) (<-chan struct{}, error) {
	return v.s.listener.watch(ctx), nil
}

func (l *listener) watch(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches[ch] = true
	if l.stop == nil {
		listen, stop := context.WithCancel(context.Background())
		l.stop = stop
		l.ended.Go(func() { l.run(listen) })
	}
	context.AfterFunc(ctx, func() { l.end(ch) })
	return ch
}

// end closes one watch, and the connection with the last.
func (l *listener) end(ch chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.watches[ch] {
		return
	}
	delete(l.watches, ch)
	close(ch)
	if len(l.watches) == 0 && l.stop != nil {
		l.stop()
		l.stop = nil
	}
}

// wake signals every watch that has no signal waiting.
func (l *listener) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ch := range l.watches {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

func (l *listener) close() {
	l.mu.Lock()
	for ch := range l.watches {
		delete(l.watches, ch)
		close(ch)
	}
	if l.stop != nil {
		l.stop()
		l.stop = nil
	}
	l.mu.Unlock()
	l.ended.Wait()
}

// run listens until ctx ends, on a new connection whenever one is lost.
func (l *listener) run(ctx context.Context) {
	for n := 0; ; n++ {
		if l.listen(ctx) {
			n = 0
		}
		if backoff.Wait(ctx, n+3) != nil {
			return
		}
	}
}

// listen listens until the connection is lost. It returns false when there was none.
func (l *listener) listen(ctx context.Context) bool {
	conn, err := dial(ctx, l.s.config())
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+quote(l.s.channel())); err != nil {
		return false
	}
	for {
		l.wake() // at first for what was written while nobody listened
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return true
		}
	}
}
