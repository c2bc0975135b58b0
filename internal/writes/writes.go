// Package writes has what stores do alike with writes: it remembers the last ones of a durable state, to recognise one that is sent again, reads
// write ids, and says why a write does not fit.
package writes

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/annals-go/annals"
)

// Remembered is the number of writes that a state remembers.
const Remembered = 4

// Write is one write of a durable state.
type Write struct {
	Revision annals.SeqNr
	Time     time.Time
	WriteID  annals.WriteID
}

// List is the last writes of a durable state, oldest first. Its text form, which the SQL stores have in a column, is a list of
// "revision/microseconds/uuid", separated by blanks.
type List []Write

// Parse reads the text form; "" is an empty list. Its errors repeat nothing of the text.
func Parse(text string) (List, error) {
	fields := strings.Fields(text)
	ws := make(List, len(fields))
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
		w, err := ParseID(id)
		if err != nil {
			return nil, fmt.Errorf("write %d of %d has no id", i+1, len(fields))
		}
		ws[i] = Write{Revision: annals.SeqNr(r), Time: time.UnixMicro(t).UTC(), WriteID: w}
	}
	return ws, nil
}

// With returns the newest Remembered of ws followed by w.
func (ws List) With(w Write) List {
	return append(ws[max(0, len(ws)-Remembered+1):len(ws):len(ws)], w)
}

// String returns the text form.
func (ws List) String() string {
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

// Check decides whether w may be stored when the last revision of the state is last. It returns nil when it may, and the earlier write
// when w repeats it. Otherwise the error is ErrConflict, or ErrUnknown when an earlier try of w may have been stored and is no longer
// remembered.
func (ws List) Check(w annals.StateWrite, last annals.SeqNr) (*Write, error) {
	if w.After == last {
		return nil, nil
	}
	remembered := len(ws) < Remembered // no write has been dropped
	for i := range ws {
		if ws[i].Revision == w.After+1 && ws[i].WriteID == w.WriteID {
			return &ws[i], nil
		}
		remembered = remembered || ws[i].Revision <= w.After+1
	}
	kind := annals.ErrConflict
	if w.After < last && !remembered && !w.FirstTry {
		kind = annals.ErrUnknown
	}
	return nil, &annals.Error{After: w.After, Last: last, Kind: kind}
}
