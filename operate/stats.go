package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// mostKinds is the most types, and the most kinds of payloads, that stats tells apart. What comes beyond is counted under the name others.
const (
	mostKinds = 10_000
	others    = "…"
)

// statsView is what stats tells.
type statsView struct {
	Since      string         `json:"since,omitempty"` // only events since then were counted
	Entities   int            `json:"entities"`        // that were counted, or more when More is set
	More       bool           `json:"more,omitempty"`
	Events     int            `json:"events"`
	States     int            `json:"states"` // of entities without events
	Bytes      int64          `json:"bytes"`  // of payloads and metadata
	Unreadable int            `json:"unreadable,omitempty"`
	Complete   bool           `json:"complete"` // everything was read
	Types      []*typeView    `json:"types"`    // the one with the most bytes first
	Payloads   []*payloadView `json:"payloads"` // the same order
	Slice      *hottestView   `json:"slice,omitempty"`
	WriteUnits *unitsView     `json:"writeUnits,omitempty"` // where the store counts in units
}

// typeView is an entity type.
type typeView struct {
	Type     string `json:"type"`
	Entities int    `json:"entities"`
	Events   int    `json:"events"`
	States   int    `json:"states"`
	Bytes    int64  `json:"bytes"`
}

// payloadView is a kind of payloads.
type payloadView struct {
	payloadKind
	Count   int   `json:"count"`
	Bytes   int64 `json:"bytes"` // of payloads
	Largest int   `json:"largest"`
}

type payloadKind struct {
	Serializer int32  `json:"serializer"`
	Manifest   string `json:"manifest"`
	State      bool   `json:"state,omitempty"` // of durable states; otherwise of events
}

// unitsView is what writing events costs.
type unitsView struct {
	Events      int     `json:"events"` // of the commits that were looked at
	PerThousand float64 `json:"perThousand"`
}

func (v *statsView) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	if len(v.Types) > 0 {
		fmt.Fprint(t, "entities\tevents\tstates\tbytes\tshare\t  type\n")
	}
	for _, x := range v.Types {
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%s\t  %s\n", x.Entities, x.Events, x.States, x.Bytes, percent(shareOf(x.Bytes, v.Bytes)), name(cmp.Or(x.Type, "(no type)")))
	}
	_ = t.Flush()
	if len(v.Payloads) > 0 {
		fmt.Fprint(t, "payloads\tbytes\taverage\tlargest\t  serializer and manifest\n")
	}
	for _, p := range v.Payloads {
		what := ""
		if p.State {
			what = " (state)"
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t  %d %s%s\n", p.Count, p.Bytes, p.Bytes/int64(p.Count), p.Largest, p.Serializer, name(p.Manifest), what)
	}
	_ = t.Flush()
	fmt.Fprintf(w, "counted: %s, %s, %s, %s", entities(v.Entities, v.More), count(v.Events, "event"), count(v.States, "state"), count(v.Bytes, "byte"))
	if v.Since != "" {
		fmt.Fprintf(w, ", since %s", v.Since)
	}
	fmt.Fprintln(w)
	v.Slice.print(w)
	if u := v.WriteUnits; u != nil {
		fmt.Fprintf(w, "write units for 1000 events: %s, without snapshots, by the sizes of %s\n", rounded(u.PerThousand), count(u.Events, "event"))
	}
}

func (o *options) statsCommand() *cobra.Command {
	c := &cobra.Command{Use: "stats [ID…]", Short: "Count entities, events and bytes by type",
		Long: "Count entities, events and bytes by type and by kind of payload: of all entities, of a type, of those named, or the events of a time. Where the service\n" +
			"counts write units, as DynamoDB does, it says how many 1000 of these events take. It reads what it counts, can be interrupted, and shows what it has\n" +
			"counted until then."}
	r := readingFlags(c, o)
	limit := c.Flags().Int("limit", 0, "read at most so many entities, or events with --since; 0 is no limit")
	return o.command(c, func(k *call) error {
		if *limit < 0 {
			return usage("--limit is 0 or more")
		}
		s, err := r.open(k)
		if err != nil {
			return err
		}
		n := census{call: k, store: s, view: &statsView{}, seen: tally{most: mostTallied}, types: map[string]*typeView{}, payloads: map[payloadKind]*payloadView{}}
		n.units.counter, _ = ability.Of[ability.UnitCounter](s)
		if !r.from.IsZero() {
			n.view.Since = at(r.from)
		}
		n.view.Complete, err = r.walk(k, s, *limit, n.entity, n.since)
		if n.view.Complete {
			err = n.units.end(k.ctx)
		} else if err == nil {
			n.view.More = true
		}
		if err == nil || n.view.Events+n.view.States > 0 {
			n.end()
		}
		return err
	})
}

// census is one run of stats.
type census struct {
	*call
	store    annals.Store
	view     *statsView
	seen     tally // with --since
	types    map[string]*typeView
	payloads map[payloadKind]*payloadView
	slices   [annals.SliceCount]int
	units    sample
}

// entity counts what an entity has.
func (n *census) entity(id annals.PersistenceID) error {
	var failed error
	readable, err := n.contents(n.store, id, func(e annals.Event) { n.event(e, &failed) }, func(st annals.State) {
		n.view.States++
		n.typeOf(id).States++
		n.payload(id, st.Payload, st.Metadata, true)
	})
	if err == nil {
		err = failed
	}
	if err == nil {
		err = n.units.end(n.ctx)
	}
	if err != nil {
		return err
	}
	if n.view.Entities++; !readable {
		n.view.Unreadable++
	}
	n.typeOf(id).Entities++
	n.progress("%s, %s", entities(n.view.Entities, false), count(n.view.Events, "event"))
	return nil
}

// since counts an event since a time.
func (n *census) since(e annals.Event) (failed error) {
	if n.seen.add(e.ID, 1, 0) {
		n.view.Entities++
		n.typeOf(e.ID).Entities++
	}
	n.view.More = n.seen.evicted
	if n.event(e, &failed); failed == nil {
		n.progress("%s, %s", entities(n.view.Entities, n.view.More), count(n.view.Events, "event"))
	}
	return failed
}

func (n *census) event(e annals.Event, failed *error) {
	n.view.Events++
	n.typeOf(e.ID).Events++
	n.slices[e.ID.Slice()]++
	n.payload(e.ID, e.Payload, e.Metadata, false)
	if *failed == nil {
		*failed = n.units.add(n.ctx, e)
	}
}

func (n *census) payload(id annals.PersistenceID, p, metadata annals.Payload, state bool) {
	size := sizeOf(p, metadata)
	n.view.Bytes += size
	n.typeOf(id).Bytes += size
	kind := payloadKind{p.SerializerID, p.Manifest, state}
	if n.payloads[kind] == nil && len(n.payloads) >= mostKinds {
		kind = payloadKind{Manifest: others}
	}
	v := n.payloads[kind]
	if v == nil {
		v = &payloadView{payloadKind: kind}
		n.payloads[kind] = v
	}
	v.Count, v.Bytes, v.Largest = v.Count+1, v.Bytes+int64(len(p.Data)), max(v.Largest, len(p.Data))
}

func (n *census) typeOf(id annals.PersistenceID) *typeView {
	kind := id.Type()
	if n.types[kind] == nil && len(n.types) >= mostKinds {
		kind = others
	}
	v := n.types[kind]
	if v == nil {
		v = &typeView{Type: kind}
		n.types[kind] = v
	}
	return v
}

// end makes the view of what was counted.
func (n *census) end() {
	v := n.view
	v.Types = slices.AppendSeq([]*typeView{}, maps.Values(n.types))
	slices.SortFunc(v.Types, func(a, b *typeView) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Type, b.Type))
	})
	v.Payloads = slices.AppendSeq([]*payloadView{}, maps.Values(n.payloads))
	slices.SortFunc(v.Payloads, func(a, b *payloadView) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Manifest, b.Manifest), cmp.Compare(a.Serializer, b.Serializer))
	})
	v.Slice = hottest(n.slices, v.Events)
	if u := n.units; u.counted > 0 {
		v.WriteUnits = &unitsView{u.looked, 1000 * u.sum / u.counted}
	}
	n.call.view = v
	n.unreadable(v.Unreadable)
	if v.Events > 0 {
		n.say("next", n.next("top"), "the largest entities")
	}
}

// sample adds up the write units of some commits: of all at first, and later of fewer and fewer, which count more.
type sample struct {
	counter ability.UnitCounter // nil: the store has no units
	commit  annals.Commit       // that is read
	last    annals.Event

	commits, since int // that were read; that were looked at with this step
	step           int
	looked         int     // events of the commits that were looked at
	sum, counted   float64 // units and events, each times the step
}

// sampled is after how many commits that were looked at the step is doubled.
const sampled = 1000

// add adds an event to the commit that is read, or begins a new one.
func (x *sample) add(ctx context.Context, e annals.Event) error {
	if x.counter == nil {
		return nil
	}
	if len(x.commit.Events) > 0 && !together(x.last, e) {
		if err := x.end(ctx); err != nil {
			return err
		}
	}
	if len(x.commit.Events) == 0 {
		x.commit = annals.Commit{ID: e.ID, After: e.SeqNr - 1, WriteID: e.WriteID}
	}
	x.commit.Events = append(x.commit.Events, annals.NewEvent{Payload: e.Payload, Tags: e.Tags, Metadata: e.Metadata, Adapter: e.Adapter})
	x.last = e
	return nil
}

// together reports whether b was stored with a, the event before it. The writer of a plugin's events is the same for many commits, so their time must be, too:
// where the store keeps no times, each event counts as a commit. Where it keeps no writers, commits of one millisecond can count as one.
func together(a, b annals.Event) bool {
	return a.ID == b.ID && a.SeqNr+1 == b.SeqNr && a.WriteID == b.WriteID && !a.Time.IsZero() && a.Time.Equal(b.Time)
}

// end counts the commit that was read.
func (x *sample) end(ctx context.Context) error {
	c := x.commit
	x.commit = annals.Commit{}
	if len(c.Events) == 0 {
		return nil
	}
	x.step = max(x.step, 1)
	if x.commits++; x.commits%x.step != 0 {
		return nil
	}
	units, err := x.counter.WriteUnits(ctx, func(s annals.Store) error {
		if c.After == 0 && s.Capabilities().Limits.FirstSnapshot {
			c.Snapshot = &annals.Snapshot{ID: c.ID, SeqNr: annals.SeqNr(len(c.Events)), Payload: annals.Payload{SerializerID: 1}}
		}
		_, err := s.Journal().Append(ctx, c)
		return err
	})
	if foreign(err) {
		return nil
	}
	if err != nil {
		return err
	}
	x.looked += len(c.Events)
	x.sum, x.counted = x.sum+float64(x.step)*units, x.counted+float64(x.step*len(c.Events))
	if x.since++; x.since == sampled {
		x.since, x.step = 0, 2*x.step
	}
	return nil
}

// foreign reports whether err says that another system has written something that the store would not write.
func foreign(err error) bool {
	return errors.Is(err, annals.ErrInvalid) || errors.Is(err, annals.ErrTooLarge) || errors.Is(err, annals.ErrUnsupported)
}
