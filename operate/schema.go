package operate

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals/ability"
)

// schemaView is a schema, or the statements that are, were or would be run.
type schemaView struct {
	Format     string   `json:"format,omitempty"` // "": the store's own
	Schema     string   `json:"schema,omitempty"`
	Statements []string `json:"statements"`
	Done       bool     `json:"done"` // they were run
}

func (v schemaView) print(w io.Writer) {
	fmt.Fprint(w, spaced(v.Schema))
	for _, s := range v.Statements {
		fmt.Fprintln(w, spaced(strings.TrimSuffix(s, ";"))+";")
	}
}

// spaced is clean with spaces for the tabs of statements.
func spaced(text string) string { return clean(strings.ReplaceAll(text, "\t", "    ")) }

func (o *options) schemaCommand() *cobra.Command {
	c := o.group(&cobra.Command{Use: "schema", Short: "Show, compare and create the tables of the store",
		Long: "Show, compare and create the tables of the store, with the settings that the URL and the program give it."})
	c.AddCommand(o.schemaShowCommand(), o.pendingCommand(), o.diffCommand(), o.applyCommand())
	return c
}

// setUp runs a command with the Setup of the store.
func (o *options) setUp(c *cobra.Command, run func(k *call, s ability.Setup) error) *cobra.Command {
	return o.command(c, func(k *call) error {
		s, err := k.setup()
		if err != nil {
			return err
		}
		return run(k, s)
	})
}

func (o *options) schemaShowCommand() *cobra.Command {
	c := &cobra.Command{Use: "show", Short: "Show what creates the tables in an empty database",
		Long: "Show what creates the tables in an empty database, for the tool that manages it: sql for the SQL stores; cloudformation, terraform or json for\nDynamoDB. The database is not asked."}
	format := c.Flags().String("format", "", "sql, cloudformation, terraform or json; the default depends on the store")
	return o.setUp(c, func(k *call, s ability.Setup) error {
		text, err := s.Schema(*format)
		if err == nil {
			k.view = schemaView{*format, strings.TrimSuffix(text, "\n") + "\n", []string{}, false}
		}
		return err
	})
}

func (o *options) pendingCommand() *cobra.Command {
	c := &cobra.Command{Use: "pending", Short: "Show what apply would run", Long: "Show what apply would run. The exit status is 1 when there is something."}
	return o.setUp(c, func(k *call, s ability.Setup) error {
		if err := k.pending(s); err != nil || len(k.diagnostics) > 0 {
			return err
		}
		k.find("pending", k.next("schema apply --yes"), "this is missing")
		return nil
	})
}

// pending shows what is pending, or says that there is nothing.
func (a *answer) pending(s ability.Setup) error {
	statements, err := s.Pending(a.ctx)
	if err != nil {
		return err
	}
	a.view = schemaView{Statements: append([]string{}, statements...)}
	if len(statements) == 0 {
		a.say("nothing", a.next("schema diff"), "nothing is missing that apply creates")
	}
	return nil
}

func (o *options) diffCommand() *cobra.Command {
	c := &cobra.Command{Use: "diff", Short: "Compare the tables with what the store needs",
		Long: "Compare the tables with what the store needs: tables, columns, types, keys, indexes, streams. Billing and capacity are not compared, nor what is there\nbeside it. The exit status is 1 when something differs."}
	return o.setUp(c, func(k *call, s ability.Setup) error {
		err := k.examine(s, func(f ability.Finding) bool { return f.Schema })
		if err == nil {
			k.conclude(k.view.(*findingsView), true)
		}
		return err
	})
}

func (o *options) applyCommand() *cobra.Command {
	c := &cobra.Command{Use: "apply", Short: "Create what is missing; a dry run without --yes",
		Long: "Create what is missing, and upgrade the tables of an older release: older releases refuse them then. In DynamoDB indexes and\nstreams are added to tables that exist. Nothing else is changed. An index of a\nlarge table on PostgreSQL blocks its writers while it is made: run the statement that pending shows beforehand, with CONCURRENTLY."}
	yes := c.Flags().Bool("yes", false, "do it; without it nothing is changed")
	dry := c.Flags().Bool("dry-run", false, "change nothing, which is the default")
	return o.setUp(c, func(k *call, s ability.Setup) error {
		if *yes && *dry {
			return usage("--yes and --dry-run exclude each other")
		}
		if !*yes {
			if err := k.pending(s); err != nil || len(k.diagnostics) > 0 {
				return err
			}
			k.say("dry-run", k.again("", "--yes"), "nothing was changed")
			return nil
		}
		done, err := s.Migrate(k.ctx)
		k.view = schemaView{Statements: append([]string{}, done...), Done: true}
		if err == nil && len(done) == 0 {
			k.say("nothing", k.next("schema diff"), "nothing was missing")
		}
		return err
	})
}
