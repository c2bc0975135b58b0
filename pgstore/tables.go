package pgstore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// Tables are the names of a store's tables: PekkoTables or your own. An empty name means that of akka-persistence-r2dbc and akka-projection-r2dbc. Names are
// case-sensitive and need no quotes.
type Tables struct {
	Schema          string // "" means the connection's search_path
	Journal         string
	Snapshot        string
	State           string
	TimestampOffset string // offsets of projections; without this table the store does not claim Offsets
	Epoch           string // epochs and positions of projection workers, which the plugins do not have; without this table Progress.Epoch and Through are ErrUnsupported
}

// akkaTables are the tables of akka-persistence-r2dbc and akka-projection-r2dbc.
func akkaTables() Tables {
	return Tables{Journal: "event_journal", Snapshot: "snapshot", State: "durable_state",
		TimestampOffset: "akka_projection_timestamp_offset_store", Epoch: "annals_projection_epoch"}
}

// PekkoTables are the tables of pekko-persistence-r2dbc and pekko-projection-r2dbc.
func PekkoTables() Tables {
	t := akkaTables()
	t.TimestampOffset = "projection_timestamp_offset_store"
	return t
}

func (t Tables) withDefaults() Tables {
	akka := akkaTables()
	for i, name := range t.all() {
		*name = cmp.Or(*name, *akka.all()[i])
	}
	return t
}

func (t *Tables) all() []*string {
	return []*string{&t.Journal, &t.Snapshot, &t.State, &t.TimestampOffset, &t.Epoch}
}

// validate says which names PostgreSQL would refuse or cut.
func (t Tables) validate() error {
	var faults []error
	if t.Schema != "" {
		faults = append(faults, validName("schema", t.Schema))
	}
	seen := map[string]bool{}
	for _, name := range t.all() {
		faults = append(faults, validName("table", *name))
		if seen[*name] {
			faults = append(faults, fmt.Errorf("table %q is named twice", *name))
		}
		seen[*name] = true
	}
	return errors.Join(faults...)
}

// states are the names of the tables of durable states, each once.
func (t Tables) states(o Options) []string {
	all := []string{t.State}
	for _, entityType := range slices.Sorted(maps.Keys(o.StateTypes)) {
		if name := o.StateTypes[entityType].Table; name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// names are Akka's names and those of t, as statements have them, in pairs for a strings.Replacer.
func (t Tables) names() (pairs []string) {
	akka := akkaTables()
	for i, name := range t.all() {
		pairs = append(pairs, quote(*akka.all()[i]), t.quoted(*name))
	}
	return pairs
}

// quoted is name, with t's schema, as a statement has it.
func (t Tables) quoted(name string) string {
	if t.Schema == "" {
		return quote(name)
	}
	return quote(t.Schema) + "." + quote(name)
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal is text as a constant in a statement, whatever standard_conforming_strings is.
func literal(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(text) + "'"
}

// maxName is how many bytes a name may have. PostgreSQL cuts longer ones without an error.
const maxName = 63

func validName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("a %s has no name", what)
	case len(name) > maxName:
		return fmt.Errorf("%s %q has more than %d bytes", what, name, maxName)
	case !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("%s %q is not valid UTF-8 without U+0000", what, name)
	}
	return nil
}
