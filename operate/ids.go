package operate

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
)

// mostIDs is the largest --limit.
const mostIDs = 10_000

type idsView struct {
	IDs  []annals.PersistenceID `json:"ids"`
	More bool                   `json:"more"` // there are ids after the last one
}

func (v idsView) print(w io.Writer) {
	for _, id := range v.IDs {
		fmt.Fprintln(w, name(string(id)))
	}
}

func (o *options) idsCommand() *cobra.Command {
	c := &cobra.Command{Use: "ids", Short: "List the ids of entities"}
	kind := c.Flags().String("type", "", "only entities of this type")
	after := c.Flags().String("after", "", "begin after this id")
	limit := c.Flags().Int("limit", 100, fmt.Sprintf("at most so many, up to %d", mostIDs))
	o.completeType(c)
	return o.command(c, func(k *call) error {
		if *limit < 1 || *limit > mostIDs {
			return usage("--limit is 1 to %d", mostIDs)
		}
		s, err := k.store()
		if err != nil {
			return err
		}
		v, err := k.ids(s, *kind, "", annals.PersistenceID(*after), *limit)
		if err != nil {
			return err
		}
		k.view = v
		switch last := len(v.IDs) - 1; {
		case v.More:
			k.say("more", k.again("", "--after", string(v.IDs[last])), "there are more ids")
		case last >= 0:
			k.say("end", k.next("show", string(v.IDs[0])), "these are all")
		default:
			k.say("nothing", "", "there are no such ids")
		}
		return nil
	})
}

// ids reads at most limit ids after after that begin with begins. They stand together where the store orders ids by their bytes.
func (a *answer) ids(s annals.Store, kind, begins string, after annals.PersistenceID, limit int) (idsView, error) {
	v := idsView{IDs: []annals.PersistenceID{}}
	if after == "" {
		after = annals.PersistenceID(begins)
	}
	for id, err := range s.Query().IDs(a.ctx, kind, after) {
		if err != nil {
			return v, err
		}
		if !strings.HasPrefix(string(id), begins) {
			break
		}
		if v.More = len(v.IDs) == limit; v.More {
			break
		}
		v.IDs = append(v.IDs, id)
	}
	return v, nil
}

// exists reports whether s has, or had, something of id.
func (a *answer) exists(s annals.Store, id annals.PersistenceID) (bool, error) {
	caps := s.Capabilities()
	if caps.Events {
		if n, err := s.Journal().LastSeqNr(a.ctx, id); err != nil || n > 0 {
			return n > 0, err
		}
	}
	if !caps.States {
		return false, nil
	}
	st, _, err := s.States().Get(a.ctx, id)
	return st.Revision > 0, err
}

// nextIDs is the command that lists ids of s, where s can.
func (a *answer) nextIDs(s annals.Store, flags string) string {
	if !s.Capabilities().IDQueries {
		return ""
	}
	return a.next("ids" + flags)
}

// completeType completes --type with the types that the program knows.
func (o *options) completeType(c *cobra.Command) {
	_ = c.RegisterFlagCompletionFunc("type", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return o.types(), cobra.ShellCompDirectiveNoFileComp
	})
}
