// Package ddl reads the statements by which the SQL stores create their tables, so that a table that exists can be compared with them.
package ddl

import "strings"

// Column is a column of a table.
type Column struct {
	Name       string
	Type       string // without a length
	NotNull    bool
	Definition string // as the statement has it
}

// Columns returns the columns of a table and the names of its primary key, in order. In the text, which is a CREATE TABLE or the part of
// it between the parentheses, each column and the primary key have a line that begins with a tab.
func Columns(text string) (columns []Column, key []string) {
	for line := range strings.Lines(text) {
		definition, ok := strings.CutPrefix(strings.TrimRight(line, ",\n"), "\t")
		if names, isKey := strings.CutPrefix(definition, "PRIMARY KEY ("); isKey {
			key = strings.Split(strings.TrimSuffix(names, ")"), ", ")
		} else if ok {
			name, rest, _ := strings.Cut(definition, " ")
			typ, _, _ := strings.Cut(rest, " ")
			typ, _, _ = strings.Cut(typ, "(")
			columns = append(columns, Column{name, typ, strings.Contains(rest, "NOT NULL"), definition})
		}
	}
	return columns, key
}
