package sqlitestore

import (
	"context"
	"database/sql"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/watchers"
)

// pollInterval bounds the delay of signals for commits of other processes. SQLite does not report them, so they must be polled for.
const pollInterval = 100 * time.Millisecond

// Watch is ability.Watcher.
func (v view) Watch(ctx context.Context, f annals.Filter) (<-chan annals.SliceRange, error) {
	return v.b.watchers.Watch(ctx, f.Slices), nil
}

// wake signals what was committed: events and states, which have times of the clock. Saved offsets have none. The writing connection is
// held.
func (b *backend) wake(dated watchers.Signal) {
	b.news(b.writer.clock.last)
	b.watchers.Wake(dated)
}

// news reports whether newest is later than the times of the events and states that were signalled, and notes that it is signalled now.
func (b *backend) news(newest int64) bool {
	for {
		signalled := b.signalled.Load()
		if newest <= signalled {
			return false
		}
		if b.signalled.CompareAndSwap(signalled, newest) {
			return true
		}
	}
}

// poll signals to all watches when another process has committed events or states.
func (b *backend) poll(ctx context.Context) {
	var conn *sql.Conn // PRAGMA data_version changes when another connection than this one commits
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	ticks := time.NewTicker(pollInterval)
	defer ticks.Stop()
	for seen := int64(0); ; {
		version, newest := seen, int64(0)
		if conn == nil {
			conn, _ = b.readerDB.Conn(ctx) // after an error it is tried again at the next tick
		}
		switch {
		case conn == nil, conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version) != nil, seen == 0:
			b.watchers.Wake(watchers.Everywhere) // seen is 0 at the first tick: for what was written before
		case version == seen:
		case conn.QueryRowContext(ctx, b.writer.clock.newest).Scan(&newest) != nil, b.news(newest):
			b.watchers.Wake(watchers.Everywhere)
		}
		seen = version
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}
