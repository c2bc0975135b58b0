package operate

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
)

// mostEvents is the largest --limit of show.
const mostEvents = 1000

// showing is what show was asked for.
type showing struct {
	*answer
	store  annals.Store
	caps   annals.Capabilities
	id     annals.PersistenceID
	entity Entity // nil: not known
	named  string // the id that the program has
	shower
	after        annals.SeqNr
	limit        int
	mostReplayed annals.SeqNr // events after the snapshot that page reads for the newest state; 0: any number
}

func (o *options) showCommand() *cobra.Command {
	c := &cobra.Command{Use: "show ID", Short: "Show what happened to an entity",
		Long: "Show the events of an entity in pages, with its newest state; with --at one event and the state after it.\n\n" +
			"The states, and what --try answers, need a program that has the behavior."}
	f := c.Flags()
	after := f.Int64("after", 0, "begin after this number")
	limit := f.Int("limit", 100, fmt.Sprintf("at most so many events, up to %d", mostEvents))
	moment := f.String("at", "", "the state after this number, or at this time (RFC 3339)")
	diff := f.Bool("diff", false, "with --at N: what the event changed")
	payloads := newPayloadFlags(c)
	try := f.String("try", "", "what Decide answers to this command, a JSON, at --at or now; nothing is written")
	return o.command(c, func(k *call) error {
		switch {
		case *limit < 1 || *limit > mostEvents:
			return usage("--limit is 1 to %d", mostEvents)
		case *after < 0:
			return usage("--after is a number of an event")
		case *diff && *moment == "":
			return usage("--diff needs --at")
		}
		m, err := parseMoment(*moment)
		if err != nil {
			return err
		}
		if *diff && m.number == nil {
			return usage("--diff needs the number of an event in --at")
		}
		s, shows, err := payloads.open(k)
		if err != nil {
			return err
		}
		w := k.showing(s, annals.PersistenceID(k.args[0]), false)
		w.shower = shows
		w.after, w.limit = annals.SeqNr(*after), *limit
		if *moment == "" && *try == "" {
			return w.page()
		}
		w.whole = true
		return w.moment(m, *diff, *try)
	})
}

// showing is what there is to show of the entity id in s.
func (a *answer) showing(s annals.Store, id annals.PersistenceID, raw bool) *showing {
	w := &showing{answer: a, store: s, caps: s.Capabilities(), id: id, shower: a.shower(raw), limit: 100}
	w.entity, w.named = a.entity(id)
	if a.command == nil { // of the page
		a.command, a.args = []string{"show"}, []string{string(id)}
	}
	return w
}

// parseMoment reads --at.
func parseMoment(text string) (moment, error) {
	if text == "" {
		return moment{}, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		number := annals.SeqNr(n)
		return moment{number: &number}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return moment{}, usage("--at is the number of an event, or a time such as 2026-11-27T18:00:00Z")
	}
	return moment{time: t}, nil
}

// page shows a page of events, and the newest state.
func (w *showing) page() error {
	v := &entityView{ID: w.id, Kind: "unknown", Events: []eventView{}}
	if w.entity != nil {
		v.Kind = w.entity.kind()
	}
	if err := w.stored(v); err != nil {
		return err
	}
	if w.caps.Events {
		if err := w.events(v); err != nil {
			return err
		}
	}
	w.view = v
	w.newest(v)
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.ends(v)
	return nil
}

// stored finds the durable state and the newest snapshot.
func (w *showing) stored(v *entityView) error {
	ctx := w.ctx
	if w.caps.States {
		s, ok, err := w.store.States().Get(ctx, w.id)
		if err != nil {
			return err
		}
		if v.Revision, v.Deleted = s.Revision, s.Revision > 0 && !ok; ok {
			v.State = &stateView{Number: s.Revision, Time: at(s.Time), Payload: w.show(s.Payload, decodes(w.entity, true)), Tags: s.Tags, Metadata: w.metadata(s.Metadata)}
		}
	}
	if w.caps.Snapshots {
		s, ok, err := w.store.Snapshots().Latest(ctx, w.id, annals.SnapshotCriteria{})
		if err != nil {
			return err
		}
		if ok {
			v.Snapshot = &snapshotView{s.SeqNr, at(s.Time), s.Manifest, len(s.Data)}
		}
	}
	return nil
}

// events reads a page of events.
func (w *showing) events(v *entityView) (err error) {
	if v.Last, err = w.store.Journal().LastSeqNr(w.ctx, w.id); err != nil || v.Last <= w.after {
		return err
	}
	for e, err := range w.store.Journal().Replay(w.ctx, w.id, w.after+1, annals.MaxSeqNr) {
		if errors.Is(err, annals.ErrCorrupt) { // what can be read is shown
			past := w.after + 1
			if n := len(v.Events); n > 0 {
				past = v.Events[n-1].Number + 1
			}
			w.find("corrupt", w.again("", "--after", fmt.Sprint(past)), "%s", plain(err))
			v.broken = true
			return nil
		}
		if err != nil {
			return err
		}
		if v.More = len(v.Events) == w.limit; v.More {
			break
		}
		v.Events = append(v.Events, w.event(e))
	}
	return nil
}

func (w *showing) event(e annals.Event) eventView {
	v := w.viewOf(e, w.shower, false)
	if !w.hide {
		v.correlation, v.causation = w.traceOf(e)
	}
	return v
}

// decodes is how e decodes events or states; nil when e is not known.
func decodes(e Entity, states bool) func(annals.Payload) (any, error) {
	switch {
	case e == nil:
		return nil
	case states:
		return e.state
	}
	return e.event
}

// newest adds the state of an event-sourced entity.
func (w *showing) newest(v *entityView) {
	if w.entity == nil || v.State != nil || v.Last == 0 || v.broken || w.mostReplayed > 0 && v.Last-v.covered() > w.mostReplayed {
		return
	}
	p, n, err := w.load(moment{})
	if err != nil {
		w.say(codeOf(err), "", "the behavior cannot load its state: %s", plain(err))
		return
	}
	v.State = &stateView{Number: n, Payload: w.show(p, decodes(w.entity, true))}
}

// load loads the state at m.
func (w *showing) load(m moment) (annals.Payload, annals.SeqNr, error) {
	p, n, err := w.entity.load(w.ctx, w.store, w.named, m, false)
	return p, n, w.hidden(err)
}

// hidden is err of a behavior, without its text where payloads are hidden and it may have a part of one.
func (w *showing) hidden(err error) error {
	for _, kind := range []error{annals.ErrCorrupt, annals.ErrPanic} {
		if w.hide && errors.Is(err, kind) {
			return &annals.Error{Op: "load", ID: w.id, Kind: kind, Err: errors.New("the text is hidden, too")}
		}
	}
	return err
}

// ends says what to do next.
func (w *showing) ends(v *entityView) {
	id := string(w.id)
	switch n := len(v.Events); {
	case v.broken: // it was said what to do
	case v.Last == 0 && v.Revision == 0:
		w.say("nothing", w.nextIDs(w.store, ""), "the store has nothing of this id")
	case v.More:
		w.say("more", w.again("", "--after", fmt.Sprint(v.Events[n-1].Number)), "the last number is %d", v.Last)
	case n == 0 && v.Last > w.after:
		w.say("deleted", "", "the events up to number %d are deleted", v.Last)
	case n > 0 && w.entity != nil:
		w.say("end", w.again("--after --limit", "--at", fmt.Sprint(v.Events[n-1].Number), "--diff"), "these are all events")
	case n > 0:
		w.say("end", w.again("--after --limit", "--at", fmt.Sprint(v.Events[n-1].Number)), "these are all events")
	case w.id.Type() != "":
		w.say("end", w.nextIDs(w.store, " --type "+shell(w.id.Type())+" --after "+shell(id)), "it has no events")
	}
	if len(v.Events) > 0 && v.Events[0].Number > w.after+1 {
		w.say("deleted", "", "there are no events before number %d: they are deleted, or the numbers were left unused", v.Events[0].Number)
	}
}

// moment shows one event and the state after it, and what Decide answers then.
func (w *showing) moment(m moment, diff bool, try string) error {
	v := &momentView{ID: w.id}
	if m.number != nil && w.caps.Events && *m.number > 0 {
		for e, err := range w.store.Journal().Replay(w.ctx, w.id, *m.number, *m.number) {
			if err != nil {
				return err
			}
			shown := w.event(e)
			v.Event = &shown
		}
	}
	switch known := w.entity != nil; {
	case !known && m.number != nil && !diff && try == "":
		if v.Event == nil {
			return usage("there is no event %d", *m.number)
		}
		w.view = v
		return nil
	case !known:
		return w.noBehavior(w.id)
	}
	if err := w.then(v, m, diff); err != nil {
		return err
	}
	if try != "" {
		if err := w.decides(v, m, try); err != nil {
			return err
		}
	}
	w.view = v
	if m.number != nil && v.Number == *m.number {
		w.say("next", w.again("--at --diff --try", "--after", fmt.Sprint(v.Number)), "the events after it")
	}
	return nil
}

// then loads the state at m, and with diff what was different before its event.
func (w *showing) then(v *momentView, m moment, diff bool) error {
	p, n, err := w.load(m)
	if errors.Is(err, annals.ErrInvalid) {
		return &failure{wrongUsage, diagnostic{"invalid", plain(err), w.next("show", string(w.id))}}
	}
	if err != nil {
		return err
	}
	v.Number, v.State = n, w.show(p, decodes(w.entity, true))
	if !diff {
		return nil
	}
	if n == 0 {
		return usage("--diff needs the number of an event in --at")
	}
	before := n - 1
	q, _, err := w.load(moment{number: &before})
	if err != nil {
		return err
	}
	v.Diff = []difference{}
	if then := w.show(q, decodes(w.entity, true)); !w.hide {
		v.Diff = append(v.Diff, differences(then.Value, v.State.Value)...)
	}
	return nil
}

// decides asks Decide.
func (w *showing) decides(v *momentView, m moment, try string) error {
	t, err := w.entity.try(w.ctx, w.store, w.named, m, try)
	if err != nil {
		return w.hidden(err)
	}
	v.Try = &tryView{At: t.number, Deletes: t.deleted, Events: []*shown{}}
	if t.rejected != nil {
		v.Try.Rejected = fmt.Sprintf("an error of type %T", t.rejected)
		if !w.hide {
			v.Try.Rejected = t.rejected.Error()
		}
	}
	for _, p := range t.events {
		v.Try.Events = append(v.Try.Events, w.show(p, w.entity.event))
	}
	if t.state != nil {
		v.Try.State = w.show(*t.state, w.entity.state)
	}
	return nil
}
