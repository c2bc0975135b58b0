package annals

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
)

// PersistenceID names one entity in a store: "Type|id" by NewPersistenceID, but any non-empty valid UTF-8 without
// U+0000 is legal, up to Limits.MaxIDBytes and MaxIDChars.
type PersistenceID string

// NewPersistenceID joins an entity type and an entity id with "|". A type must not contain "|";
// entity.New and aggregate.New check that, NewPersistenceID does not.
func NewPersistenceID(entityType, entityID string) PersistenceID {
	return PersistenceID(entityType + "|" + entityID)
}

// Type is the part before the first "|", "" when there is none.
func (id PersistenceID) Type() string {
	if t, _, ok := strings.Cut(string(id), "|"); ok {
		return t
	}
	return ""
}

// EntityID is the part after the first "|", the whole id when there is none.
func (id PersistenceID) EntityID() string {
	if _, e, ok := strings.Cut(string(id), "|"); ok {
		return e
	}
	return string(id)
}

// SliceCount is the number of slices into which the ids of a store are divided. Stores keep the slices of ids, so it never changes.
const SliceCount = 1024

// Slice returns the slice of id, by which followers divide their work: |Java's String.hashCode of id| mod SliceCount, as Akka and Pekko
// compute it (Persistence.sliceForPersistenceId, Akka 2.10). The hash runs over UTF-16 code units.
func (id PersistenceID) Slice() int {
	var h int32
	for _, r := range string(id) {
		if r > 0xFFFF {
			r -= 0x10000
			h = 31*h + (0xD800 + r>>10)
			r = 0xDC00 + r&0x3FF
		}
		h = 31*h + r
	}
	s := h % SliceCount
	if s < 0 {
		s = -s // after the remainder: -h overflows for the smallest int32
	}
	return int(s)
}

// SliceRange is the slices From ≤ s < To. The zero SliceRange is all of them. Ids that end with numbers in sequence have slices near each other,
// so that one of four such ranges can have nearly all of them. A range that begins at SliceCount or above is of slices far apart: From and To
// are numbers of the same slices in another order, from SliceCount to 2·SliceCount.
type SliceRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// SliceRanges divides all slices into n ranges of nearly equal size. An n below 1 counts as 1, one above SliceCount as SliceCount.
func SliceRanges(n int) []SliceRange {
	return divide(n, 0)
}

// SpreadRanges is SliceRanges with slices that are far apart in each range: the ranges get nearly equal parts of many ids, also of ids that end
// with numbers in sequence.
func SpreadRanges(n int) []SliceRange {
	return divide(n, SliceCount)
}

func divide(n, first int) []SliceRange {
	n = min(max(n, 1), SliceCount)
	ranges := make([]SliceRange, n)
	for i := range ranges {
		ranges[i] = SliceRange{first + i*SliceCount/n, first + (i+1)*SliceCount/n}
	}
	return ranges
}

// spread is the number that slice has in SpreadRanges. Stores keep these numbers, so they never change.
func spread(slice int) int {
	const far = 597 // odd, so that each slice has a number of its own
	return SliceCount + slice*far%SliceCount
}

// Bounds returns From and To, and 0 and SliceCount for the zero SliceRange.
func (r SliceRange) Bounds() (from, to int) {
	if r == (SliceRange{}) {
		return 0, SliceCount
	}
	return r.From, r.To
}

// Contains reports whether slice lies in r.
func (r SliceRange) Contains(slice int) bool {
	from, to := r.Bounds()
	if from >= SliceCount {
		slice = spread(slice)
	}
	return from <= slice && slice < to
}

// String is "min-max", both inclusive, as the JVM's projection keys are written.
func (r SliceRange) String() string {
	from, to := r.Bounds()
	return strconv.Itoa(from) + "-" + strconv.Itoa(to-1)
}

// SeqNr numbers the events of one entity, or counts the writes of a durable state. The first is 1; 0 means nothing yet.
type SeqNr int64

// MaxSeqNr is "to the end" in Replay and "everything" in DeleteTo and SnapshotCriteria.
const MaxSeqNr SeqNr = 1<<63 - 1

// WriteID makes a write repeatable: the same WriteID with the same After is the same write.
// For the zero WriteID the store chooses one: then retries within the store are safe, retries by the caller are not.
type WriteID [16]byte

// NewWriteID returns a random (version 4) WriteID. It is the writer UUID of the JVM's tables.
func NewWriteID() (w WriteID) {
	_, _ = rand.Read(w[:]) // never fails, as crypto/rand documents
	w[6], w[8] = w[6]&0x0f|0x40, w[8]&0x3f|0x80
	return w
}

// String is the UUID text form.
func (w WriteID) String() string {
	var b [36]byte
	hex.Encode(b[0:], w[0:4])
	b[8] = '-'
	hex.Encode(b[9:], w[4:6])
	b[13] = '-'
	hex.Encode(b[14:], w[6:8])
	b[18] = '-'
	hex.Encode(b[19:], w[8:10])
	b[23] = '-'
	hex.Encode(b[24:], w[10:])
	return string(b[:])
}
