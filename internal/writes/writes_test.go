package writes

import (
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
