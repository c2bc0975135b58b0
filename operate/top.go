package operate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
)

// The orders of top.
const (
	byBytes  = "bytes"
	byEvents = "events"
	byRate   = "rate"
)

// topView is what top tells.
type topView struct {
	By         string       `json:"by"`
	Since      string       `json:"since,omitempty"` // only events since then were counted
	Seconds    float64      `json:"seconds,omitempty"`
	Entities   int          `json:"entities"` // that were counted, or more when More is set
	More       bool         `json:"more,omitempty"`
	Events     int          `json:"events"`
	Bytes      int64        `json:"bytes"` // 0 with "rate"
	Unreadable int          `json:"unreadable,omitempty"`
	Complete   bool         `json:"complete"` // everything was read
	Top        []topEntity  `json:"top"`
	Slice      *hottestView `json:"slice,omitempty"`
}

type topEntity struct {
	counted
	Share     float64 `json:"share"`               // of all that were counted
	PerSecond float64 `json:"perSecond,omitempty"` // events, with Seconds
}

// hottestView is the slice with the most events.
type hottestView struct {
	Slice  int     `json:"slice"`
	Events int     `json:"events"`
	Share  float64 `json:"share"`
}

func (v *topView) print(w io.Writer) {
	if len(v.Top) > 0 {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(t, "events\t")
		if v.By != byRate {
			fmt.Fprint(t, "bytes\t")
		}
		if v.Seconds > 0 {
			fmt.Fprint(t, "per second\t")
		}
		fmt.Fprint(t, "share\t  entity\n")
		for _, e := range v.Top {
			most := ""
			if e.Over > 0 {
				most = "≤ "
			}
			fmt.Fprintf(t, "%s%d\t", most, e.Events)
			if v.By != byRate {
				fmt.Fprintf(t, "%s%d\t", most, e.Bytes)
			}
			if v.Seconds > 0 {
				fmt.Fprintf(t, "%s\t", rounded(e.PerSecond))
			}
			fmt.Fprintf(t, "%s\t  %s\n", percent(e.Share), name(string(e.ID)))
		}
		_ = t.Flush()
	}
	fmt.Fprintf(w, "counted: %s, %s", count(v.Events, "event"), entities(v.Entities, v.More))
	if v.By != byRate {
		fmt.Fprintf(w, ", %s", count(v.Bytes, "byte"))
	}
	if v.Since != "" {
		fmt.Fprintf(w, ", since %s", v.Since)
	}
	fmt.Fprintln(w)
	v.Slice.print(w)
}

func (h *hottestView) print(w io.Writer) {
	if h != nil {
		fmt.Fprintf(w, "the slice with the most events: %d with %d, %s of all; an even share is 0.1 %%\n", h.Slice, h.Events, percent(h.Share))
	}
}

// entities is a number of entities, at least n with more.
func entities(n int, more bool) string {
	least := ""
	if more {
		least = "≥ "
	}
	if n == 1 {
		return least + "1 entity"
	}
	return fmt.Sprintf("%s%d entities", least, n)
}

// percent is a share.
func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// rounded is a number with about three digits.
func rounded(n float64) string {
	if n >= 100 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.3g", n)
}

// shareOf is part of all, 0 when there is nothing.
func shareOf[T int | int64](part, all T) float64 {
	if all == 0 {
		return 0
	}
	return float64(part) / float64(all)
}

func (o *options) topCommand() *cobra.Command {
	c := &cobra.Command{Use: "top [ID…]", Short: "Find the largest and the busiest entities",
		Long: "Find the entities with the most bytes or events, of all, of a type, or of those named, or those with the most events in a time. Without --since all their\n" +
			"events are read, or the state of those without events; with --since, or by rate, only the events since then. It can be interrupted, and shows what it has counted until then."}
	r := readingFlags(c, o)
	by := c.Flags().String("by", byBytes, "the order: bytes, events, or rate, which is of the last hour unless --since says otherwise")
	limit := c.Flags().Int("limit", 20, fmt.Sprintf("show so many, up to %d", mostEvents))
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{byBytes, byEvents, byRate}, cobra.ShellCompDirectiveNoFileComp))
	return o.command(c, func(k *call) error {
		switch {
		case !slices.Contains([]string{byBytes, byEvents, byRate}, *by):
			return usage("--by is %s", strings.Join([]string{byBytes, byEvents, byRate}, ", "))
		case *limit < 1 || *limit > mostEvents:
			return usage("--limit is 1 to %d", mostEvents)
		case *by == byRate && len(k.args) > 0:
			return usage("--by rate takes no ids, but --type and --since")
		case *by == byRate && r.since == "":
			r.since = "1h"
		}
		s, err := r.open(k)
		if err != nil {
			return err
		}
		n := ranking{call: k, store: s, view: &topView{By: *by, Top: []topEntity{}}, tally: tally{most: mostTallied, bytes: *by == byBytes, whole: r.since == ""}}
		if r.keysOnly = *by == byRate; !r.from.IsZero() {
			n.view.Since, n.view.Seconds = at(r.from), time.Since(r.from).Seconds()
		}
		n.view.Complete, err = r.walk(k, s, 0, n.entity, func(e annals.Event) error {
			n.count(e.ID, 1, sizeOf(e.Payload, e.Metadata))
			return nil
		})
		if err == nil || n.view.Entities > 0 {
			n.end(*limit)
		}
		return err
	})
}

// ranking is one run of top.
type ranking struct {
	*call
	store  annals.Store
	view   *topView
	slices [annals.SliceCount]int
	tally
}

func (n *ranking) count(id annals.PersistenceID, events int, bytes int64) {
	if n.add(id, events, bytes) {
		n.view.Entities++
	}
	n.view.Events, n.view.Bytes = n.view.Events+events, n.view.Bytes+bytes
	n.slices[id.Slice()] += events
	n.progress("%s, %s", entities(n.view.Entities, n.tally.evicted && !n.tally.whole), count(n.view.Events, "event"))
}

// entity counts the events of an entity.
func (n *ranking) entity(id annals.PersistenceID) error {
	events, bytes := 0, int64(0)
	readable, err := n.contents(n.store, id, func(e annals.Event) { events, bytes = events+1, bytes+sizeOf(e.Payload, e.Metadata) },
		func(st annals.State) { bytes += sizeOf(st.Payload, st.Metadata) })
	if err == nil || events > 0 { // or what was read of it
		n.count(id, events, bytes)
	}
	if err == nil && !readable {
		n.view.Unreadable++
	}
	return err
}

// end makes the view of what was counted.
func (n *ranking) end(limit int) {
	v := n.view
	if v.More = n.tally.evicted && !n.tally.whole; v.By == byRate {
		v.Bytes = 0 // some stores have read payloads, others have not
	}
	for _, c := range n.top(limit) {
		e := topEntity{counted: c, Share: shareOf(c.Events, v.Events)}
		if v.By == byBytes {
			e.Share = shareOf(c.Bytes, v.Bytes)
		}
		if v.By == byRate {
			e.Bytes = 0
		}
		if v.Seconds > 0 {
			e.PerSecond = float64(c.Events) / v.Seconds
		}
		v.Top = append(v.Top, e)
	}
	v.Slice = hottest(n.slices, v.Events)
	n.call.view = v
	n.unreadable(v.Unreadable)
	if len(v.Top) > 0 {
		n.say("next", n.next("show", string(v.Top[0].ID)), "what the first one has")
	}
}

// hottest is the slice with the most of so many events; nil when there are none.
func hottest(slices [annals.SliceCount]int, events int) *hottestView {
	h := &hottestView{}
	for s, n := range slices {
		if n > h.Events {
			h.Slice, h.Events = s, n
		}
	}
	if h.Events == 0 {
		return nil
	}
	h.Share = shareOf(h.Events, events)
	return h
}
