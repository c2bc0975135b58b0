package operate

import (
	"context"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// mostFindings ends a run of verify, which can be continued.
const mostFindings = 1000

// verifyView is what verify tells.
type verifyView struct {
	Checked  int                  `json:"checked"` // entities
	Findings []finding            `json:"findings"`
	Last     annals.PersistenceID `json:"last,omitempty"` // the last entity that was checked
	Complete bool                 `json:"complete"`       // every entity was checked
}

// finding is something that is wrong with an entity, or may be.
type finding struct {
	ID    annals.PersistenceID `json:"id"`
	Code  string               `json:"code"` // "corrupt", or "hole": numbers that readers take for unused
	From  annals.SeqNr         `json:"from,omitempty"`
	To    annals.SeqNr         `json:"to,omitempty"`
	Error string               `json:"error,omitempty"`
	Means string               `json:"means"` // for readers
}

// What findings mean.
const (
	meansCorrupt = "readers of the entity and its hosts get ErrCorrupt; the events that are there stay as they are. Compare with a backup"
	meansHole    = "readers take these numbers for unused: another system left them unused, or their events are lost. Compare with a backup"
)

func (v *verifyView) print(w io.Writer) {
	fmt.Fprintf(w, "entities checked: %d, findings: %d\n", v.Checked, len(v.Findings))
}

func (o *options) verifyCommand() *cobra.Command {
	c := &cobra.Command{Use: "verify [ID…]", Short: "Look for lost and unreadable events",
		Long: "Look for lost and unreadable events: of all entities, of those of a type, of those with new events, or of those named. All their events and\ntheir newest snapshots are read. The exit status is 1 when something was found. It can be interrupted: it says how to go on."}
	f := c.Flags()
	kind := f.String("type", "", "only entities of this type")
	after := f.String("after", "", "begin after this id")
	from := f.String("since", "", "only entities with events since this time (RFC 3339), or since so long ago")
	rate := f.Int("rate", 0, "at most so many entities in a second; 0 is no limit")
	o.completeType(c)
	return o.command(c, func(k *call) error {
		switch {
		case *rate < 0:
			return usage("--rate is 0 or more")
		case len(k.args) > 0 && (*kind != "" || *after != "" || *from != ""):
			return usage("verify takes ids, or --type, --after and --since")
		case *after != "" && *from != "":
			return usage("--after is for the order of ids, --since for that of times")
		}
		var began time.Time
		if *from != "" {
			var err error
			if began, err = since(*from); err != nil {
				return err
			}
		}
		s, err := k.store()
		if err != nil {
			return err
		}
		v := verification{call: k, args: []string{"verify"}, view: &verifyView{Findings: []finding{}}}
		k.view = v.view
		if *kind != "" {
			v.args = append(v.args, "--type", *kind)
		}
		var ids iter.Seq2[annals.PersistenceID, error]
		switch {
		case len(k.args) > 0:
			ids = listed(k.args)
		case *from != "":
			v.bySince = true
			ids = v.changed(s, annals.Filter{Type: *kind, After: annals.Offset{Time: began}, KeysOnly: true})
		default:
			ids = s.Query().IDs(k.ctx, *kind, annals.PersistenceID(*after))
		}
		return v.run(s, limited(k.ctx, ids, *rate))
	})
}

// verification is one run of verify.
type verification struct {
	*call
	view    *verifyView
	args    []string // of the command that goes on, without where
	bySince bool
	time    time.Time // of the event whose entity is checked, with bySince
}

func (v *verification) run(s annals.Store, ids iter.Seq2[annals.PersistenceID, error]) error {
	for c, err := range ability.CheckAll(v.ctx, s, ids) {
		if err != nil {
			v.resume()
			return err
		}
		v.view.Checked++
		v.view.Last = c.ID
		v.judge(c)
		v.progress("checked: %d, found: %d", v.view.Checked, len(v.view.Findings))
		if len(v.view.Findings) >= mostFindings {
			v.resume()
			return nil
		}
	}
	v.view.Complete = true
	return nil
}

// judge adds what is wrong with an entity to the findings.
func (v *verification) judge(c ability.Checked) {
	if c.Err != nil {
		v.view.Findings = append(v.view.Findings, finding{ID: c.ID, Code: "corrupt", Error: plain(c.Err), Means: meansCorrupt})
		v.find("corrupt", v.next("show", string(c.ID)), "%s: %s", line(plain(c.Err), 1000), meansCorrupt)
	}
	for _, h := range c.Holes {
		v.view.Findings = append(v.view.Findings, finding{ID: c.ID, Code: "hole", From: h.From, To: h.To, Means: meansHole})
		v.find("hole", v.next("show", string(c.ID), "--after", fmt.Sprint(max(h.From-2, 0))), "%s: no events with the numbers %d to %d: %s", name(string(c.ID)), h.From, h.To, meansHole)
	}
}

// resume says how to go on after the last entity.
func (v *verification) resume() {
	switch {
	case v.view.Last == "" || len(v.call.args) > 0:
	case v.bySince:
		v.say("resume", v.next(append(v.args, "--since", at(v.time))...), "it ended before everything was checked")
	default:
		v.say("resume", v.next(append(v.args, "--after", string(v.view.Last))...), "it ended before everything was checked")
	}
}

// changed yields once each entity with an event that fits f, in the order of these events.
func (v *verification) changed(s annals.Store, f annals.Filter) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		seen := map[annals.PersistenceID]struct{}{}
		for e, err := range s.Query().Events(v.ctx, f) {
			if err != nil {
				yield("", err)
				return
			}
			if _, ok := seen[e.ID]; ok {
				continue
			}
			seen[e.ID], v.time = struct{}{}, e.Time
			if !yield(e.ID, nil) {
				return
			}
		}
	}
}

// listed yields ids.
func listed(ids []string) iter.Seq2[annals.PersistenceID, error] {
	return func(yield func(annals.PersistenceID, error) bool) {
		for _, id := range ids {
			if !yield(annals.PersistenceID(id), nil) {
				return
			}
		}
	}
}

// limited yields what items does, at most perSecond in a second if that is not 0. It ends with ctx.
func limited[T any](ctx context.Context, items iter.Seq2[T, error], perSecond int) iter.Seq2[T, error] {
	if perSecond == 0 {
		return items
	}
	return func(yield func(T, error) bool) {
		ticks := time.NewTicker(max(time.Second/time.Duration(perSecond), 1))
		defer ticks.Stop()
		for item, err := range items {
			if !yield(item, err) || err != nil {
				return
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
				var none T
				yield(none, ctx.Err())
				return
			}
		}
	}
}
