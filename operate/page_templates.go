package operate

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
)

// files are the templates, the style and the script of the page.
//
//go:embed page
var files embed.FS

// asset serves a file of the page.
func asset(file, kind string) http.HandlerFunc {
	content, err := files.ReadFile("page/" + file)
	return func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "private, max-age=60")
		_, _ = w.Write(content) // an error is one of the connection
	}
}

// templates escape what they are given. What is stored goes through name, short, whole or text before: these leave no character that is invisible or
// changes the direction of the text around it.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"name":  func(v any) string { return name(fmt.Sprint(v)) },
		"text":  func(v any) string { return line(fmt.Sprint(v), 2000) },
		"quote": func(v any) string { return strconv.QuoteToASCII(fmt.Sprint(v)) },
		"at":    at,
		"short": func(s *shown) string {
			return s.text(160)
		},
		"whole":   whole,
		"more":    more,
		"diff":    func(d difference) string { return d.text() },
		"age":     func(d time.Duration) string { return d.Round(time.Millisecond).String() },
		"lag":     func(s projection.Status) string { return lagOf(s) },
		"add":     func(n annals.SeqNr, k int) annals.SeqNr { return n + annals.SeqNr(k) },
		"first":   func(n int, all []difference) []difference { return all[:min(n, len(all))] },
		"last":    lastNumber,
		"state":   ordered,
		"form":    func(s *sheet, v any) inForm { return inForm{s, v} },
		"waits":   waits,
		"workers": workers,
		"ready":   func(c int) bool { return c >= 0 },
	}).ParseFS(files, "page/*.html"))
})

// inForm is what a template of a part gets that has a form.
type inForm struct {
	Sheet *sheet
	Of    any
}

// mostWhole is how much of a payload a page shows, in bytes: browsers are slow with more.
const mostWhole = 64 << 10

// whole is all of a payload, JSON in several lines.
func whole(s *shown) string {
	if s == nil {
		return ""
	}
	var b strings.Builder
	s.print(&b, "")
	text := b.String()
	if len(text) > mostWhole {
		text = strings.ToValidUTF8(text[:mostWhole], "") + fmt.Sprintf("\n… (%d bytes are left out: the command shows them)", len(text)-mostWhole)
	}
	return text
}

func lastNumber(events []eventView) annals.SeqNr {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Number
}

// lagOf is the lag of a projection in words.
func lagOf(s projection.Status) string {
	least, what := "", "event"
	if s.States {
		what = "state"
	}
	if s.LagAtLeast {
		least = "≥ "
	}
	if s.Lag == 0 && !s.LagAtLeast {
		return "none"
	}
	return least + count(s.Lag, what) + ", the oldest waits " + s.LagTime.Round(time.Millisecond).String()
}

// workers says in how many ranges somebody handles events.
func workers(s projection.Status) string {
	busy, faults := 0, 0
	for _, r := range s.Ranges {
		if r.Runner != "" {
			busy++
		}
		if r.Hangs || !r.StuckSince.IsZero() {
			faults++
		}
	}
	text := fmt.Sprintf("%d of %s", busy, count(len(s.Ranges), "range"))
	if faults > 0 {
		text += fmt.Sprintf(", %d stuck", faults)
	}
	return text
}

// waits is the longest time that an event of the projections waits.
func waits(all []projection.Status) string {
	var longest time.Duration
	for _, s := range all {
		longest = max(longest, s.LagTime)
	}
	return longest.Round(time.Millisecond).String()
}
