package akka_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// defect is a case in which a plugin loses or hides something.
type defect struct {
	ID    string
	Input []step
}

// outcome is what the layout reads after the calls of a defect. Zero bounds are none.
type outcome struct {
	pid            annals.PersistenceID
	from, to, most annals.SeqNr
	want           string // the numbers and the last number
}

// outcomes are the outcomes that differ from the plugins', and those that are as they should be.
var outcomes = map[string][]outcome{
	"delete-inside-batch":          {{pid: "w-del", want: "4-7 last 7"}},
	"window-starts-inside-batch":   {{pid: "w-from", from: 3, want: "3-5 last 5"}},
	"window-starts-inside-batch-2": {{pid: "w-from2", from: 5, want: "5-7 last 7"}},
	"window-ends-inside-batch":     {{pid: "w-to", to: 4, want: "1-4 last 5"}},
	"max-cuts-batch":               {{pid: "w-max", most: 4, want: "1-4 last 7"}},
	"max-cuts-first-batch":         {{pid: "w-max2", most: 3, want: "1-3 last 7"}, {pid: "w-max2", most: 5, want: "1-5 last 7"}, {pid: "w-max2", most: 6, want: "1-6 last 7"}},
	"paging":                       {{pid: "w-page", to: 10, want: "1-10 last 13"}, {pid: "w-page", from: 11, to: 20, want: "11-13 last 13"}},
	"lowest-inside-batch-to":       {{pid: "w-low", to: 4, want: "4 last 5"}, {pid: "w-low", want: "4-5 last 5"}},
	"incomplete-i-mid":             {{pid: "i-mid", want: "1 5 last 5"}},
	"incomplete-i-first":           {{pid: "i-first", want: "1 5 last 5"}},
	"incomplete-i-last":            {{pid: "i-last", want: "1 5 last 5"}},
	"incomplete-then-batch":        {{pid: "i-next", want: "5-7 last 7"}},
	"overwritten-tail":             {{pid: "i-over", want: "12-14 last 14"}},
	"overwritten-two":              {{pid: "i-over2", want: "11-13 last 13"}},
	"highest-of-orphans":           {{pid: "i-orphan", want: "last 12"}},
	"cnt-0":                        {{pid: "i-cnt0", want: "1-3 last 3"}},
	"cnt-0-last":                   {{pid: "i-cnt0b", want: "1-2 last 2"}},
	"issue-98":                     {{pid: "h-98", want: "1-102 last 102"}},
	"issue-98-restart":             {{pid: "h-98r", want: "1-105 last 105"}},
	"sh-missing":                   {{pid: "h-sh", want: "1-105 last 105"}},
	"sh-missing-restart":           {{pid: "h-shr", want: "1-106 last 106"}},
	"sh-missing-hole-at-99":        {{pid: "h-hole", want: "1-98 100-105 last 105"}},
	"sh-jump-missing":              {{pid: "h-jump", want: "1-209 last 209"}},
	"sl-missing-all-deleted":       {{pid: "h-sl", want: "corrupt"}},  // the last item is left, and nothing tells of those before
	"sl-missing-after-100":         {{pid: "h-sl2", want: "corrupt"}}, // the same
	"gap-whole-group":              {{pid: "h-gap", want: "1-5 last 5"}},
	"rejected-at-100":              {{pid: "r-100", want: "1-102 last 102"}},
	"rejected-at-100-restart":      {{pid: "r-100r", want: "1-104 last 104"}},
	"rejected-batch-99-101":        {{pid: "r-99", want: "1-100 last 100"}},
	"list-all-after-group-deleted": {{pid: "d-list", want: "100-105 last 105"}},
	"delete-nobody":                {{pid: "d-nobody", want: "last 0"}},
	"delete-lower-later":           {{pid: "d-low", want: "9-10 last 10"}},
	"two-writers":                  {{pid: "t-two", want: "1-3 last 3"}},
	"single-over-batch":            {{pid: "t-mid", want: "1-4 last 4"}},
	"query-one-event":              {{pid: "q-1", from: 2, to: 2, want: "2 last 3"}},
	"query-inside-batch":           {{pid: "q-2", from: 3, want: "3-6 last 6"}},
}

// further are outcomes that are no replay.
var further = map[string]func(p *player, d defect){
	"max-cuts-batch": func(p *player, _ defect) {
		var limited []annals.Event
		for e, err := range akka.ReplayLimit(p.Context(), plantest.Store(p), "w-max", 1, annals.MaxSeqNr, 4) {
			if err != nil {
				p.Fatal(err)
			}
			limited = append(limited, e)
		}
		if got := show(numbers(limited), 0); got != "1-3 last 0" {
			p.Errorf("ReplayLimit: %s", got)
		}
	},
	"rejected-at-100-actor": func(p *player, _ defect) {
		p.play(step{Op: "persist", PID: "r-actor", FromSeqNr: 1, ToSeqNr: 99, Result: []byte(`"ok"`)},
			step{Op: "persist", PID: "r-actor", FromSeqNr: 100, ToSeqNr: 103, Result: []byte(`["rejected","ok","ok","ok"]`)},
			step{Op: "restart", PID: "r-actor", HighestReported: 99},
			step{Op: "persist", PID: "r-actor", FromSeqNr: 100, ToSeqNr: 101, Result: []byte(`"ok"`)},
			step{Op: "restart", PID: "r-actor", HighestReported: 103})
		p.check(outcome{pid: "r-actor", want: "1-104 last 104"})
	},
	"fewer-shards": func(p *player, _ defect) {
		p.play(step{Op: "persist", PID: "h-shards", FromSeqNr: 3, ToSeqNr: 301, Result: []byte(`"ok"`)}, step{Op: "deleteTo", PID: "h-shards", To: 300})
		l := p.layout
		l.Journal.SequenceShards = 2
		offer, err := l.Plan()
		if err != nil {
			p.Fatal(err)
		}
		if err := offer.Check(p.Context(), p.Executor, false); !errors.Is(err, annals.ErrInvalid) {
			p.Errorf("two shards: %v", err)
		}
		l.Journal.SequenceShards = 20
		if last := p.reopened(l).last("h-shards"); last != 307 {
			p.Errorf("the last number with twenty shards is %d", last)
		}
	},
	"list-all-after-group-deleted": func(p *player, _ defect) {
		numbers, _, _, err := akka.ListAll(p.Context(), plantest.Store(p), "d-list")
		if got := show(numbers, 0); err != nil || got != "100-105 last 0" {
			p.Errorf("ListAll: %s, %v", got, err)
		}
	},
	"delete-nobody": func(p *player, _ defect) {
		if items := p.Items(p.layout.Journal.Table); len(items) > 0 {
			p.Errorf("%d items", len(items))
		}
	},
	"snapshot-latest-by-clock": func(p *player, _ defect) {
		if n := latest(p.T, p.Snapshots, "s-clock", annals.SnapshotCriteria{}); n != 20 {
			p.Errorf("newest snapshot %d", n)
		}
	},
	"snapshot-filter-after-limit": func(p *player, d defect) {
		if n := latest(p.T, p.Snapshots, "s-filter", annals.SnapshotCriteria{MaxSeqNr: 3, MaxTime: at(d.Input[1].Timestamp)}); n != 2 {
			p.Errorf("newest snapshot %d", n)
		}
	},
	"snapshot-too-large": func(p *player, _ defect) {
		err := p.Snapshots.Save(p.Context(), annals.Snapshot{ID: "s-big", SeqNr: 1, Payload: annals.Payload{SerializerID: 4, Data: make([]byte, 420_000)}})
		if !errors.Is(err, annals.ErrTooLarge) || !strings.Contains(err.Error(), "4202") || !strings.Contains(err.Error(), "400000") {
			p.Errorf("a save: %v", err)
		}
	},
	"query-max": func(p *player, _ defect) {
		p.play(step{Op: "persist", PID: "q-1", FromSeqNr: 1, ToSeqNr: 3, Result: []byte(`"ok"`)})
		p.check(outcome{pid: "q-1", to: annals.MaxSeqNr, want: "1-3 last 3"})
	},
}

// onServer are the defects in which the service or the connection fails, or which need its pages: see TestAkkaDefects of package dynamostore.
var onServer = []string{"unprocessed-P", "unprocessed-SH", "delete-errors", "partial-marker-read", "snapshot-delete-one-page", "large-group"}

// In each case in which a plugin loses or hides something, the layout does not.
func TestDefects(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		for _, d := range s.defects {
			if slices.Contains(onServer, d.ID) {
				continue
			}
			if outcomes[d.ID] == nil && further[d.ID] == nil {
				t.Errorf("no test of %s", d.ID)
				continue
			}
			t.Run(s.system+"/"+d.ID, func(t *testing.T) {
				t.Parallel()
				p := &player{layout: s.layout(), last: map[annals.PersistenceID]annals.SeqNr{}, stored: map[annals.PersistenceID]map[annals.SeqNr]string{}}
				p.bench = newBench(t, p.layout)
				p.play(d.Input...)
				for _, o := range outcomes[d.ID] {
					p.check(o)
				}
				if more := further[d.ID]; more != nil {
					more(p, d)
				}
				p.readByPlugin()
			})
		}
	}
}

// player makes the calls of a defect as a program makes them: it appends after the last number, and does not use the number of an event that was
// refused.
type player struct {
	*bench
	layout  akka.Layout
	last    map[annals.PersistenceID]annals.SeqNr
	stored  map[annals.PersistenceID]map[annals.SeqNr]string // data by number
	restart annals.SeqNr                                     // the last number that the plugin found; 0 before a restart
	writer  annals.WriteID
	touched bool // items were lost or changed
}

func (p *player) play(steps ...step) {
	p.Helper()
	if p.writer == (annals.WriteID{}) {
		p.writer = annals.NewWriteID()
	}
	w := &writer{p.bench, p.layout, nil}
	for _, s := range steps {
		switch s.Op {
		case "persist":
			p.persist(s)
		case "restart":
			p.bench = p.reopened(p.layout)
			p.last[s.PID], p.restart, p.writer = p.bench.last(s.PID), s.HighestReported, annals.NewWriteID()
		default:
			if s.Op == "saveSnapshot" {
				data := []byte{}
				s.Data = &data
			}
			p.touched = p.touched || s.Op == "loseItem" || s.Op == "changeItem"
			if err := w.step(s); err != nil {
				p.Fatalf("%s: %v", s.Op, err)
			}
		}
	}
}

// readByPlugin checks that the plugin finds all events that the layout finds, unless items were lost or changed.
func (p *player) readByPlugin() {
	p.Helper()
	attribute := "event"
	if p.layout.Journal.Old {
		attribute = "pay"
	}
	for id := range p.stored {
		if p.touched {
			continue
		}
		all := numbers(p.replay(id, 1, annals.MaxSeqNr, annals.MaxSeqNr))
		if read, failed := readByPlugin(p.Items(p.layout.Journal.Table), id, attribute); failed || !slices.Equal(read, all) {
			p.Errorf("%s: the plugin reads %v, failed %v, want %v", id, read, failed, all)
		}
	}
}

// persist appends the events of a step. Those of a batch are one append, or several if there are more than fit into one.
func (p *player) persist(s step) {
	p.Helper()
	if _, known := p.last[s.PID]; !known {
		p.last[s.PID] = s.FromSeqNr - 1
		p.stored[s.PID] = map[annals.SeqNr]string{}
	}
	if stale := p.restart > 0 && s.FromSeqNr <= p.restart; stale { // another writer, which takes numbers that were taken
		c := annals.Commit{ID: s.PID, After: s.FromSeqNr - 1, WriteID: p.writer, Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 4}}}}
		if _, err := p.Journal.Append(p.Context(), c); !errors.Is(err, annals.ErrConflict) {
			p.Errorf("a second event %d: %v", s.FromSeqNr, err)
		}
		return
	}
	most := 1
	if s.Atomic {
		most = p.limits.MaxEvents
	}
	count := int(s.ToSeqNr - s.FromSeqNr + 1)
	for i := 0; i < count; i += most {
		n := min(most, count-i)
		c := annals.Commit{ID: s.PID, After: p.last[s.PID], WriteID: p.writer}
		for k := range n {
			c.Events = append(c.Events, annals.NewEvent{Payload: annals.Payload{SerializerID: 4, Data: fmt.Appendf(nil, "%d of %d", i+k, s.FromSeqNr)}})
		}
		if !s.acknowledged(i) {
			c.Events[n/2].Data = make([]byte, 400_000)
		}
		r, err := p.Journal.Append(p.Context(), c)
		switch {
		case !s.acknowledged(i):
			if !errors.Is(err, annals.ErrTooLarge) {
				p.Errorf("an event above the limit: %v", err)
			}
			continue
		case err != nil:
			p.Fatalf("append after %d: %v", c.After, err)
		}
		for k, e := range c.Events {
			p.stored[s.PID][c.After+1+annals.SeqNr(k)] = string(e.Data)
		}
		p.last[s.PID] = r.SeqNr
	}
}

// check compares what is read with o, and each event with what was stored.
func (p *player) check(o outcome) {
	p.Helper()
	if o.want == "corrupt" {
		p.wantCorrupt(o.pid, "a mark is lost")
		p.touched = true
		return
	}
	if o.to == 0 {
		o.to = annals.MaxSeqNr
	}
	if o.most == 0 {
		o.most = annals.MaxSeqNr
	}
	events := p.replay(o.pid, max(o.from, 1), o.to, o.most)
	if got := show(numbers(events), p.bench.last(o.pid)); got != o.want {
		p.Errorf("%s: read %s, want %s", o.pid, got, o.want)
	}
	for _, e := range events {
		if string(e.Data) != p.stored[o.pid][e.SeqNr] {
			p.Errorf("%s: event %d is %q, want %q", o.pid, e.SeqNr, e.Data, p.stored[o.pid][e.SeqNr])
		}
	}
}
