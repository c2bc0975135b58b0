// Package sqltext is about the columns in the statements of the SQL stores.
package sqltext

import "strings"

// Column is a column of a table.
type Column struct {
	Name       string
	Type       string // without a length
	NotNull    bool
	Definition string // as the statement has it
}

// Columns returns the columns of a table and the names of its primary key, in order. In the text, which is a CREATE TABLE, each column and
// the primary key have a line that begins with a tab.
func Columns(text string) (columns []Column, key []string) {
	for line := range strings.Lines(text) {
		definition, ok := strings.CutPrefix(strings.TrimRight(line, ",\n"), "\t")
		if names, isKey := strings.CutPrefix(definition, "PRIMARY KEY ("); isKey {
			key = strings.Split(strings.TrimRight(names, ")"), ", ")
		} else if ok {
			name, rest, _ := strings.Cut(definition, " ")
			typ, _, _ := strings.Cut(rest, " ")
			typ, _, _ = strings.Cut(typ, "(")
			columns = append(columns, Column{name, typ, strings.Contains(rest, "NOT NULL"), definition})
		}
	}
	return columns, key
}

// WithColumns adds n columns to an INSERT or UPDATE, which has the comments /*, column*/ and /*, value*/, or /*, column = value*/, where they
// belong. The comments stay behind them, for more columns.
func WithColumns(statement string, n int, of func(i int) (name, value string)) string {
	if n == 0 {
		return statement
	}
	var names, values, sets strings.Builder
	for i := range n {
		name, value := of(i)
		names.WriteString(", " + name)
		values.WriteString(", " + value)
		sets.WriteString(", " + name + " = " + value)
	}
	const column, value, set = "/*, column*/", "/*, value*/", "/*, column = value*/"
	return strings.NewReplacer(column, names.String()+column, value, values.String()+value, set, sets.String()+set).Replace(statement)
}
