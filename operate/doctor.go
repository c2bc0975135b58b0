package operate

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/projection"
)

// findingsView is what was found in the setup of a store.
type findingsView struct {
	Findings []ability.Finding `json:"findings"`
}

func (v *findingsView) print(w io.Writer) {
	for _, f := range v.Findings {
		fmt.Fprintf(w, "%-7s  %s: %s\n", f.Severity, f.Code, line(strings.Join(strings.Fields(f.Found), " "), 1000)) // errors of connections have several lines
		if f.Means != "" {
			fmt.Fprintf(w, "         means: %s\n", line(f.Means, 1000))
		}
		if f.Do != "" {
			fmt.Fprintf(w, "         do: %s\n", line(f.Do, 1000))
		}
	}
}

// examine shows the findings of s that are wanted.
func (a *answer) examine(s ability.Setup, wanted func(ability.Finding) bool) error {
	all, err := s.Examine(a.ctx)
	v := &findingsView{[]ability.Finding{}}
	for _, f := range all {
		if wanted(f) {
			f.Found, f.Means, f.Do = a.redacted(f.Found), a.redacted(f.Means), a.redacted(f.Do)
			v.Findings = append(v.Findings, f)
		}
	}
	if err == nil || len(v.Findings) > 0 {
		a.view = v
	}
	return err
}

// conclude says what is to be done, the gravest first. With notes v has only differences of the tables, and those that are notes count, too.
func (a *answer) conclude(v *findingsView, notes bool) {
	order := []ability.Severity{ability.Refused, ability.Problem, ability.Note}
	slices.SortStableFunc(v.Findings, func(a, b ability.Finding) int {
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	})
	counts := map[ability.Severity]int{}
	schema := 0
	for _, f := range v.Findings {
		counts[f.Severity]++
		if f.Schema && (notes || f.Severity != ability.Note) {
			schema++
		}
	}
	if schema > 0 {
		a.find("schema", a.next("schema pending"), "the tables differ from what the store needs: %d", schema)
	}
	switch refused, problems := counts[ability.Refused], counts[ability.Problem]; {
	case refused > 0:
		a.find("refused", "", "programs cannot open the store: %d refused, %s", refused, count(problems, "problem"))
	case problems > 0:
		a.find("problems", "", "programs can open the store: %s", count(problems, "problem"))
	case schema == 0 && notes:
		a.say("well", a.next("doctor"), "the tables are as the store needs them")
	case schema == 0:
		a.say("well", a.next("verify"), "nothing is wrong with it")
	}
}

func (o *options) doctorCommand() *cobra.Command {
	c := &cobra.Command{Use: "doctor", Short: "Find what is wrong with the setup of the store",
		Long: "Find everything that programs would be refused for when they open the store, all at once, and what else is wrong or not safe: tables, rights, clocks,\nlateness, durability, connections, disks. Each finding says what it means and what to do. Nothing is changed. The exit status is 1 when something is to be done."}
	return o.setUp(c, func(k *call, s ability.Setup) error {
		if err := k.examine(s, func(ability.Finding) bool { return true }); err != nil {
			return err
		}
		v := k.view.(*findingsView)
		if !slices.ContainsFunc(v.Findings, func(f ability.Finding) bool { return f.Severity == ability.Refused }) {
			if opened, err := k.store(); err != nil {
				v.Findings = append(v.Findings, ability.Finding{Code: "open", Severity: ability.Refused, Found: k.redacted(plain(err)), Means: "Open fails"})
			} else {
				v.Findings = append(v.Findings, k.late(opened)...)
			}
			if err := k.ctx.Err(); err != nil {
				return err
			}
		}
		k.conclude(v, false)
		return nil
	})
}

// late compares the lateness that the store claims with what its projections have seen.
func (a *answer) late(s annals.Store) (all []ability.Finding) {
	names, err := projection.Names(a.ctx, s)
	if err != nil {
		names = a.Projections
	}
	for _, n := range names {
		status, err := projection.NewControl(s, n).Status(a.ctx, s)
		if err == nil && status.Late > 0 {
			all = append(all, ability.Finding{Code: "late", Severity: ability.Problem,
				Found: fmt.Sprintf("projection %s: %s became visible later than the store promises (%s), the last at %s", name(n), count(status.Late, "event"), s.Capabilities().Lateness, at(status.LateAt)),
				Means: "they were handled, by the audit of the projection: queries and feeds may have skipped them",
				Do:    "claim a greater lateness, or find what delays the writers: docs/guide/running-projections.md#late-events"})
		}
	}
	return all
}
