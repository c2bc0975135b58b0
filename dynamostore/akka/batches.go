package akka

import "github.com/annals-go/annals"

// batches leaves out the events of incomplete batches. It gets the rows of an entity in ascending order. A batch is complete when all of its
// events are there that are not deleted. Another write can have taken some of its numbers: events with the same first and last number
// are one batch.
type batches struct {
	low  annals.SeqNr // events with lower numbers are deleted
	open []row        // the rows of a batch up to the last one that was added
	done bool         // open was returned by add
}

// add takes the next row and returns the rows that this completes, in order. They are valid until the next call.
func (b *batches) add(r row) []row {
	if !b.continues(r) {
		b.open = b.open[:0]
	}
	b.done = false
	if len(b.open) == 0 && r.n > max(r.first, b.low) {
		return nil // the events before it are missing
	}
	b.open = append(b.open, r)
	if b.done = r.n == r.last; b.done {
		return b.open
	}
	return nil
}

// continues reports whether r is the next row of the open batch.
func (b *batches) continues(r row) bool {
	if len(b.open) == 0 || b.done {
		return false
	}
	before := b.open[len(b.open)-1]
	return r.n == before.n+1 && r.first == before.first && r.last == before.last
}

// unfinished returns the last number of the batch whose last events have not been added yet; 0 when there is none.
func (b *batches) unfinished() annals.SeqNr {
	if len(b.open) == 0 || b.done {
		return 0
	}
	return b.open[0].last
}
