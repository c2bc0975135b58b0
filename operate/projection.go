package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
)

func (o *options) projectionCommand() *cobra.Command {
	c := o.group(&cobra.Command{Use: "projection", Aliases: []string{"projections"}, Short: "Show and control projections",
		Long: "Show and control projections, in whatever processes they run. The store is that of their positions."})
	c.AddCommand(o.listCommand(), o.statusCommand(), o.awaitCommand(), o.pauseCommand(), o.resumeCommand(), o.resetCommand(), o.rebuildCommand(), o.parkedCommand(),
		o.retryCommand(), o.discardCommand())
	for _, sub := range c.Commands() {
		sub.ValidArgs = o.Projections
	}
	return c
}

// done says what a command did, or would do.
type done struct {
	Projection string `json:"projection"`
	Done       bool   `json:"done"` // false: a dry run
	What       string `json:"what"`
}

func (d done) print(w io.Writer) { fmt.Fprintf(w, "%s: %s\n", name(d.Projection), d.What) }

// control returns the Control of the projection that the first argument names.
func (k *call) control() (*projection.Control, error) {
	s, err := k.store()
	if err != nil {
		return nil, err
	}
	return projection.NewControl(s, k.args[0]), nil
}

// neverRun is an error when s lists projections and n is not among them: the name may be wrong.
func (a *answer) neverRun(s annals.Store, n string) error {
	if names, err := projection.Names(a.ctx, s); err != nil || slices.Contains(names, n) {
		return nil //nolint:nilerr // the store cannot list them
	}
	return &failure{wrongUsage, diagnostic{"never-run", name(n) + ": it has not been run in this store", a.next("projection list")}}
}

// warn says so when the projection that the first argument names has not been run.
func (k *call) warn() {
	if err := k.neverRun(k.opened[0], k.args[0]); err != nil {
		d, _ := k.explain(err)
		k.diagnostics = append(k.diagnostics, d)
	}
}

// changeable is an error when n has not been run and the program does not name it: a change would leave a projection without a runner.
func (a *answer) changeable(s annals.Store, n string) error {
	if slices.Contains(a.Projections, n) {
		return nil
	}
	return a.neverRun(s, n)
}

// changing is control for a command that changes the projection, or would.
func (k *call) changing() (*projection.Control, error) {
	control, err := k.control()
	if err == nil {
		err = k.changeable(k.opened[0], k.args[0])
	}
	return control, err
}

// refused is err, of a change that the projection or the entity may not allow as it is now.
func (k *call) refused(err error) error {
	if !errors.Is(err, annals.ErrInvalid) {
		return err
	}
	return &failure{wrongUsage, diagnostic{"invalid", plain(err), k.next("projection parked", k.args[0])}}
}

// stores opens the store of the positions and that of the events, see source.
func (k *call) stores(source string) (positions, events annals.Store, err error) {
	if positions, err = k.store(); err == nil {
		events, err = k.source(source)
	}
	return positions, events, err
}

// source opens the store of the events, which is that of the positions if address is empty.
func (k *call) source(address string) (annals.Store, error) {
	if address == "" {
		return k.opened[0], nil
	}
	address, err := k.named(address)
	if err != nil {
		return nil, err
	}
	return k.open(address)
}

func sourceFlag(c *cobra.Command) *string {
	return c.Flags().String("source", "", "URL of the store of the events, if that is another one")
}

type namesView struct {
	Names []string `json:"names"`
	All   bool     `json:"all"` // the store listed them; otherwise the program knows only these
}

func (v namesView) print(w io.Writer) {
	for _, n := range v.Names {
		fmt.Fprintln(w, name(n))
	}
}

func (o *options) listCommand() *cobra.Command {
	return o.command(&cobra.Command{Use: "list", Short: "List the projections that have been run"}, func(k *call) error {
		s, err := k.store()
		if err != nil {
			return err
		}
		v, err := k.names(s)
		if err != nil {
			return err
		}
		k.view = v
		if len(v.Names) == 0 {
			k.say("nothing", "", "no projection has been run in this store")
		} else {
			k.say("next", k.next("projection status", v.Names...), "how far they are")
		}
		return nil
	})
}

// names lists the projections that have been run, and those that the program knows.
func (a *answer) names(s annals.Store) (namesView, error) {
	names, err := projection.Names(a.ctx, s)
	if err != nil && (!errors.Is(err, annals.ErrUnsupported) || len(a.Projections) == 0) {
		return namesView{}, err
	}
	if err != nil {
		a.say("unsupported", "", "the store cannot list projections: these are the ones that the program knows")
	}
	for _, known := range a.Projections {
		if !slices.Contains(names, known) {
			names = append(names, known)
		}
	}
	return namesView{append([]string{}, names...), err == nil}, nil
}

// statusView is the status of projections. Durations are nanoseconds.
type statusView struct {
	Projections []projection.Status `json:"projections"`
}

func (o *options) statusCommand() *cobra.Command {
	c := &cobra.Command{Use: "status NAME…", Short: "Show how far projections are, and what holds them up",
		Long: "Show how far projections are, and what holds them up. The exit status is 1 when entities are parked, or a range is not handled."}
	source := sourceFlag(c)
	return o.command(c, func(k *call) error {
		positions, events, err := k.stores(*source)
		if err != nil {
			return err
		}
		v := statusView{Projections: []projection.Status{}}
		for _, n := range k.args {
			status, err := k.howFar(positions, events, n)
			if err != nil {
				return err
			}
			v.Projections = append(v.Projections, status)
		}
		k.view = v
		return nil
	})
}

// howFar reads how far the projection n is, and judges it.
func (a *answer) howFar(s, events annals.Store, n string) (projection.Status, error) {
	status, err := projection.NewControl(s, n).Status(a.ctx, events)
	if err != nil {
		return status, err
	}
	if a.hide {
		for i := range status.Ranges {
			status.Ranges[i].Cause = "" // it may hold a part of a payload
		}
	}
	a.judge(status, s.Capabilities())
	return status, nil
}

// judge says what an operator should know of s, whose positions are in a store with these claims.
func (a *answer) judge(s projection.Status, caps annals.Capabilities) {
	next := map[string]string{"paused": a.next("projection resume", s.Name), "parked": a.next("projection parked", s.Name)}
	if caps.IDQueries {
		next["never-run"] = a.next("projection list")
	}
	for _, p := range s.Problems() {
		tell := a.say
		if p.Fault {
			tell = a.find
		}
		tell(p.Code, next[p.Code], "%s: %s", name(s.Name), line(p.Text, 1000))
	}
}

func (v statusView) print(w io.Writer) {
	for _, s := range v.Projections {
		what, more := "events", ""
		if s.States {
			what = "states"
		}
		if s.Type != "" {
			more += " of " + name(s.Type)
		}
		if s.Tag != "" {
			more += " with tag " + name(s.Tag)
		}
		least := ""
		if s.LagAtLeast {
			least = "≥ "
		}
		fmt.Fprintf(w, "%s follows %s%s\n", name(s.Name), what, more)
		fmt.Fprintf(w, "lag: %s%d %s, the oldest waits %s; parked: %d\n", least, s.Lag, what, s.LagTime.Round(time.Millisecond), s.Parked)
		for _, r := range s.Ranges {
			runner := r.Runner
			if runner == "" {
				runner = "nobody"
			}
			fmt.Fprintf(w, "  slices %-9s  by %s  lag %d, %s  through %s\n", r.Slices, name(runner), r.Lag, r.LagTime.Round(time.Millisecond), at(r.Through.Time))
		}
	}
}

func (o *options) awaitCommand() *cobra.Command {
	c := &cobra.Command{Use: "await NAME ID N", Short: "Wait until a projection has handled an event",
		Long: "Wait until a projection has handled the event N of an entity. The exit status is 0 then, and 2 when it has not in time."}
	source := sourceFlag(c)
	timeout := c.Flags().Duration("timeout", 30*time.Second, "wait no longer")
	return o.command(c, func(k *call) error {
		n, err := strconv.ParseInt(k.args[2], 10, 64)
		if err != nil || n < 1 {
			return usage("%s is not the number of an event", name(k.args[2]))
		}
		control, err := k.control()
		if err != nil {
			return err
		}
		events, err := k.source(*source)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(k.ctx, *timeout)
		defer cancel()
		err = control.Await(ctx, events, annals.PersistenceID(k.args[1]), annals.SeqNr(n))
		switch {
		case errors.Is(err, projection.ErrParked):
			return &failure{notReached, diagnostic{"parked", plain(err), k.next("projection parked", k.args[0])}}
		case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			k.warn()
			status := "projection status"
			if *source != "" {
				status += " --source " + shell(copied(*source))
			}
			return &failure{notReached, diagnostic{"timeout", fmt.Sprintf("not handled within %s", *timeout), k.next(status, k.args[0])}}
		case err != nil:
			return err
		}
		k.view = done{k.args[0], true, fmt.Sprintf("has handled event %d of %s", n, name(k.args[1]))}
		return nil
	})
}

func (o *options) pauseCommand() *cobra.Command {
	c := &cobra.Command{Use: "pause NAME", Short: "Stop a projection until it is resumed"}
	timeout := c.Flags().Duration("timeout", time.Minute, "wait no longer for its runners")
	return o.command(c, func(k *call) error {
		control, err := k.changing()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(k.ctx, *timeout)
		defer cancel()
		err = control.Pause(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return &failure{notReached, diagnostic{"timeout", "it is paused, but runners still handle events: " + plain(err), k.next("projection status", k.args[0])}}
		}
		if err != nil {
			if !errors.Is(err, annals.ErrUnsupported) {
				k.say("paused", k.next("projection resume", k.args[0]), "it may be paused")
			}
			return err
		}
		k.view = done{k.args[0], true, "paused: no runner handles events"}
		k.say("paused", k.next("projection resume", k.args[0]), "it stays paused until it is resumed")
		return nil
	})
}

func (o *options) resumeCommand() *cobra.Command {
	return o.command(&cobra.Command{Use: "resume NAME", Short: "End a pause"}, func(k *call) error {
		control, err := k.changing()
		if err != nil {
			return err
		}
		if err := control.Resume(k.ctx); err != nil {
			return err
		}
		k.view = done{k.args[0], true, "resumed"}
		return nil
	})
}

func (o *options) resetCommand() *cobra.Command {
	c := &cobra.Command{Use: "reset NAME", Short: "Have a projection handle events again; a dry run without --yes",
		Long: "Have a projection handle events again, from the first one or from --to. Its read model is not emptied: pause the projection, empty the read model,\nreset and resume it."}
	to := c.Flags().String("to", "0", "the events stored at or after this time (RFC 3339), or so long ago; 0 is all")
	yes := c.Flags().Bool("yes", false, "do it")
	return o.command(c, func(k *call) error {
		from, err := since(*to)
		if err != nil {
			return err
		}
		control, err := k.changing()
		if err != nil {
			return err
		}
		what := "all events"
		if !from.IsZero() {
			what, *to = "the events since "+at(from), at(from)
		}
		if !*yes {
			k.view = done{k.args[0], false, "would handle " + what + " again"}
			k.say("dry-run", k.again("", "--to", *to, "--yes"), "nothing was changed")
			return nil
		}
		if err := control.Reset(k.ctx, annals.Offset{Time: from}); errors.Is(err, annals.ErrInvalid) {
			return k.refused(err) // nothing was begun
		} else if err != nil {
			k.say("paused", k.next("projection resume", k.args[0]), "the projection may be paused: reset it again, or resume it")
			return err
		}
		k.view = done{k.args[0], true, "handles " + what + " again"}
		return nil
	})
}
