package plan

import (
	"time"

	"github.com/annals-go/annals"
)

// Times remembers the newest time of each entity's writes. The clocks of processes differ and can go back; with Times no write gets a
// time before that of an earlier write that this process has written or read. The zero Times is ready for use.
type Times struct {
	recent Recent[annals.PersistenceID, time.Time]
}

// NotBefore returns at, or the entity's newest known time when that is later.
func (t *Times) NotBefore(id annals.PersistenceID, at time.Time) time.Time {
	return t.recent.Change(id, func(known time.Time, _ bool) time.Time {
		if known.After(at) {
			return known
		}
		return at
	})
}

// Learn records the time of a write that was made or read.
func (t *Times) Learn(id annals.PersistenceID, at time.Time) { t.NotBefore(id, at) }
