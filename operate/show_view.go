package operate

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/annals-go/annals"
)

// entityView is what show tells of an entity. All times are RFC 3339, "-" where the store does not keep them.
type entityView struct {
	ID       annals.PersistenceID `json:"id"`
	Kind     string               `json:"kind"` // "event-sourced", "durable state", or "unknown" to this program
	Last     annals.SeqNr         `json:"last"` // number of the newest event, deleted ones included
	Revision annals.SeqNr         `json:"revision,omitempty"`
	Deleted  bool                 `json:"deleted,omitempty"` // the durable state
	Snapshot *snapshotView        `json:"snapshot,omitempty"`
	State    *stateView           `json:"state,omitempty"` // the newest; of an event-sourced entity only where the behavior is known
	Events   []eventView          `json:"events"`
	More     bool                 `json:"more"` // there are events after the last one

	broken bool // an event is lost or cannot be read
}

type snapshotView struct {
	Number   annals.SeqNr `json:"number"`
	Time     string       `json:"time"`
	Manifest string       `json:"manifest"`
	Bytes    int          `json:"bytes"`
}

type stateView struct {
	Number   annals.SeqNr `json:"number"` // of the last event in it, or the revision
	Time     string       `json:"time,omitempty"`
	Payload  *shown       `json:"payload"`
	Tags     []string     `json:"tags,omitempty"`
	Metadata *shown       `json:"metadata,omitempty"`
}

type eventView struct {
	ID       annals.PersistenceID `json:"id"`
	Number   annals.SeqNr         `json:"number"`
	Time     string               `json:"time"`
	Payload  *shown               `json:"payload"`
	Tags     []string             `json:"tags,omitempty"`
	Metadata *shown               `json:"metadata,omitempty"`
	Writer   string               `json:"writer,omitempty"` // the id of the write, where the store keeps it
	Adapter  string               `json:"adapter,omitempty"`

	correlation, causation string // for the page
}

// Correlations are what the event belongs to and what caused it, for links to their traces.
func (v *eventView) Correlations() (all []string) {
	for _, c := range []string{v.correlation, v.causation} {
		if c != "" && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all
}

// viewOf is an event, or a state given as one, as w shows it.
func (a *answer) viewOf(e annals.Event, w shower, state bool) eventView {
	known, _ := a.entity(e.ID)
	v := eventView{ID: e.ID, Number: e.SeqNr, Time: at(e.Time), Payload: w.show(e.Payload, decodes(known, state)), Tags: e.Tags, Metadata: w.metadata(e.Metadata), Adapter: e.Adapter}
	if e.WriteID != (annals.WriteID{}) {
		v.Writer = e.WriteID.String()
	}
	return v
}

// metadata is p as it is shown, nil when it is zero.
func (w shower) metadata(p annals.Payload) *shown {
	if p.SerializerID == 0 {
		return nil
	}
	return w.show(p, nil)
}

// more are the parts of an event or a state that few have.
func more(tags []string, metadata *shown, writer, adapter string) string {
	var parts []string
	if len(tags) > 0 {
		parts = append(parts, "tags "+name(strings.Join(tags, ", ")))
	}
	if metadata != nil {
		parts = append(parts, "metadata "+named(metadata.Manifest)+metadata.text(200))
	}
	if writer != "" {
		parts = append(parts, "writer "+writer)
	}
	if adapter != "" {
		parts = append(parts, "adapter "+name(adapter))
	}
	return strings.Join(parts, ", ")
}

// named is a manifest before its payload.
func named(manifest string) string {
	if manifest == "" {
		return ""
	}
	return name(manifest) + " "
}

func (v *entityView) print(w io.Writer) {
	fmt.Fprintf(w, "%s (%s)\n", name(string(v.ID)), v.Kind)
	if v.Last > 0 {
		fmt.Fprintf(w, "last number: %d\n", v.Last)
	}
	switch {
	case v.Deleted:
		fmt.Fprintf(w, "state: deleted, at revision %d\n", v.Revision)
	case v.State != nil:
		s := v.State
		fmt.Fprintf(w, "state at %d: %s%s\n", s.Number, named(s.Payload.Manifest), s.Payload.text(2000))
		if rest := more(s.Tags, s.Metadata, "", ""); rest != "" {
			fmt.Fprintf(w, "  %s\n", rest)
		}
	}
	if s := v.Snapshot; s != nil {
		fmt.Fprintf(w, "snapshot at %d: %s%d bytes, taken %s\n", s.Number, named(s.Manifest), s.Bytes, s.Time)
	}
	for _, e := range v.Events {
		e.line(w, "", "")
	}
}

// covered is the number of the last event in the newest snapshot.
func (v *entityView) covered() annals.SeqNr {
	if v.Snapshot == nil {
		return 0
	}
	return v.Snapshot.Number
}

// line prints an event in a line or two, which begin with indent; before comes before its number.
func (v eventView) line(w io.Writer, indent, before string) {
	fmt.Fprintf(w, "%s%s%d  %s  %s%s\n", indent, before, v.Number, v.Time, named(v.Payload.Manifest), v.Payload.text(300))
	v.details(w, indent)
}

// details prints tags, metadata and what else few events have.
func (v eventView) details(w io.Writer, indent string) {
	if rest := more(v.Tags, v.Metadata, v.Writer, v.Adapter); rest != "" {
		fmt.Fprintf(w, "%s    %s\n", indent, rest)
	}
}

// momentView is what show tells of a moment.
type momentView struct {
	ID     annals.PersistenceID `json:"id"`
	Number annals.SeqNr         `json:"number"` // of the last event in State
	Event  *eventView           `json:"event,omitempty"`
	State  *shown               `json:"state,omitempty"`
	Diff   []difference         `json:"diff,omitempty"`
	Try    *tryView             `json:"try,omitempty"`
}

// tryView is what Decide answers.
type tryView struct {
	At       annals.SeqNr `json:"at"`
	Rejected string       `json:"rejected,omitempty"`
	Events   []*shown     `json:"events"`
	State    *shown       `json:"state,omitempty"` // a durable state that would be saved
	Deletes  bool         `json:"deletes,omitempty"`
}

func (v *momentView) print(w io.Writer) {
	fmt.Fprintln(w, name(string(v.ID)))
	if e := v.Event; e != nil {
		fmt.Fprintf(w, "event %d, %s, %s\n", e.Number, e.Time, name(e.Payload.Manifest))
		e.Payload.print(w, "  ")
		if rest := more(e.Tags, e.Metadata, e.Writer, e.Adapter); rest != "" {
			fmt.Fprintf(w, "  %s\n", rest)
		}
	}
	if v.State != nil {
		fmt.Fprintf(w, "state after event %d\n", v.Number)
		v.State.print(w, "  ")
	}
	if v.Diff != nil {
		fmt.Fprintln(w, "what the event changed")
		for _, d := range v.Diff {
			fmt.Fprintf(w, "  %s\n", d.text())
		}
	}
	if t := v.Try; t != nil {
		t.print(w)
	}
}

func (t *tryView) print(w io.Writer) {
	fmt.Fprintf(w, "at number %d Decide answers\n", t.At)
	switch {
	case t.Rejected != "":
		fmt.Fprintf(w, "  rejected: %s\n", line(t.Rejected, 1000))
	case t.Deletes:
		fmt.Fprintln(w, "  the state is deleted")
	case t.State != nil:
		fmt.Fprintf(w, "  the state becomes %s\n", t.State.text(2000))
	case len(t.Events) == 0:
		fmt.Fprintln(w, "  nothing changes")
	}
	for _, e := range t.Events {
		fmt.Fprintf(w, "  %s%s\n", named(e.Manifest), e.text(2000))
	}
}
