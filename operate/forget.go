package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/cleanup"
	"github.com/annals-go/annals/projection"
)

// cleanView is what a run of package cleanup did, or in a dry run would do.
type cleanView struct {
	DryRun    bool                 `json:"dryRun"`
	Entities  int                  `json:"entities"`
	Failed    int                  `json:"failed"`
	Events    annals.SeqNr         `json:"events"`    // deleted
	Snapshots int                  `json:"snapshots"` // entities whose snapshots, or older ones, were deleted
	States    int                  `json:"states"`    // deleted
	Forgotten int                  `json:"forgotten"` // entities of which the store has nothing any more
	Waiting   int                  `json:"waiting"`   // entities that can be forgotten later
	Last      annals.PersistenceID `json:"last,omitempty"`
	Left      []string             `json:"left"` // what stays where
}

func (v *cleanView) print(w io.Writer) {
	would := ""
	if v.DryRun {
		would = "would be "
	}
	fmt.Fprintf(w, "entities: %d, of which failed: %d\n", v.Entities, v.Failed)
	fmt.Fprintf(w, "%sdeleted: events: %d, snapshots of entities: %d, states: %d\n", would, v.Events, v.Snapshots, v.States)
	if v.Forgotten+v.Waiting > 0 {
		fmt.Fprintf(w, "%sforgotten: %d, later: %d\n", would, v.Forgotten, v.Waiting)
	}
	for _, l := range v.Left {
		fmt.Fprintf(w, "left: %s\n", l)
	}
}

// leftElsewhere is what the store does not know of.
const leftElsewhere = "read models, brokers, copies, logs and backups: what they got"

// cleaning is a run of package cleanup.
type cleaning struct {
	yes     bool
	options cleanup.Options
}

// method is a method of a Cleaner.
type method func(c *cleanup.Cleaner, ctx context.Context, ids iter.Seq2[annals.PersistenceID, error]) (cleanup.Report, error)

// cleaner adds the flags of both commands to c.
func cleaner(c *cobra.Command) *cleaning {
	n := &cleaning{}
	f := c.Flags()
	f.BoolVar(&n.yes, "yes", false, "do it; without it nothing is changed")
	f.IntVar(&n.options.PerSecond, "rate", 0, "at most so many entities in a second; 0 is no limit")
	f.BoolVar(&n.options.NoWriters, "no-writers", false, "no program writes to these entities or has them in memory; some stores demand it")
	f.StringArrayVar(&n.options.Projections, "projection", nil, "delete no event that this projection has not handled; may be repeated")
	return n
}

// run runs work, a method of a Cleaner, on ids.
func (n *cleaning) run(k *call, s annals.Store, ids iter.Seq2[annals.PersistenceID, error], work method) (*cleanView, error) {
	o := n.options
	o.DryRun = !n.yes
	o.Progress = func(_ cleanup.Result, r cleanup.Report) { k.progress("entities: %d", r.Entities) }
	c, err := cleanup.New(s, o)
	if err != nil {
		return nil, err
	}
	r, err := work(c, k.ctx, ids)
	v := &cleanView{DryRun: o.DryRun, Entities: r.Entities, Failed: r.Failed, Events: r.Events, Snapshots: r.Snapshots, States: r.States, Forgotten: r.Forgotten,
		Waiting: r.Waiting, Last: r.Last, Left: []string{}}
	if err == nil || r.Entities > 0 {
		k.view = v
	}
	if failed, ok := errors.AsType[*cleanup.Error](err); ok {
		for _, f := range failed.Failed {
			k.find(codeOf(f.Err), k.next("show", string(f.ID)), "%s", plain(f.Err))
		}
		err = failed.Err
	}
	return v, err
}

// dry says how to do what a dry run has shown.
func (n *cleaning) dry(k *call) {
	if !n.yes {
		k.say("dry-run", k.again("", "--yes"), "nothing was changed")
	}
}

func (o *options) forgetCommand() *cobra.Command {
	c := &cobra.Command{Use: "forget ID…", Short: "Delete entities, and have the store forget their numbers",
		Long: "Delete the events, snapshots and states of entities. The store keeps their last numbers for 15 minutes, so that late writers get a conflict: run\nthe command again then, and the store knows nothing of them any more."}
	n := cleaner(c)
	c.Flags().BoolVar(&n.options.AtOnce, "at-once", false, "do not wait 15 minutes: only when no program can write to them any more")
	return o.command(c, func(k *call) error {
		s, err := k.store()
		if err != nil {
			return err
		}
		v, err := n.run(k, s, listed(k.args), (*cleanup.Cleaner).ForgetEntities)
		for i := 0; i < len(k.args) && err == nil && v.DryRun && v.Failed == 0; i++ {
			var ok bool
			if ok, err = k.exists(s, annals.PersistenceID(k.args[i])); err == nil && !ok {
				k.say("nothing", k.nextIDs(s, ""), "%s: the store has nothing of this id: is it the right one?", name(k.args[i]))
			}
		}
		if err != nil {
			return err
		}
		if v.Waiting > 0 {
			v.Left = append(v.Left, fmt.Sprintf("the store: the last number of each entity that waits, for %s after the delete", ability.ForgetAge))
			if n.yes {
				k.say("waiting", k.again(""), "run this again %s after the delete", ability.ForgetAge)
			}
		}
		v.Left = append(v.Left, "projections whose positions are in other stores: offsets and parked entities with these ids (projection.Control.Forget)",
			leftElsewhere)
		n.dry(k)
		return nil
	})
}

func (o *options) pruneCommand() *cobra.Command {
	c := &cobra.Command{Use: "prune [ID…]", Short: "Delete events that snapshots cover",
		Long: "Delete the events that the oldest kept snapshot covers, and the snapshots before it: of the entities of a type, or of those named. Programs may\nwrite meanwhile. A snapshot that the program's behavior cannot decode keeps its events."}
	n := cleaner(c)
	f := c.Flags()
	kind := f.String("type", "", "entities of this type")
	after := f.String("after", "", "begin after this id")
	f.IntVar(&n.options.KeepSnapshots, "keep", 1, "the newest so many snapshots stay")
	o.completeType(c)
	return o.command(c, func(k *call) error {
		if (len(k.args) == 0) == (*kind == "") || *kind == "" && *after != "" {
			return usage("prune takes ids, or --type and --after")
		}
		s, err := k.store()
		if err != nil {
			return err
		}
		ids := listed(k.args)
		if *kind != "" {
			ids = s.Query().IDs(k.ctx, *kind, annals.PersistenceID(*after))
		}
		n.options.Readable = k.readable
		v, err := n.run(k, s, ids, (*cleanup.Cleaner).DeleteBeforeSnapshot)
		if err != nil {
			if v != nil && v.Last != "" && *kind != "" {
				k.say("resume", k.again("", "--after", string(v.Last)), "it ended before everything was done")
			}
			return err
		}
		v.Left = append(v.Left, "the store: the newest snapshots and the events after them; entities without a snapshot are whole", leftElsewhere)
		n.guards(k, s)
		n.dry(k)
		return nil
	})
}

// readable is an error when the behavior of a snapshot cannot decode it.
func (k *call) readable(s annals.Snapshot) (err error) {
	if e, _ := k.entity(s.ID); e != nil {
		_, err = e.state(s.Payload)
	}
	return err
}

// guards names the projections that were not asked.
func (n *cleaning) guards(k *call, s annals.Store) {
	if len(n.options.Projections) > 0 || n.yes {
		return
	}
	if names, err := projection.Names(k.ctx, s); err == nil && len(names) > 0 {
		k.say("projections", k.next("projection list"), "projections in the store: %d. With --projection NAME the events that it has not handled are kept", len(names))
	}
}
