// Package sqlrow holds what the SQL stores keep alike inside a column.
package sqlrow

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/annals-go/annals"
)

// RememberedWrites is how many writes of a durable state are recognised when they are sent again.
const RememberedWrites = 4

// Write is one write of a durable state.
type Write struct {
	Revision annals.SeqNr
	Time     time.Time
	WriteID  annals.WriteID
}

// Writes are the last writes of a durable state, oldest first. Their text is "revision/microseconds/uuid", joined by
// blanks.
type Writes []Write

// ParseWrites reads the text form; "" is none. Its errors hold nothing of the text.
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

// With is ws with w behind it, cut to the newest RememberedWrites.
func (ws Writes) With(w Write) Writes {
	return append(ws[max(0, len(ws)-RememberedWrites+1):len(ws):len(ws)], w)
}

// String is the text form.
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

// Check decides about a write of id after revision after, when the state stands at revision last. It returns the
// earlier write when w is a repetition of it, nil when the write may go on, else ErrConflict, or ErrUnknown where an
// earlier try may have landed and been forgotten.
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
