package operate

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals/projection"
)

func (o *options) rebuildCommand() *cobra.Command {
	c := &cobra.Command{Use: "rebuild NAME", Short: "Build a new read model beside the one in use, then switch over; a dry run without --yes",
		Long: "Build a new read model beside the one in use, and switch over to it: Config.Rebuilds of the program says how. The projection goes on meanwhile, and\nstays paused after the switch. An interrupt ends it: it goes on where it was when the command is run again."}
	source := sourceFlag(c)
	yes := c.Flags().Bool("yes", false, "do it; without it nothing is changed")
	return o.command(c, func(k *call) error {
		if _, err := k.control(); err != nil {
			return err
		}
		old := k.args[0]
		make, ok := k.Rebuilds[old]
		if !ok {
			if err := k.changeable(k.opened[0], old); err != nil {
				return err
			}
			k.say("pause", k.next("projection pause", old), "to build it again in place, while nothing reads it: pause it, empty the read model, reset and resume it")
			k.say("reset", k.next("projection reset --yes", old), "when it is paused, and its read model empty")
			return unsupported(k.next("projection resume", old), "the program has no Config.Rebuilds for %s, so the command does not know its handlers", name(old))
		}
		r, err := make(k.ctx, k.opened[0])
		if err != nil {
			return err
		}
		events, err := k.source(*source)
		if err != nil {
			return err
		}
		status, err := r.Next.Control().Status(k.ctx, events)
		if err != nil {
			return err
		}
		progress := r.Progress
		r.Progress = func(s projection.Status) {
			k.progress("%s: %d to go", name(s.Name), s.Lag)
			if progress != nil {
				progress(s)
			}
		}
		if !*yes {
			k.view = done{old, false, fmt.Sprintf("would have %s handle %s, then pause %s and switch over", name(status.Name), behind(status), name(old))}
			k.say("dry-run", k.again("", "--yes"), "nothing was changed")
			return nil
		}
		began := time.Now()
		if err := r.Run(k.ctx); err != nil {
			k.say("resume", k.again("", "--yes"), "%s is in use as before; run this again, and it goes on", name(old))
			return err
		}
		k.view = done{old, true, fmt.Sprintf("%s has taken its place, after %v: run that from now on; %s stays paused", name(status.Name), time.Since(began).Round(time.Second), name(old))}
		k.say("next", k.next("projection status", status.Name), "how far it is")
		return nil
	})
}

// behind is how many events a projection has before it.
func behind(s projection.Status) string {
	switch {
	case len(s.Ranges) == 0:
		return "all events"
	case s.LagAtLeast:
		return fmt.Sprintf("%d events or more", s.Lag)
	}
	return count(int64(s.Lag), "event")
}
