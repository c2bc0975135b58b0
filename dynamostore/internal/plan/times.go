package plan

import (
	"time"

	"github.com/annals-go/annals"
)

// Times remembers the newest time of each entity's writes. The clocks of processes differ and can go back; with Times no write gets a
// time before that of an earlier write that this process has written or read. The zero Times is ready for use.
type Times struct {
	recent Recent[annals.PersistenceID, known]
}

// known is what is known of an entity: no event up to last has a time after at.
type known struct {
	at   time.Time
	last annals.SeqNr // 0 where no number is known
}

// NotBefore returns at, or the entity's newest known time when that is later.
func (t *Times) NotBefore(id annals.PersistenceID, at time.Time) time.Time {
	return t.learn(id, known{at: at}).at
}

// Learn records the time of a write that was made or read.
func (t *Times) Learn(id annals.PersistenceID, at time.Time) { t.NotBefore(id, at) }

// LearnTo is Learn for a write whose last event has the number last.
func (t *Times) LearnTo(id annals.PersistenceID, at time.Time, last annals.SeqNr) {
	t.learn(id, known{at, last})
}

// Knows reports whether NotBefore is not before the time of the event number n. Without, another process may have given it a later time.
func (t *Times) Knows(id annals.PersistenceID, n annals.SeqNr) bool {
	k, _ := t.recent.Get(id)
	return n <= k.last
}

func (t *Times) learn(id annals.PersistenceID, k known) known {
	return t.recent.Change(id, func(before known, _ bool) known {
		if before.at.After(k.at) {
			k.at = before.at
		}
		k.last = max(k.last, before.last)
		return k
	})
}
