// Package sqlrow has the formats of columns that the SQL stores share.
package sqlrow

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/annals-go/annals"
)

// RememberedWrites is the number of writes that a durable state remembers, to recognise one that is sent again.
const RememberedWrites = 4

// Write is one write of a durable state.
type Write struct {
	Revision annals.SeqNr
	Time     time.Time
	WriteID  annals.WriteID
}

// Writes are the last writes of a durable state, oldest first. Their text form is a list of "revision/microseconds/uuid", separated by
// blanks.
type Writes []Write

// ParseWrites reads the text form; "" is an empty list. Its errors repeat nothing of the text.
func ParseWrites(text string) (Writes, error) {
	fields := strings.Fields(text)
	ws := make(Writes, len(fields))
	for i, field := range fields {
		revision, rest, _ := strings.Cut(field, "/")
		micros, id, _ := strings.Cut(rest, "/")
		r, err := strconv.ParseInt(revision, 10, 64)
		if err != nil || r < 1 {
			return nil, fmt.Errorf("write %d of %d has no revision", i+1, len(fields))
		}
		t, err := strconv.ParseInt(micros, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("write %d of %d has no time", i+1, len(fields))
		}
		w, err := annals.ParseWriteID(id)
		if err != nil {
			return nil, fmt.Errorf("write %d of %d has no id", i+1, len(fields))
		}
		ws[i] = Write{Revision: annals.SeqNr(r), Time: time.UnixMicro(t).UTC(), WriteID: w}
	}
	return ws, nil
}

// With returns the newest RememberedWrites of ws followed by w.
func (ws Writes) With(w Write) Writes {
	return append(ws[max(0, len(ws)-RememberedWrites+1):len(ws):len(ws)], w)
}

// String returns the text form.
func (ws Writes) String() string {
	var b strings.Builder
	for i, w := range ws {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatInt(int64(w.Revision), 10))
		b.WriteByte('/')
		b.WriteString(strconv.FormatInt(w.Time.UnixMicro(), 10))
		b.WriteByte('/')
		b.WriteString(w.WriteID.String())
	}
	return b.String()
}

// Check decides whether w may be stored when the last revision of the state is last. It returns nil when it may, and the earlier write when w
// repeats it. Otherwise the error is ErrConflict, or ErrUnknown when an earlier try of w may have been stored and is no longer
// remembered.
func (ws Writes) Check(op string, w annals.StateWrite, last annals.SeqNr) (*Write, error) {
	if w.After == last {
		return nil, nil
	}
	oldest := last + 1
	for i := range ws {
		oldest = min(oldest, ws[i].Revision)
		if ws[i].Revision == w.After+1 && ws[i].WriteID == w.WriteID && !w.WriteID.IsZero() {
			return &ws[i], nil
		}
	}
	kind := annals.ErrConflict
	if !w.WriteID.IsZero() && !w.FirstTry && w.After < last && w.After+1 < oldest {
		kind = annals.ErrUnknown
	}
	return nil, &annals.Error{Op: op, ID: w.ID, After: w.After, Last: last, Kind: kind}
}
