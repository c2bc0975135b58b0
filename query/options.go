package query

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// Options of a live query. The zero Options work.
type Options struct {
	// Poll is the most time between two looks at the store, more or less a tenth, chosen at random. 0 is 3 seconds where the store is an
	// ability.Watcher, which wakes the query for new events, and 1 second elsewhere. Where nothing wakes it, a query looks half as often as it has
	// found something new of late, but not more often than every second; IDs looks every Poll.
	Poll time.Duration
	// Window is the most entities that a query remembers because they have events or states after the watermark of the store. 0 is 100,000. A
	// query that remembers so many reads on when the watermark has moved.
	Window int
	// Audit is for how long a query finds events and states that become visible after it has passed their time, which the store has promised
	// not to happen: so much later than Batch.Through has passed it, or less. They are handed over within another Audit. For this, a query
	// reads what is at most twice this time behind Through again, without payloads, when it begins, and once in this time when it has caught up. 0 is 2 minutes where
	// Capabilities.Lateness is not zero. Elsewhere, with Current, and with a negative Audit nothing is read again. When the watermark has gone back behind
	// Through, the query reads from there. How far back it can look is also bounded by Window: of so many entities it remembers what was handed over.
	// With Filter.Tag, an event that becomes visible so late is not found when a later event of its entity was handed over before.
	Audit time.Duration
	// Current ends the query after everything that was visible when it began.
	Current bool
	// Reuse lets a Feed use the Events of a Batch again, so that a Batch is valid until the next call of Next.
	Reuse bool
	// OnRetry is told of each read that failed and is repeated, after a time that grows to half a second. try counts from 0. It may be nil.
	OnRetry func(err error, try int)
	// OnWarning is told of each annals.Result.Warning with which the store has answered the question for its watermark: what the query relies on
	// may not hold. It may be nil.
	OnWarning func(err error)
	// OnSkip is told of numbers of an entity, from ≤ n ≤ to, that the query did not find: they were deleted before it could read them, or
	// never used by a writer of another system. With a Filter.Tag, events with these numbers may have had other tags. It may be nil.
	OnSkip func(id annals.PersistenceID, from, to annals.SeqNr)
}

const (
	pollWatched = 3 * time.Second
	pollAlone   = time.Second
	window      = 100_000
	audit       = 2 * time.Minute
)

// withDefaults returns o with its defaults for s, or what is wrong with it.
func (o Options) withDefaults(s annals.Store) (Options, error) {
	var faults []error
	if o.Poll < 0 {
		faults = append(faults, fmt.Errorf("Poll is %v", o.Poll))
	}
	if o.Window < 0 {
		faults = append(faults, fmt.Errorf("Window is %d", o.Window))
	}
	if o.Poll == 0 {
		o.Poll = pollAlone
		if _, err := ability.Of[ability.Watcher](s); err == nil {
			o.Poll = pollWatched
		}
	}
	o.Window, o.Audit = cmp.Or(o.Window, window), cmp.Or(o.Audit, audit)
	if s.Capabilities().Lateness == 0 || o.Current {
		o.Audit = -1
	}
	if o.OnWarning == nil {
		o.OnWarning = func(error) {}
	}
	if o.OnRetry == nil {
		o.OnRetry = func(error, int) {}
	}
	if o.OnSkip == nil {
		o.OnSkip = func(annals.PersistenceID, annals.SeqNr, annals.SeqNr) {}
	}
	return o, errors.Join(faults...)
}
