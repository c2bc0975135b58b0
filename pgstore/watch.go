package pgstore

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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

const (
	pollEvery = time.Second      // how long watches wait for writes of other processes where the store does not listen
	listenFor = 10 * time.Second // how often a store that listens asks whether the server has connections left
	longest   = time.Minute      // pause before the store tries to listen again
)

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
	n.name, n.dirty = cryptorand.Text(), make(chan struct{}, 1)
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

// notify sends one NOTIFY over a connection for groups, which are never busy for long; in a pool of one it waits for
// a transaction of the program. It stores nothing, so it does not wait for a flush. Watchers also poll, so a lost notification delays them and loses nothing.
func (s *backend) notify() {
	ctx, cancel := context.WithTimeout(context.Background(), s.answerTime())
	defer cancel()
	_, _ = s.group.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', TRUE), pg_notify($1, $2)", pgx.QueryExecModeSimpleProtocol, s.channel(), s.notifier.payload())
}

// Watch implements ability.Watcher.
func (v *view) Watch(ctx context.Context, f annals.Filter) (<-chan annals.SliceRange, error) {
	return v.s.watchers.Watch(ctx, f.Slices), nil
}

// listenForWrites wakes the watches for writes of other processes until ctx ends. It has one connection for all watches, and makes a new
// one whenever the connection is lost. Behind a pooler, where there is no session to listen in, and while the server has few connections left, it
// wakes them every second instead.
func (s *backend) listenForWrites(ctx context.Context) {
	lost, refused, stopped := 0, 0, 0 // failures since it has listened, and how often it has stopped for want of connections
	for ctx.Err() == nil {
		if !s.pooled && !s.options.ReadOnly {
			if err := s.listen(ctx, func() { lost, refused = 0, 0 }); !errors.Is(err, errFull) && code(err) != tooManyConnections {
				_ = backoff.Wait(ctx, lost+3)
				lost++
				continue
			}
			if refused++; refused == 1 {
				if stopped++; backoff.Seldom(stopped) {
					slog.Default().WarnContext(ctx, "annals: the server has few connections left: the store looks for writes of other processes every second, until it can listen again",
						slog.Int("times", stopped))
				}
			}
		}
		for range min(time.Duration(1)<<min(refused, 10), longest/pollEvery) {
			if backoff.Sleep(ctx, pollEvery/2+rand.N(pollEvery)) != nil {
				return
			}
			s.watchers.Wake(watchers.Everywhere)
		}
	}
}

// errFull is why a store does not listen: others need the connection more.
var errFull = errors.New("the server has few connections left")

// listener is the connection that listens.
type listener struct {
	mu   sync.Mutex
	stop context.CancelCauseFunc // nil while there is none
}

// giveWay closes the connection, because the server refuses another one.
func (l *listener) giveWay() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop(errFull)
	}
}

// open returns the context of a new connection.
func (l *listener) open(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, l.stop = context.WithCancelCause(ctx)
	return ctx, l.stop
}

// listen listens until the connection is lost, or the server has few connections left. It calls begun once it listens.
func (s *backend) listen(ctx context.Context, begun func()) (err error) {
	ctx, stop := s.listener.open(ctx)
	defer func() {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		stop(nil)
	}()
	conn, err := dial(ctx, s.config())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if !s.enoughLeft(ctx, conn) {
		return errFull
	}
	limited, cancel := context.WithTimeout(ctx, s.answerTime())
	_, err = conn.Exec(limited, "LISTEN "+quote(s.channel()))
	if cancel(); err != nil {
		return err
	}
	begun()
	asked := time.Now()
	for written := watchers.Everywhere; ; { // first for what was written before LISTEN
		s.watchers.Wake(written)
		wait, cancel := context.WithDeadline(ctx, asked.Add(listenFor))
		n, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			written = s.notifier.heard(n.Payload)
			continue
		case ctx.Err() != nil || conn.IsClosed():
			return err
		case !s.enoughLeft(ctx, conn):
			return errFull
		}
		written, asked = 0, time.Now()
	}
}

// connectionsLeft is how many connections the server, the role and the database have left, and whether that is at least a twentieth of what each
// of them may have.
const connectionsLeft = `WITH used AS MATERIALIZED (SELECT usesysid, datid FROM pg_stat_activity WHERE usesysid IS NOT NULL AND datid IS NOT NULL)
	SELECT min(most - n)::int, bool_and(most - n >= most / 20) FROM (
		SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- coalesce(current_setting('reserved_connections', TRUE)::int, 0), (SELECT count(*) FROM used)
		UNION ALL SELECT rolconnlimit, (SELECT count(*) FROM used WHERE usesysid = r.oid) FROM pg_roles r WHERE rolname = session_user
		UNION ALL SELECT datconnlimit, (SELECT count(*) FROM used WHERE datid = d.oid) FROM pg_database d WHERE datname = current_database()) AS limits (most, n)
	WHERE most >= 0`

// enoughLeft reports whether enough connections are left for what needs them more than signals do. It closes a connection whose server does not
// answer.
func (s *backend) enoughLeft(ctx context.Context, conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(ctx, s.answerTime())
	defer cancel()
	var left int
	var enough bool
	err := conn.QueryRow(ctx, connectionsLeft).Scan(&left, &enough)
	return err != nil || enough
}
