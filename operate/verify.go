package operate

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/verify"
)

// mostFindings ends a run of verify, which can be continued. So many holes are listed, too, where they are no findings; further ones are counted.
const mostFindings = 1000

// verifyView is what verify tells.
type verifyView struct {
	Checked  int       `json:"checked"` // entities
	Skipped  int       `json:"skipped"` // entities without news since --since
	Damaged  int       `json:"damaged"` // findings but holes
	Holes    int       `json:"holes"`   // numbers that readers take for unused: in so many places
	Findings []finding `json:"findings"`
	After    string    `json:"after,omitempty"` // for --after
	Complete bool      `json:"complete"`        // every entity was checked
}

// finding is something that is wrong with an entity, or may be.
type finding struct {
	Code       ability.Code         `json:"code"`
	ID         annals.PersistenceID `json:"id,omitempty"`
	Projection string               `json:"projection,omitempty"`
	From       annals.SeqNr         `json:"from,omitempty"` // of events, or a snapshot, or of revisions
	To         annals.SeqNr         `json:"to,omitempty"`
	Error      string               `json:"error,omitempty"`
	Means      string               `json:"means"` // for readers
	Do         string               `json:"do"`
}

func (v *verifyView) print(w io.Writer) {
	fmt.Fprintf(w, "entities checked: %d, findings: %d\n", v.Checked, v.Damaged)
	if v.Skipped > 0 {
		fmt.Fprintf(w, "entities without news: %d\n", v.Skipped)
	}
	if v.Holes > 0 {
		fmt.Fprintf(w, "numbers that readers take for unused: in %d places\n", v.Holes)
	}
}

func (o *options) verifyCommand() *cobra.Command {
	c := &cobra.Command{Use: "verify [ID…]", Short: "Look for what is damaged",
		Long: "Look for what is damaged: of all entities, of those of a type, of those with news, or of those named. All their events, snapshots and states are\nread. The exit status is 1 when something was found. It can be interrupted: it says how to go on."}
	f := c.Flags()
	r := &reading{}
	r.limits(c, o)
	f.StringVar(&r.since, "since", "", "only entities with news since this time (RFC 3339), or since so long ago")
	after := f.String("after", "", "begin behind this place, which an interrupted run has named")
	strict := f.Bool("strict", false, "numbers that readers take for unused are findings, too")
	running := f.StringSlice("running", o.Running, "names of all projections and leases and types of all process managers that there are: what is kept for others is a finding")
	sources := f.StringArray("source", nil, "NAME=URL of the store of the events of a projection, if that is another one; may be repeated")
	return o.command(c, func(k *call) error {
		if len(k.args) > 0 && *after != "" {
			return usage("give ids, or --after")
		}
		s, err := r.open(k)
		if err != nil {
			return err
		}
		v := verification{call: k, strict: *strict, view: &verifyView{Findings: []finding{}},
			options: verify.Options{Type: r.kind, After: *after, Since: r.from, Rate: r.rate, Running: *running, Decode: o.decode}}
		if !r.from.IsZero() {
			v.since = []string{"--since", at(r.from)}
		}
		for _, id := range k.args {
			v.options.IDs = append(v.options.IDs, annals.PersistenceID(id))
		}
		v.options.Sources = map[string]annals.Store{}
		for _, text := range *sources {
			of, address, ok := strings.Cut(text, "=")
			if !ok || of == "" {
				return usage("--source is NAME=URL")
			}
			if v.options.Sources[of], err = k.source(address); err != nil {
				return err
			}
		}
		k.view = v.view
		return v.run(s)
	})
}

// decode is verify.Options.Decode. Of an entity that the program does not know nothing is decoded.
func (o *options) decode(id annals.PersistenceID, p ability.Stored) (err error) {
	e, _ := o.entity(id)
	switch {
	case e == nil:
	case p.Kind != ability.StoredEvent:
		_, err = e.state(p.Payload)
	case e.kind() != durableKind: // the program does not say how the events of a durable state are read
		_, err = e.event(p.Payload)
	}
	return err
}

// verification is one run of verify.
type verification struct {
	*call
	options verify.Options
	strict  bool
	view    *verifyView
	since   []string // the flag of a run that goes on, with the time
}

func (v *verification) run(s annals.Store) error {
	for step, err := range verify.Store(v.ctx, s, v.options) {
		v.view.After = step.After
		if err != nil {
			v.resume()
			return err
		}
		switch {
		case strings.HasPrefix(step.ID.Type(), "annals."), step.ID == "":
		case step.Skipped:
			v.view.Skipped++
		default:
			v.view.Checked++
		}
		for _, f := range step.Found {
			v.judge(f)
		}
		v.progress("checked: %d, found: %d", v.view.Checked, v.view.Damaged)
		if v.view.Damaged >= mostFindings || v.strict && v.view.Holes >= mostFindings {
			v.resume()
			return nil
		}
	}
	v.view.Complete, v.view.After = true, ""
	return nil
}

// judge adds f to the findings.
func (v *verification) judge(f verify.Finding) {
	say, next, where := v.find, "", ""
	if !f.Accepted() {
		v.view.Damaged++
	} else if v.view.Holes++; !v.strict {
		if say = v.say; v.view.Holes > mostFindings {
			return
		}
	}
	kind, text := f.Kind(), line(plain(f.Damage), 1000)
	if v.hide && f.Code == verify.Codec {
		text = "a payload cannot be decoded" // the error may hold a part of it
	}
	v.view.Findings = append(v.view.Findings, finding{f.Code, f.ID, f.Projection, f.From, f.To, text, kind.Means, kind.Do})
	switch {
	case f.Projection != "":
		where, next = "projection "+name(f.Projection), v.next("projection status", f.Projection)
	case f.From > 1 && slices.Contains([]ability.Code{ability.Missing, ability.Hole, ability.Doubled, ability.Incomplete, ability.Unreadable, verify.Codec}, f.Code):
		where, next = name(string(f.ID)), v.next(fmt.Sprintf("show --after %d", max(f.From-2, 0)), string(f.ID))
	case f.ID != "":
		where, next = name(string(f.ID)), v.next("show", string(f.ID))
	default:
		where = "the store"
	}
	switch {
	case f.From > 0 && f.To > f.From:
		where += fmt.Sprintf(" %d to %d", f.From, f.To)
	case f.From > 0:
		where += fmt.Sprintf(" %d", f.From)
	}
	say(string(f.Code), next, "%s: %s: %s. It means: %s. To do: %s", f.Code, where, text, kind.Means, kind.Do)
}

// resume says how to go on.
func (v *verification) resume() {
	if v.view.After != "" {
		v.say("resume", v.again("", append(v.since, "--after", v.view.After)...), "it ended before everything was checked")
	}
}
