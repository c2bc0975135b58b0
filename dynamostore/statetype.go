package dynamostore

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/statetype"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Findable is an additional column that FindStates can search for. It is the hash key of an index.
type Findable struct {
	Column string
	Number bool // its values are int64 or float64; otherwise they are string or time.Time
}

const findIndex = "by-" // prefix of the names of created indexes, before the column

// stateType is an annals.StateType with the table that has its states.
type stateType struct {
	annals.StateType[*Tx]
	stored   plan.StateTable
	findable []Findable
	keys     map[string]types.ScalarAttributeType // types of the additional columns that are in the key of an index
}

// compileTypes prepares the state types of o. It reports every fault that can be found without a request.
func (s *Store) compileTypes(o Options) error {
	s.types = map[string]*stateType{}
	s.common = &stateType{stored: plan.StateTable{States: s.offer.States, SkipTo: s.offer.SkipStateTo}}
	own := func(column string) bool { return slices.Contains(s.offer.Reserved, column) }
	faults := []error{statetype.Faults(o.StateTypes, own, func(column string) string { return column }, nil)}
	for _, name := range slices.Sorted(maps.Keys(o.StateTypes)) {
		t := &stateType{StateType: o.StateTypes[name], findable: o.Findable[name], stored: s.common.stored}
		s.types[name] = t
		about := func(text string, args ...any) {
			faults = append(faults, fmt.Errorf("state type %q: %w", name, fmt.Errorf(text, args...)))
		}
		for _, column := range t.Columns {
			if s.offer.Additional != nil {
				s.offer.Additional(column)
			}
		}
		for _, f := range t.findable {
			if !slices.Contains(t.Columns, f.Column) {
				about("the column %q is to be findable, but Columns does not name it", f.Column)
			}
		}
		if s.offer.States == nil {
			about("the layout keeps no states")
		} else if t.Table != "" && !slices.Contains(s.offer.States.Tables(), t.Table) {
			if slices.ContainsFunc(s.offer.Tables, func(r plan.Table) bool { return r.Name == t.Table }) {
				about("the table %q has another use", t.Table)
			}
			t.stored = s.offer.StatesIn(name, t.Table)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Findable)) {
		if s.types[name] == nil {
			faults = append(faults, fmt.Errorf("columns of %q are to be findable, but it is no state type", name))
		}
	}
	return errors.Join(faults...)
}

// ownTables are the tables of state types beside those of the layout, each once.
func (s *Store) ownTables() (own []plan.StateTable) {
	for _, name := range slices.Sorted(maps.Keys(s.types)) {
		t := s.types[name].stored
		known := slices.ContainsFunc(own, func(o plan.StateTable) bool { return o.Table.Name == t.Table.Name })
		if t.Table.Name != "" && !known {
			own = append(own, t)
		}
	}
	return own
}

// indexed returns t with an index for each Findable column of its state types, for the case that t is created.
func (s *Store) indexed(t plan.Table) plan.Table {
	t.Indexes = slices.Clone(t.Indexes)
	for _, name := range slices.Sorted(maps.Keys(s.types)) {
		if st := s.types[name]; slices.Contains(st.stored.States.Tables(), t.Name) {
			for _, f := range st.findable {
				index := plan.Index{Name: findIndex + f.Column, Hash: plan.Key{Name: f.Column, Number: f.Number}, KeysOnly: true}
				if !slices.Contains(t.Indexes, index) {
					t.Indexes = append(t.Indexes, index)
				}
			}
		}
	}
	return t
}

// learnIndexes records which columns are in the keys of indexes. A Findable column without an index is an error.
func (s *Store) learnIndexes() error {
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(s.types)) {
		t := s.types[name]
		t.keys = map[string]types.ScalarAttributeType{}
		for _, table := range t.stored.States.Tables() {
			for _, d := range s.engine.described[table].AttributeDefinitions {
				if column := aws.ToString(d.AttributeName); slices.Contains(t.Columns, column) {
					t.keys[column] = d.AttributeType
				}
			}
			s.engine.nameIndexes(table, t)
			for _, f := range t.findable {
				want := plan.Key{Name: f.Column, Number: f.Number}.Type()
				if index, ok := s.engine.indexOf(table, f.Column); !ok {
					faults = append(faults, fmt.Errorf("state type %q: table %q has no index with the hash key %q", name, table, f.Column))
				} else if t.keys[f.Column] != want {
					faults = append(faults, fmt.Errorf("state type %q: the hash key %q of index %q is of type %s, not %s", name, f.Column, index, t.keys[f.Column], want))
				}
			}
		}
	}
	return errors.Join(faults...)
}

// nameIndexes makes the indexes of a table whose hash key is a column of t known to queries.
func (e *engine) nameIndexes(table string, t *stateType) {
	known := e.tables[table]
	for _, column := range t.Columns {
		if name, ok := e.indexOf(table, column); ok {
			known.Indexes = append(known.Indexes, plan.Index{Name: name, Hash: plan.Key{Name: column, Number: t.keys[column] == types.ScalarAttributeTypeN}})
		}
	}
	e.tables[table] = known
}

// indexOf returns the name of an index of table that has every state with the column. Its hash key is the column; a range key, if there
// is one, is part of the table's key, which every state has.
func (e *engine) indexOf(table, column string) (name string, ok bool) {
	hash, sort := e.tables[table].Keys("")
	for _, i := range e.described[table].GlobalSecondaryIndexes {
		fits := i.IndexStatus != types.IndexStatusDeleting
		for _, k := range i.KeySchema {
			attribute := aws.ToString(k.AttributeName)
			if k.KeyType == types.KeyTypeHash {
				fits = fits && attribute == column
			} else {
				fits = fits && (attribute == hash.Name || attribute == sort.Name)
			}
		}
		if fits {
			return aws.ToString(i.IndexName), true
		}
	}
	return "", false
}

// typeOf returns the state type of an entity.
func (s *Store) typeOf(id annals.PersistenceID) *stateType {
	if t, ok := s.types[id.Type()]; ok {
		return t
	}
	return s.common
}

// bind returns the additional columns of a state, checked. A tombstone has none, so it is not found. A change handler could not remove
// them, since a transaction cannot write an item twice.
func (t *stateType) bind(s annals.State) (columns annals.Columns, err error) {
	switch {
	case len(t.Columns) == 0:
		return nil, nil
	case s.Deleted:
		columns = annals.Columns{}
		for _, name := range t.Columns {
			columns[name] = nil
		}
		return columns, nil
	}
	names, values, err := statetype.Bind(t.StateType, s, func(name string, value any) (any, error) {
		v, err := plan.Column(value)
		if key, ok := t.keys[name]; ok && v != nil && err == nil {
			err = keyFits(v, key)
		}
		return value, err
	})
	if err != nil {
		return nil, err
	}
	columns = annals.Columns{}
	for i, name := range names {
		columns[name] = values[i]
	}
	return columns, nil
}

const maxIndexKey = 2048 // bytes in a hash key

// keyFits returns an error when the service would not accept v as the key of an index.
func keyFits(v types.AttributeValue, key types.ScalarAttributeType) error {
	switch size, have := plan.Size(plan.Item{"": v}), plan.TypeOf(v); {
	case have != key:
		return fmt.Errorf("a value of type %s, an index has it as %s", have, key)
	case size == 0:
		return errors.New("an empty value, which an index does not take")
	case size > maxIndexKey:
		return fmt.Errorf("a value of %d bytes, an index takes %d", size, maxIndexKey)
	}
	return nil
}
