package sqlitestore

import (
	"context"
	"database/sql"
	"time"

	"github.com/annals-go/annals"
)

// pollInterval bounds the delay of signals for commits of other processes. SQLite does not report them, so they must be polled for.
const pollInterval = 100 * time.Millisecond

// Watch is annals.Watcher.
func (v view) Watch(ctx context.Context, _ annals.Filter) (<-chan struct{}, error) {
	return v.b.watchers.Watch(ctx), nil
}

// poll signals to all watches when another connection has committed. The writing connection of this Store is such a connection, too, so
// its commits are signalled twice, which is allowed.
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
		version := seen
		if conn == nil {
			conn, _ = b.readerDB.Conn(ctx) // after an error it is tried again at the next tick
		}
		if conn == nil || conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version) != nil || version != seen {
			b.watchers.Wake()
		}
		seen = version
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
	}
}
