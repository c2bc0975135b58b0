package calendar

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/document"
)

const (
	levels = 6
	bits   = 6         // a slot is so long as 1<<bits slots of the level below
	ring   = 2 << bits // places of a level: twice as many as slots that are used at a time, so that a slot that is taken late shares no place
)

// slot is 1<<(bits·Level) ticks. It is stored as an array, which is short.
type slot struct {
	Level  int
	Index  int64 // counts the slots of the level since 1970
	Chunks int   // how many chunks may have timers
}

// place is where the timers of a slot are. Slots of a level with the same index modulo ring have the same.
type place struct {
	level int
	ring  int
}

func (s slot) place() place { return place{s.Level, int(s.Index & (ring - 1))} }

// start is the first tick of the slot.
func (s slot) start() int64 { return s.Index << (bits * s.Level) }

func (s slot) compare(t slot) int {
	return cmp.Or(cmp.Compare(s.start(), t.start()), cmp.Compare(s.Level, t.Level))
}

// slotOf returns the slot for a timer that is due at a tick. Who is wrong about now gets a slot of another level, which begins before the timer
// is due, too.
func slotOf(due, now int64) (s slot) {
	const longest = 1<<(bits*levels) - 1
	due = min(max(due, now-longest), now+longest)
	distance := max(due-now, now-due)
	for distance>>(bits*(s.Level+1)) > 0 {
		s.Level++
	}
	s.Index = due >> (bits * s.Level)
	return s
}

// record is what adders and runners of a calendar share.
type record struct {
	Tick     int64  `json:"tick"`               // in microseconds; the first call of Add or Run decides
	Occupied []slot `json:"occupied,omitempty"` // one for each place with timers: when the place has to be looked at
	// Taking is what a runner has taken off Occupied, and reads now or has read. It stays until the runner takes other slots, so that another
	// runner reads it again when the first one has stopped meanwhile.
	Taking []slot `json:"taking,omitempty"`
	Pass   int64  `json:"pass,omitempty"` // counts the changes of Taking
}

// occupy reports whether it had to change the record so that the place of s is looked at when s begins, or before.
func (r *record) occupy(s slot) bool {
	i := slices.IndexFunc(r.Occupied, func(o slot) bool { return o.place() == s.place() })
	if i < 0 {
		r.Occupied = append(r.Occupied, s)
		return true
	}
	before := r.Occupied[i]
	after := slot{s.Level, min(s.Index, before.Index), max(s.Chunks, before.Chunks)}
	r.Occupied[i] = after
	return after != before
}

// take moves to Taking what begins at or before a tick. What is in Taking stays there unless it was read. It reports whether something moved.
func (r *record) take(now int64, read bool) bool {
	taken := record{}
	if !read {
		taken.Occupied = slices.Clone(r.Taking)
	}
	moved := false
	r.Occupied = slices.DeleteFunc(r.Occupied, func(s slot) bool {
		due := s.start() <= now
		if due {
			taken.occupy(s)
			moved = true
		}
		return due
	})
	if moved {
		r.Taking = taken.Occupied
		slices.SortFunc(r.Taking, slot.compare)
		r.Pass++
	}
	return moved
}

// chunks returns how many chunks of a place may have timers in Occupied, and in Taking.
func (r *record) chunks(p place) (occupied, taking int) {
	for _, s := range r.Occupied {
		if s.place() == p {
			occupied = s.Chunks
		}
	}
	for _, s := range r.Taking {
		if s.place() == p {
			taking = s.Chunks
		}
	}
	return occupied, taking
}

func (r record) fault() error {
	if r.Tick <= 0 {
		return fmt.Errorf("a tick has %d µs", r.Tick)
	}
	for _, list := range [][]slot{r.Occupied, r.Taking} {
		places := map[place]bool{}
		for _, s := range list {
			if s.Level < 0 || s.Level >= levels || s.Chunks < 1 || places[s.place()] {
				return fmt.Errorf("the slot %+v is wrong, or one of two with its place", s)
			}
			places[s.place()] = true
		}
	}
	return nil
}

// MarshalJSON is json.Marshaler.
func (s slot) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]int64{int64(s.Level), s.Index, int64(s.Chunks)})
}

// UnmarshalJSON is json.Unmarshaler.
func (s *slot) UnmarshalJSON(text []byte) error {
	var a [3]int64
	err := json.Unmarshal(text, &a)
	*s = slot{int(a[0]), a[1], int(a[2])}
	return err
}

var recordCodec = codec.JSON[record]("annals.calendar")

// record is the document with the record of the calendar.
func (c *Calendar) record() document.Document[record] {
	return document.Document[record]{ID: annals.NewPersistenceID("annals.calendar", c.name), Codec: recordCodec, Check: record.fault}
}
