package akka

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"pgregory.net/rapid"
)

// numbered are rows by number. A later write replaces rows of earlier ones.
type numbered map[annals.SeqNr]row

// write stores a batch from … to, or a single event.
func (all numbered) write(from, to annals.SeqNr) {
	for n := from; n <= to; n++ {
		all[n] = row{n: n, first: from, last: to, item: plan.Item{}}
		if from < to {
			all[n].item[attrCount] = plan.N(to - from)
		}
	}
}

// window returns the rows from … to in ascending order.
func (all numbered) window(from, to annals.SeqNr) []row {
	var rows []row
	for n, r := range all {
		if n >= from && n <= to {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.n, b.n) })
	return rows
}

// stored reads a text such as "1 2..4 !3 5": events and batches in the order in which they were written; ! removes an event.
func stored(t *testing.T, text string) numbered {
	t.Helper()
	all := numbered{}
	for part := range strings.FieldsSeq(text) {
		m := regexp.MustCompile(`^(!?)(\d+)(?:(-|\.\.)(\d+))?$`).FindStringSubmatch(part)
		if m == nil {
			t.Fatalf("%q in %q", part, text)
		}
		from, _ := strconv.ParseInt(m[2], 10, 64)
		to, _ := strconv.ParseInt(cmp.Or(m[4], m[2]), 10, 64)
		switch n := annals.SeqNr(from); {
		case m[1] == "!":
			delete(all, n)
		case m[3] == "-":
			for ; n <= annals.SeqNr(to); n++ {
				all.write(n, n)
			}
		default:
			all.write(n, annals.SeqNr(to))
			all[n].item[attrCount] = plan.N(to - from) // also of a batch of one
		}
		if m[3] == "" && m[1] == "" {
			delete(all[annals.SeqNr(from)].item, attrCount)
		}
	}
	return all
}

// replayed are the numbers that our filter shows of a window: it sees the rows of the whole batches that the window cuts.
func (all numbered) replayed(from, to, low annals.SeqNr) (shown []annals.SeqNr) {
	b := batches{low: low}
	for _, r := range all.window(low, annals.MaxSeqNr) {
		for _, s := range b.add(r) {
			if s.n >= from && s.n <= to {
				shown = append(shown, s.n)
			}
		}
	}
	return shown
}

// pluginFilter returns the numbers that the plugin shows of rows: its state machine.
func pluginFilter(rows []row) (shown []annals.SeqNr) {
	var pending []annals.SeqNr
	end := annals.SeqNr(-1)
	for _, r := range rows {
		switch own := r.last; {
		case r.item[attrCount] == nil:
			shown, pending, end = append(shown, r.n), nil, -1
		case r.n == end && own == end:
			if pending = append(pending, r.n); len(pending) == int(r.last-r.first)+1 {
				shown = append(shown, pending...)
			}
			pending, end = nil, -1
		case r.n == end || end == -1 || r.n > end || own != end:
			pending, end = []annals.SeqNr{r.n}, own
		default:
			pending = append(pending, r.n)
		}
	}
	return shown
}

// pluginReplayed are the numbers that the plugin shows of a window: it sees only the rows in the window. most is the limit of rows; 0 is none.
func (all numbered) pluginReplayed(from, to, low annals.SeqNr, most int) []annals.SeqNr {
	rows := all.window(max(from, low), to)
	if most > 0 {
		rows = rows[:min(most, len(rows))]
	}
	return pluginFilter(rows)
}

// The vectors of the plugin's filter, with what it shows and what this package shows.
func TestIncompleteBatches(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stored        string
		from, to, low annals.SeqNr
		most          int
		plugin, ours  string
	}{
		{stored: "1 2..4 5", plugin: "1 2 3 4 5", ours: "1 2 3 4 5"},
		{stored: "1 2..4 5 !3", plugin: "1 5", ours: "1 5"},
		{stored: "1 2..4 5 !2", plugin: "1 5", ours: "1 5"},
		{stored: "1 2..4 5 !4", plugin: "1 5", ours: "1 5"},
		{stored: "2..4 !4 5..7", plugin: "5 6 7", ours: "5 6 7"},
		{stored: "10..12 !12 12..14", plugin: "12 13 14", ours: "12 13 14"},
		{stored: "10..12 !11 !12 11..13", plugin: "11 12 13", ours: "11 12 13"},
		{stored: "1-3 4..5", most: 4, plugin: "1 2 3", ours: "1 2 3 4 5"}, // the limit is not the filter's concern: see TestReplayLimit
		{stored: "1-3 4..5", to: 4, low: 4, plugin: "", ours: "4"},
		{stored: "1-998 999..1002 1003", from: 990, to: 1000, plugin: "990 991 992 993 994 995 996 997 998", ours: "990 991 992 993 994 995 996 997 998 999 1000"},
		{stored: "1-998 999..1002 1003", from: 1001, to: 2000, plugin: "1003", ours: "1001 1002 1003"},
		{stored: "2..6 7", low: 4, plugin: "7", ours: "4 5 6 7"},
		{stored: "1..1", plugin: "", ours: "1"},
		// Two batches with the same last number: the plugin counts the events of both.
		{stored: "10..12 !11 !12 11..12", plugin: "", ours: "11 12"},
	} {
		all := stored(t, c.stored)
		from, to := max(c.from, 1), cmp.Or(c.to, annals.MaxSeqNr)
		if got := fmt.Sprint(all.pluginReplayed(from, to, c.low, c.most)); got != "["+c.plugin+"]" {
			t.Errorf("%s: the model of the plugin shows %v, want [%s]", c.stored, got, c.plugin)
		}
		if got := fmt.Sprint(all.replayed(from, to, c.low)); got != "["+c.ours+"]" {
			t.Errorf("%s: shown are %v, want [%s]", c.stored, got, c.ours)
		}
	}
}

// An event is shown if and only if all events of its batch that are not deleted are there. Whatever the plugin shows is shown, too, except
// where another write has taken numbers of a batch.
func TestBatchesShowWhatIsComplete(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all, next, taken := numbered{}, annals.SeqNr(1), false
		for range rapid.IntRange(0, 8).Draw(t, "writes") {
			from := max(1, next-annals.SeqNr(rapid.IntRange(0, 2).Draw(t, "back")))
			to := from + annals.SeqNr(rapid.IntRange(0, 4).Draw(t, "more"))
			taken = taken || from < next
			all.write(from, to)
			next = to + 1
		}
		for range rapid.IntRange(0, 4).Draw(t, "lost") {
			delete(all, annals.SeqNr(rapid.IntRange(1, 20).Draw(t, "number")))
		}
		low := annals.SeqNr(rapid.IntRange(0, 20).Draw(t, "low"))
		from := max(low, annals.SeqNr(rapid.IntRange(1, 20).Draw(t, "from")))
		to := from + annals.SeqNr(rapid.IntRange(0, 20).Draw(t, "to"))
		var want []annals.SeqNr
		for _, r := range all.window(from, to) {
			whole := true
			for n := max(r.first, low); n <= r.last; n++ {
				whole = whole && all[n].first == r.first && all[n].last == r.last
			}
			if whole {
				want = append(want, r.n)
			}
		}
		if got := all.replayed(from, to, low); !slices.Equal(got, want) {
			t.Errorf("shown are %v, want %v", got, want)
		}
		for _, n := range all.pluginReplayed(from, to, low, 0) {
			if !taken && !slices.Contains(want, n) {
				t.Errorf("the plugin shows %d, want only %v", n, want)
			}
		}
	})
}
