package pgstore

import (
	"sync"

	"github.com/annals-go/annals"
)

// maxSpare is how many events the rows that are kept can hold: those of a page of events without payloads.
const maxSpare = pageBytes/eventBytes + firstPage

// spareRows keeps the memory of pages for later replays. A sync.Pool would free it when garbage is collected twice between two replays,
// and a replay of a long history would allocate some megabytes each time.
type spareRows struct {
	mu     sync.Mutex
	rows   [][]annals.Event // empty; all events up to their capacity are zero
	events int              // the capacity of all rows
}

// take returns rows without events, perhaps nil.
func (s *spareRows) take() (rows []annals.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.rows); n > 0 {
		rows, s.rows[n-1] = s.rows[n-1], nil
		s.rows = s.rows[:n-1]
		s.events -= cap(rows)
	}
	return rows
}

// put keeps the memory of rows, unless that would be more than maxSpare. All events behind the length of rows must be zero.
func (s *spareRows) put(rows []annals.Event) {
	clear(rows) // keeps no payloads
	s.mu.Lock()
	defer s.mu.Unlock()
	if cap(rows) > 0 && s.events+cap(rows) <= maxSpare {
		s.rows = append(s.rows, rows[:0])
		s.events += cap(rows)
	}
}
