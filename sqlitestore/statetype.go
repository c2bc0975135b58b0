package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/findings"
	"github.com/annals-go/annals/internal/sqltext"
	"github.com/annals-go/annals/internal/statetype"
)

// stateType is an annals.StateType with the quoted name of its table, and statements for that.
type stateType struct {
	annals.StateType[*sql.Tx]
	table                              string
	get, last, insert, update, remains string // the statements
}

func newStateType(t annals.StateType[*sql.Tx]) *stateType {
	t.Table = cmp.Or(fold(t.Table), commonTable)
	table := quote(t.Table)
	of := func(text string) string { return strings.ReplaceAll(text, commonTable, table) }
	return &stateType{t, table, of(unnamed(11) + getState), of(lastRevision), of(insertState), of(updateState), of(findRemains)}
}

// stateTypes are the entity types that Options.StateTypes names; all others are in the common table.
type stateTypes map[string]*stateType

const commonTable = "durable_state"

var common = newStateType(annals.StateType[*sql.Tx]{})

// compileTypes checks types as far as it can be done without the file.
func compileTypes(types map[string]annals.StateType[*sql.Tx]) (stateTypes, error) {
	own := ownColumns()
	if err := statetype.Faults(types, func(column string) bool { return slices.Contains(own, column) }, fold, validName); err != nil {
		return nil, &annals.Error{Kind: annals.ErrInvalid, Err: err}
	}
	compiled := stateTypes{}
	for entityType, t := range types {
		compiled[entityType] = newStateType(t)
	}
	return compiled, nil
}

func validName(_, name string) error {
	if strings.ContainsRune(name, 0) {
		return errors.New("a name has U+0000")
	}
	return nil
}

// ownColumns are the names of the store's columns in a table of states.
func ownColumns() (names []string) {
	columns, _ := sqltext.Columns(stateTable("").create)
	for _, c := range columns {
		names = append(names, c.Name)
	}
	return names
}

// handled reports whether a type has a change handler.
func (ts stateTypes) handled() bool {
	for _, t := range ts {
		if t.OnChange != nil {
			return true
		}
	}
	return false
}

// ownTables are the tables of the types, each once.
func (ts stateTypes) ownTables() (tables []table) {
	for _, entityType := range slices.Sorted(maps.Keys(ts)) {
		if name := ts[entityType].Table; !slices.ContainsFunc(tables, func(t table) bool { return t.name == name }) {
			tables = append(tables, stateTable(name))
		}
	}
	return tables
}

// missing are the statements that add the columns of later versions to tables of states.
func (ts stateTypes) missing(ctx context.Context, q *statements) (all []string, err error) {
	for _, t := range ts.ownTables() {
		missing, err := t.missing(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, missing...)
	}
	return all, nil
}

// check is ErrInvalid where a table or one of its columns is missing.
func (ts stateTypes) check(ctx context.Context, q *statements) error {
	var faults []error
	for _, entityType := range slices.Sorted(maps.Keys(ts)) {
		t := ts[entityType]
		there, err := columnsOf(ctx, q, t.Table)
		if err != nil {
			return err
		}
		fault := func(code, found string, args ...any) {
			faults = append(faults, &findings.Fault{Code: code, Schema: true, Found: fmt.Sprintf("state type %q: ", entityType) + fmt.Sprintf(found, args...), Do: "Options.Init creates it, with StateTable"})
		}
		if len(there) == 0 {
			fault("table", "there is no table %q", t.Table)
			continue
		}
		for _, column := range slices.Concat(ownColumns(), t.Columns) {
			if _, ok := there[fold(column)]; !ok {
				fault("column", "table %q has no column %q", t.Table, fold(column))
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return &annals.Error{Kind: annals.ErrInvalid, Err: err}
	}
	return nil
}

func (ts stateTypes) of(entityType string) *stateType {
	if t, ok := ts[entityType]; ok {
		return t
	}
	return common
}

// tables are the quoted names of all tables that may hold states of entityType, "" for any type.
func (ts stateTypes) tables(entityType string) []string {
	if entityType != "" {
		return []string{ts.of(entityType).table}
	}
	tables := []string{common.table}
	for _, t := range ts {
		tables = append(tables, t.table)
	}
	slices.Sort(tables)
	return slices.Compact(tables)
}

// columnArg is the value of an additional column as it is stored: a time in microseconds, a bool as 0 or 1.
func columnArg(_ string, value any) (any, error) {
	switch v := value.(type) {
	case []byte:
		return blob(v), nil
	case time.Time:
		return v.UnixMicro(), nil
	}
	return value, nil
}

// fold converts the ASCII letters of name to lower case: SQLite ignores the case of these letters, and of no others.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
