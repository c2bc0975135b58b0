package writes

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
)

// Writes that are read, written and read again are the same.
func FuzzParse(f *testing.F) {
	w := Write{Revision: 3, Time: time.UnixMicro(1785240000000001).UTC(), WriteID: annals.WriteID{1, 2, 3}}
	f.Add(List{w, w}.String())
	f.Add("")
	f.Add("1/-5/00000000-0000-0000-0000-000000000000")
	f.Add("1//")
	f.Add("-1/1/00000000-0000-0000-0000-000000000001")
	f.Add("§/§/§ 1/§/§ 1/1/§")
	f.Fuzz(func(t *testing.T, text string) {
		ws, err := Parse(text)
		if err != nil {
			if ws != nil || strings.Contains(err.Error(), "§") {
				t.Errorf("%q: read %v, and the error holds some of it: %v", text, ws, err)
			}
			return
		}
		for _, w := range ws {
			if w.Revision < 1 {
				t.Errorf("%q: revision %d", text, w.Revision)
			}
		}
		again, err := Parse(ws.String())
		if err != nil || !reflect.DeepEqual(again, ws) {
			t.Errorf("%q: read %v, then %v, %v", text, ws, again, err)
		}
	})
}

func TestBounded(t *testing.T) {
	t.Parallel()
	var ws List
	for n := range annals.SeqNr(6) {
		ws = ws.With(Write{Revision: n + 1})
	}
	if len(ws) != Remembered || ws[0].Revision != 3 || ws[3].Revision != 6 {
		t.Errorf("kept %v, want the revisions 3 to 6", ws)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	id := func(n byte) annals.WriteID { return annals.WriteID{n} }
	list := func(from, to annals.SeqNr) (ws List) {
		for n := from; n <= to; n++ {
			ws = append(ws, Write{Revision: n, WriteID: id(byte(n))})
		}
		return ws
	}
	for name, c := range map[string]struct {
		ws       List
		w        annals.StateWrite
		last     annals.SeqNr
		repeated annals.SeqNr
		kind     error
	}{
		"the next":                               {list(3, 6), annals.StateWrite{After: 6, WriteID: id(7)}, 6, 0, nil},
		"a repetition":                           {list(3, 6), annals.StateWrite{After: 3, WriteID: id(4)}, 6, 4, nil},
		"another write":                          {list(3, 6), annals.StateWrite{After: 3, WriteID: id(9)}, 6, 0, annals.ErrConflict},
		"above the last revision":                {list(3, 6), annals.StateWrite{After: 8, WriteID: id(9)}, 6, 0, annals.ErrConflict},
		"before those remembered":                {list(3, 6), annals.StateWrite{After: 1, WriteID: id(2)}, 6, 0, annals.ErrUnknown},
		"before those remembered, a first try":   {list(3, 6), annals.StateWrite{After: 1, WriteID: id(2), FirstTry: true}, 6, 0, annals.ErrConflict},
		"before the first write, none dropped":   {list(5, 6), annals.StateWrite{After: 1, WriteID: id(2)}, 6, 0, annals.ErrConflict},
		"of a state that nothing is known about": {nil, annals.StateWrite{After: 1, WriteID: id(2)}, 6, 0, annals.ErrConflict},
	} {
		earlier, err := c.ws.Check(c.w, c.last)
		if !errors.Is(err, c.kind) || (earlier != nil) != (c.repeated > 0) || earlier != nil && earlier.Revision != c.repeated {
			t.Errorf("%s: got %v, %v, want revision %d, %v", name, earlier, err, c.repeated, c.kind)
		}
	}
}
