package pgstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/watchers"
)

// notifyEvery is the least time between two notifications. All commits in between share the next one.
const notifyEvery = 100 * time.Millisecond

// pollEvery is how long watchers behind a pooler wait for writes of other processes.
const pollEvery = time.Second

// channel is the name that writers notify and watchers listen on. Each set of tables has its own. Names beyond PostgreSQL's limit are
// cut and may then be the same, which causes needless signals and nothing else.
func (s *backend) channel() string {
	name := "annals " + s.tables.Schema + " " + s.tables.Journal
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "")
}

// wrote tells watchers, here and in other processes, that something was committed.
func (s *backend) wrote(written watchers.Signal) {
	s.watchers.Wake(written)
	s.notifier.written.Or(uint64(written))
	select {
	case s.notifier.dirty <- struct{}{}:
	default: // a notification will be sent anyway
	}
}

// notifier sends NOTIFY after commits, in a statement of its own: inside a writing transaction NOTIFY would lock the whole database
// until the commit is flushed.
type notifier struct {
	name    string        // of the store, in its notifications
	written atomic.Uint64 // the Signal of the commits to notify of
	dirty   chan struct{} // has a value when there are some; of capacity 1
	stop    context.CancelFunc
	ended   sync.WaitGroup
}

func (n *notifier) start(s *backend) {
	n.name, n.dirty = rand.Text(), make(chan struct{}, 1)
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	n.ended.Go(func() { n.run(ctx, s) })
}

// close sends a notification if there are commits to notify of, and ends.
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

// payload is that of the next notification: the slices, and who has written.
func (n *notifier) payload() string { return fmt.Sprintf("%016x %s", n.written.Swap(0), n.name) }

// heard is the Signal of a notification. Watchers have the signals of their own store already. Another release may send something else.
func (n *notifier) heard(payload string) watchers.Signal {
	text, name, _ := strings.Cut(payload, " ")
	written, err := strconv.ParseUint(text, 16, 64)
	switch {
	case err != nil:
		return watchers.Everywhere
	case name == n.name:
		return 0
	}
	return watchers.Signal(written)
}

// notify sends one NOTIFY over a connection for groups, which are never busy for long. It stores nothing, so it does not wait
// for a flush. Watchers also poll, so a lost notification delays them and loses nothing.
func (s *backend) notify() {
	ctx, cancel := s.writeContext()
	defer cancel()
	_, _ = s.group.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, $2)", pgx.QueryExecModeSimpleProtocol, s.channel(), s.notifier.payload())
}

// Watch implements ability.Watcher.
func (v *view) Watch(ctx context.Context, f annals.Filter) (<-chan struct{}, error) {
	return v.s.watchers.Watch(ctx, f.Slices), nil
}

// listenForWrites wakes the watches for writes of other processes until ctx ends. It has one connection for all watches, and makes a new
// one whenever the connection is lost.
func (s *backend) listenForWrites(ctx context.Context) {
	for s.pooled { // no session to listen in
		select {
		case <-time.After(pollEvery):
			s.watchers.Wake(watchers.Everywhere)
		case <-ctx.Done():
			return
		}
	}
	for n := 0; ; n++ {
		if s.listen(ctx) {
			n = 0
		}
		if backoff.Wait(ctx, n+3) != nil {
			return
		}
	}
}

// listen listens until the connection is lost. It returns false when there was none.
func (s *backend) listen(ctx context.Context) bool {
	conn, err := dial(ctx, s.config())
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN "+quote(s.channel())); err != nil {
		return false
	}
	for written := watchers.Everywhere; ; { // first for what was written before LISTEN
		s.watchers.Wake(written)
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		written = s.notifier.heard(n.Payload)
	}
}
