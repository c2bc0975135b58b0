package j5ik2o

import (
	"slices"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// settings are the settings of a table that can be compared with its rows.
type settings struct {
	table   plan.Table
	columns []column                  // the first is the persistence id
	other   map[string]bool           // attributes that are neither columns nor keys
	dead    string                    // a flag of rows that may lack the other columns; "" is none
	place   func(row plan.Item) error // returns an error for a row whose key does not fit the settings
}

// column is an attribute of rows.
type column struct {
	name     string
	kind     types.ScalarAttributeType
	optional bool
}

// Types of attributes.
const (
	text    = types.ScalarAttributeTypeS
	number  = types.ScalarAttributeTypeN
	binary  = types.ScalarAttributeTypeB
	boolean = plan.TypeBool
)

// sample compares some rows with s.
func (s settings) sample() plan.Sample { return plan.Sample{Table: s.table.Name, Fits: s.fits} }

// fits returns an error when rows do not fit.
func (s settings) fits(rows []plan.Item) error {
	known, unknown := 0, ""
	seen := map[string]bool{}
	for _, row := range rows {
		if _, ok := plan.Text(row, s.columns[0].name); !ok {
			continue // the plugin can leave such a row after an update
		}
		known++
		if err := s.checkRow(row, seen); err != nil {
			return err
		}
		for name, v := range row {
			if plan.TypeOf(v) == text && !s.knows(name) && (unknown == "" || name < unknown) {
				unknown = name
			}
		}
	}
	if known == 0 {
		return plan.Misfit("table %q: none of %d rows has the column %q", s.table.Name, len(rows), s.columns[0].name)
	}
	for _, c := range s.columns {
		if unknown != "" && c.optional && c.kind == text && !seen[c.name] {
			return plan.Misfit("table %q: none of %d rows has the column %q, and the settings do not know what some rows have, %q: "+
				"if that is the column, set its name in Columns; if it is not, name it in OtherColumns", s.table.Name, known, c.name, unknown)
		}
	}
	return nil
}

// checkRow checks a row and records its columns in seen.
func (s settings) checkRow(row plan.Item, seen map[string]bool) error {
	id, _ := plan.Text(row, s.columns[0].name)
	dead := s.dead != "" && plan.Flag(row, s.dead)
	for _, c := range s.columns {
		switch have := row[c.name]; {
		case have != nil && plan.TypeOf(have) == c.kind:
			seen[c.name] = true
		case have == nil && (c.optional || dead):
		case have == nil:
			return plan.Misfit("table %q: a row of %s has no column %q", s.table.Name, quote.Text(id), c.name)
		default:
			return plan.Misfit("table %q: the column %q in a row of %s is not of type %s", s.table.Name, c.name, quote.Text(id), c.kind)
		}
	}
	return s.place(row)
}

func (s settings) knows(name string) bool {
	return slices.ContainsFunc(s.columns, func(c column) bool { return c.name == name }) || name == s.table.Hash.Name || name == s.table.Range.Name ||
		s.other[name] || strings.HasPrefix(name, "aws:") // attributes of the service
}

func (j *journal) settings() settings {
	c := j.columns
	return settings{table: j.rows.shape(), other: j.other, place: j.rows.placed, columns: []column{{name: c.PersistenceID, kind: text},
		{name: c.SequenceNr, kind: number}, {name: c.Deleted, kind: boolean}, {name: c.Message, kind: binary}, {name: c.Ordering, kind: number}, {name: c.Tags, kind: text, optional: true}}}
}

func (s *snapshots) settings() settings {
	c := s.columns
	return settings{table: s.rows.shape(), place: s.rows.placed, columns: []column{{name: c.PersistenceID, kind: text},
		{name: c.SequenceNr, kind: number}, {name: c.Snapshot, kind: binary}, {name: c.Created, kind: number}}}
}

func (s *states) settings(table string) settings {
	c := s.columns
	return settings{table: s.shape(table), other: s.other, dead: c.Deleted, place: func(row plan.Item) error { return s.placed(table, row) }, columns: []column{{name: c.PersistenceID, kind: text},
		{name: c.Revision, kind: number}, {name: c.Payload, kind: binary}, {name: c.SerializerID, kind: number}, {name: c.Ordering, kind: number},
		{name: c.SerializerManifest, kind: text, optional: true}, {name: c.Tags, kind: text, optional: true}, {name: c.Deleted, kind: boolean, optional: true}}}
}

// placed is settings.place. Reads through an index find rows at any key.
func (r rows) placed(row plan.Item) error {
	if r.byIndex {
		return nil
	}
	return r.Misplaced(row)
}

// placed is settings.place.
func (s *states) placed(table string, row plan.Item) error {
	id, _ := plan.Text(row, s.columns.PersistenceID)
	name, key, err := s.place(annals.PersistenceID(id))
	have := s.shape(table).KeyOf(row)
	if err == nil && name == table && plan.SameKey(have, key) {
		return nil
	}
	return plan.Misfit("table %q: the row of %s has the key %s; the settings (shard count, separator, prefixes) make it %s in table %q", table, quote.Text(id), plan.QuoteKey(have), plan.QuoteKey(key), name)
}
