package operate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/process"
)

// traceView is what trace tells.
type traceView struct {
	Trace    string       `json:"trace"` // what was looked for
	Since    string       `json:"since,omitempty"`
	Events   int          `json:"events"` // that were searched
	States   int          `json:"states"`
	Found    int          `json:"found"`    // events, states, commands and timers
	Complete bool         `json:"complete"` // everything was searched
	Tree     []*traceNode `json:"tree"`     // what nothing else in the tree caused
}

// traceNode is something that happened, with what it caused.
type traceNode struct {
	What      string       `json:"what"`                // "event", "state", "command" or "timer"
	Event     *eventView   `json:"event,omitempty"`     // of an event or a state
	Handles   string       `json:"handles,omitempty"`   // the input that a step of a process handles
	Causation string       `json:"causation,omitempty"` // what caused it, if that is not in the tree
	Command   *commandView `json:"command,omitempty"`
	Timer     *timerView   `json:"timer,omitempty"`
	HandledBy []handling   `json:"handledBy,omitempty"` // of an event or a state
	Caused    []*traceNode `json:"caused,omitempty"`

	parent *traceNode
	depth  int
	offset annals.Offset
}

// mostDepth is the most levels of a tree: what is deeper is shown there. Readers of JSON take no more than some thousands.
const mostDepth = 500

// commandView is a command that a process has sent.
type commandView struct {
	ID        string `json:"id"`
	Target    string `json:"target"`
	Recipient string `json:"recipient"`
	Payload   *shown `json:"payload"`
}

// timerView is a timer that a process has set.
type timerView struct {
	Name string `json:"name"`
	Due  string `json:"due"`
}

func (v *traceView) print(w io.Writer) {
	for _, n := range v.Tree {
		n.print(w, "")
	}
	since := ""
	if v.Since != "" {
		since = " since " + v.Since
	}
	fmt.Fprintf(w, "searched: %s, %s%s\n", count(v.Events, "event"), count(v.States, "state"), since)
}

func (n *traceNode) print(w io.Writer, indent string) {
	switch e := n.Event; {
	case n.Command != nil:
		c := n.Command
		fmt.Fprintf(w, "%scommand %s to %s of %s: %s%s\n", indent, name(c.ID), name(c.Recipient), name(c.Target), named(c.Payload.Manifest), c.Payload.text(300))
	case n.Timer != nil:
		fmt.Fprintf(w, "%stimer %s, due %s\n", indent, name(n.Timer.Name), n.Timer.Due)
	case n.Handles != "":
		fmt.Fprintf(w, "%s%s  %d  %s  handles %s\n", indent, name(string(e.ID)), e.Number, e.Time, name(n.Handles))
		e.details(w, indent)
	case n.What == "state":
		e.line(w, indent, name(string(e.ID))+"  state ")
	default:
		e.line(w, indent, name(string(e.ID))+"  ")
	}
	if n.Causation != "" {
		fmt.Fprintf(w, "%s    caused by %s\n", indent, name(n.Causation))
	}
	if len(n.HandledBy) > 0 {
		var all []string
		for _, h := range n.HandledBy {
			all = append(all, h.String())
		}
		fmt.Fprintf(w, "%s    handled by: %s\n", indent, strings.Join(all, ", "))
	}
	if len(indent) < 200 {
		indent += "  "
	}
	for _, c := range n.Caused {
		c.print(w, indent)
	}
}

func (o *options) traceCommand() *cobra.Command {
	c := &cobra.Command{Use: "trace CORRELATION", Short: "Show what a request has caused",
		Long: "Show the events and states of a correlation, and what they caused, as a tree: events, and the steps, commands and timers of processes. Instead of a\n" +
			"correlation it can be the name of an event, such as 'Order|1/2', of a write or of a command. Of the projections that the program or --projections names, and\n" +
			"whose positions are in this store, it says whether they have handled each event."}
	f := c.Flags()
	r := readingFlags(c, o)
	f.Lookup("since").Usage = "search events and states since this time (RFC 3339), or since so long ago; 0 is all"
	f.Lookup("since").DefValue = "24h"
	r.since = "24h"
	f.Lookup("rate").Usage = "search at most so many events in a second; 0 is no limit"
	limit := f.Int("limit", mostEvents, fmt.Sprintf("end when so much is found, up to %d", mostIDs))
	projections := f.StringSlice("projections", nil, "names of projections, beside those that the program names")
	payloads := newPayloadFlags(c)
	return o.command(c, func(k *call) error {
		if *limit < 1 || *limit > mostIDs {
			return usage("--limit is 1 to %d", mostIDs)
		}
		if err := r.begin(nil); err != nil {
			return err
		}
		s, shows, err := payloads.open(k)
		if err != nil {
			return err
		}
		t := &tracing{answer: &k.answer, progress: k.progress, store: s, shower: shows, limit: *limit, view: &traceView{Trace: k.args[0], Tree: []*traceNode{}},
			projections: slices.Concat(k.Projections, *projections)}
		if !r.from.IsZero() {
			t.view.Since = at(r.from)
		}
		if err = t.run(r); err == nil || t.view.Events > 0 {
			k.view = t.view
			t.ends(err)
		}
		return err
	})
}

// tracing is one run of trace.
type tracing struct {
	*answer
	progress func(format string, args ...any) // is told how far it is
	store    annals.Store
	shower
	limit       int
	view        *traceView
	projections []string

	nodes   map[string]*traceNode // by the name of what can cause something
	found   []*traceNode          // the events and states in the tree
	waiting []pending             // the newest events that have a cause, which is not in the tree
	step    *traceNode            // the newest, whose events may follow
}

// pending is an event whose cause was not found yet: the clock that gave it its time may be behind that of its cause.
type pending struct {
	event  annals.Event
	what   string
	causes []string
}

// mostWaiting is the most events in tracing.waiting, and mostWaitingBytes the largest payload there.
const (
	mostWaiting      = 1000
	mostWaitingBytes = 64 << 10
)

// run searches events, then states, and asks which projections have handled what was found.
func (t *tracing) run(r *reading) error {
	if err := t.search(r); err != nil {
		return err
	}
	return t.handled()
}

func (t *tracing) search(r *reading) error {
	t.nodes = map[string]*traceNode{}
	f := annals.Filter{Type: r.kind, After: annals.Offset{Time: r.from}}
	for e, err := range limited(t.ctx, t.there(t.store, f), r.rate) {
		if err != nil {
			return err
		}
		t.view.Events++
		if err := t.look(e, "event"); err != nil || t.full() {
			return err
		}
		t.progress("searched: %s, found: %d", count(t.view.Events, "event"), t.view.Found)
	}
	if caps := t.store.Capabilities(); caps.StateQueries && caps.StateMetadata {
		for s, err := range limited(t.ctx, t.store.Query().States(t.ctx, f), r.rate) {
			if err != nil {
				return err
			}
			if strings.HasPrefix(s.ID.Type(), "annals.") {
				continue // of the library
			}
			t.view.States++
			e := annals.Event{ID: s.ID, SeqNr: s.Revision, Time: s.Time, Payload: s.Payload, Tags: s.Tags, Metadata: s.Metadata}
			if err := t.look(e, "state"); err != nil || t.full() {
				return err
			}
		}
	}
	t.view.Complete = true
	return nil
}

func (t *tracing) full() bool { return t.view.Found >= t.limit }

// look adds e to the tree if it belongs there.
func (t *tracing) look(e annals.Event, what string) error {
	correlation, causation := t.traceOf(e)
	step := stepOf(e)
	causes := []string{nameOf(e.ID, e.SeqNr)} // of a command whose key its entity has
	switch {
	case step != nil:
		causes = append(causes, causesOf(step, e.ID)...)
	case causation != "":
		causes = append(causes, causation)
	}
	if t.Trace == nil && step == nil {
		causes = append(causes, idsIn(e.Payload)...)
	}
	parent := t.parent(causes)
	if parent == nil && t.follows(e) {
		parent = t.step
	}
	wanted := t.view.Trace
	if parent != nil || correlation == wanted || causation == wanted || nameOf(e.ID, e.SeqNr) == wanted || e.WriteID.String() == wanted {
		return t.add(e, what, step, parent, causation)
	}
	if len(causes) > 1 && len(e.Data) <= mostWaitingBytes {
		if len(t.waiting) == mostWaiting {
			t.waiting = slices.Delete(t.waiting, 0, mostWaiting/2)
		}
		t.waiting = append(t.waiting, pending{e, what, causes})
	}
	return nil
}

// parent is the first of causes in the tree.
func (t *tracing) parent(causes []string) *traceNode {
	for _, c := range causes {
		if n := t.nodes[c]; n != nil {
			return n
		}
	}
	return nil
}

// follows reports whether e is an event of the newest step.
func (t *tracing) follows(e annals.Event) bool {
	return t.step != nil && t.step.Event.ID == e.ID && e.WriteID != annals.WriteID{} && t.step.Event.Writer == e.WriteID.String() && stepOf(e) == nil
}

// add adds e below parent, or as a root of the tree.
func (t *tracing) add(e annals.Event, what string, step *process.StoredStep, parent *traceNode, causation string) error {
	v := t.viewOf(e, t.shower, what == "state")
	n := &traceNode{What: what, Event: &v, offset: e.Offset()}
	if parent == nil && !t.hide {
		n.Causation = causation
	}
	t.found = append(t.found, n)
	t.put(n, parent, nameOf(e.ID, e.SeqNr))
	if e.WriteID != (annals.WriteID{}) && t.nodes[e.WriteID.String()] == nil {
		t.nodes[e.WriteID.String()] = n
	}
	if step != nil {
		t.step, n.Handles = n, handledBy(step)
		if err := t.addStep(e, n, step); err != nil {
			return err
		}
	}
	return t.attach()
}

// put puts n into the tree.
func (t *tracing) put(n, parent *traceNode, name string) {
	t.view.Found++
	if parent != nil && parent.depth == mostDepth {
		parent = parent.parent
	}
	if t.nodes[name] = n; parent != nil {
		n.parent, n.depth = parent, parent.depth+1
		parent.Caused = append(parent.Caused, n)
	} else {
		t.view.Tree = append(t.view.Tree, n)
	}
}

// attach adds the first of what waits whose cause is in the tree now; add calls attach again.
func (t *tracing) attach() error {
	for i, p := range t.waiting {
		if parent := t.parent(p.causes); parent != nil && !t.full() {
			t.waiting = slices.Delete(t.waiting, i, i+1)
			return t.add(p.event, p.what, stepOf(p.event), parent, "")
		}
	}
	return nil
}

// ends says what to do next.
func (t *tracing) ends(err error) {
	switch {
	case err != nil:
	case t.full() && !t.view.Complete:
		t.say("more", t.again("", "--since", cmp.Or(t.view.Since, "0"), "--limit", fmt.Sprint(min(10*t.limit, mostIDs))), "it ended because so much was found")
	case t.view.Found > 0:
		for _, n := range t.view.Tree {
			if n.Event != nil {
				t.say("next", t.next("show", string(n.Event.ID)), "what happened to the first entity")
				return
			}
		}
	case t.view.Since != "":
		t.say("nothing", t.again("", "--since", "0"), "nothing belongs to it; this searches everything")
	default:
		t.say("nothing", "", "nothing belongs to it")
	}
}

// nameOf is the name of an event as a cause.
func nameOf(id annals.PersistenceID, n annals.SeqNr) string { return fmt.Sprintf("%s/%d", id, n) }

// traceOf is what Config.Trace says of e, nothing when it panics.
func (a *answer) traceOf(e annals.Event) (correlation, causation string) {
	defer func() {
		if recover() != nil {
			correlation, causation = "", ""
		}
	}()
	if a.Trace != nil {
		return a.Trace(e)
	}
	return traceIn(e.Metadata)
}

// traceIn is the correlation and causation in metadata of JSON or CBOR.
func traceIn(p annals.Payload) (correlation, causation string) {
	for member, value := range members(p) {
		switch strings.TrimSuffix(strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(member)), "id") {
		case "correlation":
			correlation = value
		case "causation":
			causation = value
		}
	}
	return correlation, causation
}

// idsIn are the texts in a JSON payload that may be ids of commands.
func idsIn(p annals.Payload) (all []string) {
	for _, value := range members(p) {
		if strings.Count(value, "/") >= 2 {
			all = append(all, value)
		}
	}
	slices.Sort(all)
	return all
}

// members are the members of an object in JSON or CBOR whose values are texts or numbers.
func members(p annals.Payload) map[string]string {
	if len(p.Data) == 0 {
		return nil
	}
	value := storedJSON(p)
	if value == nil {
		value = storedCBOR(p)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(value, &object) != nil {
		return nil
	}
	all := map[string]string{}
	for member, value := range object {
		var text string
		switch {
		case json.Unmarshal(value, &text) == nil && text != "":
			all[member] = text
		case len(value) > 0 && (value[0] == '-' || value[0] >= '0' && value[0] <= '9'):
			all[member] = string(value)
		}
	}
	return all
}
