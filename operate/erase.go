package operate

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals/codec/sealed"
)

// erasedView is what was done with the keys of a subject, or in a dry run would be.
type erasedView struct {
	Subject   string   `json:"subject"`
	DryRun    bool     `json:"dryRun"`
	Keys      int      `json:"keys"`      // that were destroyed, or would be
	Destroyed bool     `json:"destroyed"` // before
	Left      []string `json:"left"`      // what stays where
}

func (v *erasedView) print(w io.Writer) {
	would := ""
	if v.DryRun {
		would = "would be "
	}
	if v.Destroyed {
		fmt.Fprintf(w, "%s: the keys are destroyed already\n", name(v.Subject))
	} else {
		fmt.Fprintf(w, "%s: keys %sdestroyed: %d\n", name(v.Subject), would, v.Keys)
	}
	for _, l := range v.Left {
		fmt.Fprintf(w, "left: %s\n", l)
	}
}

// leftOfSubject is what stays readable of a subject, as docs/guide/personal-data.md says.
var leftOfSubject = []string{
	"running programs: the keys for as long as sealed.Options.Cache, a minute; the states of entities in memory until they are evicted",
	"the store: ids, tags, additional columns, manifests and times; payloads of before they were sealed; error texts of parked entities",
	"the store and its backups: the wrapped keys until remains of rows are gone; worthless without the master key",
	"backups: destroy the keys again after a restore",
	leftElsewhere,
}

func (o *options) eraseCommand() *cobra.Command {
	c := &cobra.Command{Use: "erase SUBJECT", Short: "Destroy the keys of a person, so that nobody can read what is sealed with them",
		Long: "Destroy the keys of a person, or of another subject of package codec/sealed, for good: nobody can read what is sealed with them any more, wherever\ncopies of it are. Events stay, with their numbers. Config.Keys of the program has the keys."}
	yes := c.Flags().Bool("yes", false, "do it; without it nothing is changed")
	return o.command(c, func(k *call) error {
		if k.Keys == nil {
			return unsupported(k.next("forget --help"), "the program has no Config.Keys; forget deletes whole entities")
		}
		s, err := k.store()
		if err != nil {
			return err
		}
		keys, err := k.Keys(k.ctx, s)
		if err != nil {
			return err
		}
		subject := k.args[0]
		v := &erasedView{Subject: subject, DryRun: !*yes, Left: leftOfSubject}
		v.Keys, err = keys.Count(k.ctx, subject)
		v.Destroyed = errors.Is(err, sealed.ErrForgotten)
		if err != nil && !v.Destroyed && !*yes { // a key that cannot be read can be destroyed
			return err
		}
		if *yes {
			if err := keys.Destroy(k.ctx, subject); err != nil {
				return err
			}
		}
		k.view = v
		if v.Keys == 0 && !v.Destroyed && err == nil {
			k.say("no-keys", "", "nothing was sealed for this subject: is it the right one?")
		}
		if !*yes {
			k.say("dry-run", k.again("", "--yes"), "nothing was changed")
		}
		return nil
	})
}
