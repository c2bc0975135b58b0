package sqlitestore

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/annals-go/annals"
)

// watchers are the channels that Watch has returned. They get a signal after each commit of this Store, and when another process has
// written.
type watchers struct {
	mu  sync.Mutex
	all map[chan struct{}]struct{}

	stopPolling context.CancelFunc // nil while there are no channels
	polling     sync.WaitGroup
}

// pollInterval bounds the delay of signals for commits of other processes. SQLite does not report them, so they must be polled for.
const pollInterval = 100 * time.Millisecond

// Watch is annals.Watcher.
func (v view) Watch(ctx context.Context, _ annals.Filter) (<-chan struct{}, error) {
	ch := make(chan struct{}, 1)
	w := &v.b.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[chan struct{}]struct{}{}
	}
	w.all[ch] = struct{}{}
	if w.stopPolling == nil {
		polled, stop := context.WithCancel(context.WithoutCancel(ctx))
		w.stopPolling = stop
		w.polling.Go(func() { w.poll(polled, v.b.readerDB) })
	}
	context.AfterFunc(ctx, func() { w.end(ch) })
	return ch, nil
}

// poll signals to all channels when another connection has committed. The writing connection of this Store is such a connection, too,
// so its commits are signalled twice, which is allowed.
func (w *watchers) poll(ctx context.Context, db *sql.DB) {
	var conn *sql.Conn // PRAGMA data_version changes when another connection than this one commits
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	ticks := time.NewTicker(pollInterval)
	defer ticks.Stop()
	for seen := int64(0); ; {
		version := seen
		if conn == nil {
			conn, _ = db.Conn(ctx) // after an error it is tried again at the next tick
		}
		if conn == nil || conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version) != nil || version != seen {
			w.wake()
		}
		seen = version
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watchers) end(ch chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.all[ch]; !there {
		return
	}
	delete(w.all, ch)
	close(ch)
	if len(w.all) == 0 {
		w.stopPolling()
		w.stopPolling = nil
	}
}

func (w *watchers) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ch := range w.all {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// stop closes all channels.
func (w *watchers) stop() {
	w.mu.Lock()
	for ch := range w.all {
		delete(w.all, ch)
		close(ch)
	}
	if w.stopPolling != nil {
		w.stopPolling()
		w.stopPolling = nil
	}
	w.mu.Unlock()
	w.polling.Wait()
}
