package pgstore

import (
	"runtime"
	"testing"

	"github.com/annals-go/annals"
)

// The rows of a page outlive garbage collections, without the payloads, and no more than maxSpare of them are kept.
func TestSpareRows(t *testing.T) {
	t.Parallel()
	var s spareRows
	rows := make([]annals.Event, 2, 1000)
	rows[1].Data = []byte("payload")
	s.put(rows)
	runtime.GC()
	runtime.GC()
	taken := s.take()
	if len(taken) != 0 || cap(taken) != 1000 {
		t.Errorf("took rows of length %d and capacity %d, want 0 and 1000", len(taken), cap(taken))
	}
	for _, e := range taken[:cap(taken)] {
		if e.Data != nil {
			t.Errorf("the rows keep the payload %q", e.Data)
		}
	}
	if more := s.take(); more != nil {
		t.Errorf("took rows of capacity %d twice", cap(more))
	}

	s.put(make([]annals.Event, maxSpare+1))
	s.put(make([]annals.Event, maxSpare-1))
	s.put(make([]annals.Event, 2))
	s.put(nil)
	if n := cap(s.take()); n != maxSpare-1 {
		t.Errorf("took rows of capacity %d, want %d", n, maxSpare-1)
	}
	if n := cap(s.take()); n != 0 {
		t.Errorf("rows of capacity %d are kept beyond maxSpare", n)
	}
	s.put(make([]annals.Event, maxSpare))
	if n := cap(s.take()); n != maxSpare {
		t.Errorf("took rows of capacity %d, want %d: those taken before count no more", n, maxSpare)
	}
}
