package operate

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/projection"
)

type parkedView struct {
	Entities []projection.ParkedEntity `json:"entities"`
	More     bool                      `json:"more"` // there are others after the last one

	marks []string // of the errors, see mark
}

func (v parkedView) print(w io.Writer) {
	for _, e := range v.Entities {
		state := ordered(e)
		if state != "" {
			state = "; " + state
		}
		fmt.Fprintf(w, "%s  from event %d of %s  since %s  failed retries: %d%s\n", name(string(e.ID)), e.From, at(e.Time), e.Since.UTC().Format(time.RFC3339), e.Tries, state)
		if e.Error != "" {
			fmt.Fprintf(w, "    %s\n", shownError(e))
		}
	}
}

// shownError is the error of a parked entity as it is shown.
func shownError(e projection.ParkedEntity) string { return named(e.Kind) + name(e.Error) }

// ordered is what is about to happen to a parked entity.
func ordered(e projection.ParkedEntity) string {
	switch {
	case e.DiscardTo == annals.MaxSeqNr:
		return "all waiting events are to be discarded"
	case e.DiscardTo > 0:
		return fmt.Sprintf("to be discarded up to %d", e.DiscardTo)
	case e.Retry:
		return "to be retried"
	case e.LateTo > 0:
		return "late, about to be handled"
	}
	return ""
}

func (o *options) parkedCommand() *cobra.Command {
	c := &cobra.Command{Use: "parked NAME", Short: "List the parked entities: those with an event that could not be handled",
		Long: "List the parked entities: those with an event that could not be handled. That event and the later ones of the entity wait. The exit status is 1 when\nthere are some."}
	after := c.Flags().String("after", "", "begin after this id")
	limit := c.Flags().Int("limit", 100, fmt.Sprintf("at most so many, up to %d", mostIDs))
	return o.command(c, func(k *call) error {
		if *limit < 1 || *limit > mostIDs {
			return usage("--limit is 1 to %d", mostIDs)
		}
		control, err := k.control()
		if err != nil {
			return err
		}
		v, err := k.parked(control, annals.PersistenceID(*after), *limit)
		if err != nil {
			return err
		}
		k.view = v
		if len(v.Entities) == 0 {
			k.warn()
			k.say("nothing", "", "no entity is parked")
			return nil
		}
		last := v.Entities[len(v.Entities)-1]
		if v.More {
			k.say("more", k.again("", "--after", string(last.ID)), "there are more parked entities")
		}
		k.find("parked", k.next("projection retry", k.args[0], string(last.ID)), "when the cause is mended, retry; discard leaves the events out for good")
		return nil
	})
}

// parked reads at most limit parked entities after after.
func (a *answer) parked(c *projection.Control, after annals.PersistenceID, limit int) (parkedView, error) {
	v := parkedView{Entities: []projection.ParkedEntity{}}
	for e, err := range c.Parked(a.ctx, after) {
		if err != nil {
			return v, err
		}
		if v.More = len(v.Entities) == limit; v.More {
			break
		}
		v.marks = append(v.marks, mark(e))
		if a.hide {
			e.Error = "" // it may hold a part of a payload
		}
		v.Entities = append(v.Entities, e)
	}
	return v, nil
}

func (o *options) retryCommand() *cobra.Command {
	c := &cobra.Command{Use: "retry NAME [ID…]", Short: "Have the waiting events of parked entities handled"}
	all := c.Flags().Bool("all", false, "of all parked entities")
	text := c.Flags().String("error", "", "of all with this error, as parked shows it")
	return o.command(c, func(k *call) error {
		same := c.Flags().Changed("error")
		if ways := len(k.args) > 1; ways == *all && ways == same || ways && (*all || same) || *all && same {
			return usage("retry takes a projection, and ids, --all or --error")
		}
		control, err := k.changing()
		if err != nil {
			return err
		}
		var ids []annals.PersistenceID
		for _, id := range k.args[1:] {
			ids = append(ids, annals.PersistenceID(id))
		}
		what := "a retry"
		if same {
			n, err := k.retrySame(control, func(e projection.ParkedEntity) bool { return e.Error == *text || shownError(e) == *text })
			if err != nil {
				return err
			}
			if n == 0 {
				k.say("nothing", k.next("projection parked", k.args[0]), "no entity is parked with this error")
				return nil
			}
			what += " of " + entities(n, false)
		} else if err := control.Retry(k.ctx, ids...); err != nil {
			return k.refused(err)
		}
		k.view = done{k.args[0], true, what + " is ordered: a runner carries it out within seconds"}
		k.say("next", k.next("projection parked", k.args[0]), "see what is still parked")
		return nil
	})
}

func (o *options) discardCommand() *cobra.Command {
	c := &cobra.Command{Use: "discard NAME ID", Short: "Leave out waiting events of a parked entity for good; a dry run without --yes"}
	to := c.Flags().String("to", "", "the last number that is left out, or \"all\"; those after it are handled")
	yes := c.Flags().Bool("yes", false, "do it")
	return o.command(c, func(k *call) error {
		last, what := annals.MaxSeqNr, "all waiting events"
		if *to != "all" {
			n, err := strconv.ParseInt(*to, 10, 64)
			if err != nil || n < 1 {
				return usage("--to is the number of an event, or all")
			}
			last, what = annals.SeqNr(n), fmt.Sprintf("the waiting events up to number %d", n)
		}
		control, err := k.changing()
		if err != nil {
			return err
		}
		what += " of " + name(k.args[1])
		if !*yes {
			k.view = done{k.args[0], false, "would leave out " + what}
			k.say("dry-run", k.again("", "--yes"), "nothing was changed")
			return nil
		}
		if err := control.Discard(k.ctx, annals.PersistenceID(k.args[1]), last); err != nil {
			return k.refused(err)
		}
		k.view = done{k.args[0], true, "leaves out " + what + ": a runner carries this out within seconds"}
		return nil
	})
}
