package host

import (
	"math/rand/v2"
	"time"
)

// Turns lets the owners of one entity write in turns. Without it one of them gets all turns: the owner whose write was stored sends the
// next one at once, while the others have to read the entity first, and then meet a conflict again.
//
// Nothing is stored for this. An owner that has written without a gap for the length of a turn leaves a gap, in which another owner can
// read and write. While no other owner writes in the gaps, turns become longer, so an owner that is alone loses less than a hundredth of its
// time, and makes no request. Once an owner has met a conflict, turns are short, and the gap that it leaves is about a turn of another owner. An owner
// that has to wait tries without a pause only when a turn may have ended, because each try costs a read and a write.
//
// The zero Turns are those of an entity that has not been written. They are not safe for concurrent use.
type Turns struct {
	epoch time.Time // before all others

	// These are times after epoch, and 0 when there was none.
	sent   time.Duration // the newest write
	stored time.Duration // the newest write that was acknowledged
	began  time.Duration // the turn
	lost   time.Duration // the first conflict after stored; 0 when there was none after stored
	trying time.Duration // the first try after the newest long wait
	met    time.Duration // the newest conflict

	length time.Duration // of a turn while not shared; 0: firstTurn
	load   time.Duration // that a load takes
	write  time.Duration // that a write takes
	unused uint          // gaps in a row in which no other owner has written

	shared bool // another owner has written lately
	paused bool // the newest write was the last of a turn
}

const (
	// An owner that has met no conflict lately.
	firstTurn = 250 * time.Millisecond
	longTurn  = 8 * time.Second       // a turn becomes so long while no other owner writes in the gaps,
	gapPart   = 256                   // or so many times as long as a gap, if that is shorter
	minGap    = 20 * time.Millisecond // the load of another owner takes longer than that of this one if it has more to read

	// An owner that has met a conflict.
	sharedTurn     = 150 * time.Millisecond
	sharedWrites   = 32              // a turn takes the time for so many writes, if that is longer,
	longSharedTurn = 2 * time.Second // but not longer than this
	sharedGaps     = 3               // after so many gaps without a write of another owner, each twice as long as the one before, the owner counts as alone
	patience       = 16              // an owner that has not written for so many turns does not wait between its tries
	minCycle       = time.Millisecond
	lately         = 5 * time.Second // a conflict so long after the last one does not say that another owner writes without a pause
)

// Loaded records that a read of the entity, which began then, has ended now, and whether another owner has written since this one last knew its
// state.
func (t *Turns) Loaded(began time.Time, overtaken bool) {
	t.load = max(time.Since(began), t.load*3/4)
	if t.paused && overtaken && t.lost == 0 {
		t.lost = t.now()
		t.trying = t.lost
	}
}

// Sent records that a write is sent now, and reports whether it is the last one of the turn.
func (t *Turns) Sent() (last bool) {
	t.sent = t.now()
	if t.paused || t.lost > 0 || t.began == 0 || t.sent-t.stored >= t.gap() {
		t.began = t.sent
	}
	return t.sent-t.began >= t.turn()
}

// Stored records that the write has been acknowledged now, and returns how long the owner has to wait before its next one: not at all, unless it
// was the last one of the turn.
func (t *Turns) Stored(last bool) (wait time.Duration) {
	t.stored = t.now()
	if took := t.stored - t.sent; t.write == 0 {
		t.write = took
	} else {
		t.write += (took - t.write) / 4
	}
	if t.paused && t.lost == 0 { // no other owner has written in the gap
		t.unused++
		switch {
		case !t.shared:
			t.length = min(2*t.turn(), max(gapPart*t.gap(), firstTurn), longTurn)
		case t.unused == sharedGaps:
			t.shared, t.length, t.unused = false, 0, 0
		}
	}
	t.lost, t.paused = 0, last
	switch {
	case !last:
		return 0
	case t.shared:
		return t.turn() / 4 << t.unused
	}
	gap := min(t.gap(), t.turn()/8)
	if t.unused%4 == 3 { // another owner may need much longer to read than this one did
		gap = max(gap, min(4*gap, t.turn()/64))
	}
	return gap
}

// Overtaken records that the write has met a conflict, and returns how long to wait before the entity is loaded for the next try.
func (t *Turns) Overtaken() (wait time.Duration) {
	at := t.now()
	again, left := t.shared && at-t.met < lately, t.shared && t.paused
	t.shared, t.paused, t.met, t.unused = true, false, at, 0
	turn, first := t.turn(), t.lost == 0
	if first {
		t.lost = at
	}
	// The turn of another owner ends about then: it was trying when this one's turn ended, and then loaded and wrote once more.
	end := t.stored + turn + 3*(t.load+t.write)/2
	switch {
	case first && !left:
		if again { // the turn of another owner may have begun
			wait = turn / 4
		}
	case t.stored > 0 && at < end:
		wait = end - at
	case t.stored > 0 && at < t.stored+patience*turn && at-t.trying > turn/2: // a third owner has the turn
		wait = turn/4 + rand.N(turn/2)
	default: // the turn may have ended
		return max(0, minCycle-t.load-t.write)
	}
	t.trying = at + wait
	return wait
}

// now is the time after epoch. Differences to a point in the process's own time need less memory than times.
func (t *Turns) now() time.Duration {
	if t.epoch.IsZero() {
		t.epoch = time.Now().Add(-1)
	}
	return time.Since(t.epoch)
}

// turn is how long a turn is.
func (t *Turns) turn() time.Duration {
	if t.shared {
		return min(max(sharedWrites*t.write, sharedTurn), longSharedTurn)
	}
	return max(t.length, firstTurn)
}

// gap is how long an owner that does not know of others lets them read and write. Another owner may have more to read than this one had.
func (t *Turns) gap() time.Duration { return max(2*(t.load+t.write), minGap) }
