package pgstore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// writeIDs is the optional column for the last writes of a state, in the text form of sqlrow.Writes. Akka and Pekko do not
// know it and leave it alone.
const writeIDs = "write_ids"

// stateTable is where the states of one entity type live.
type stateTable struct {
	*table
	annals.StateType[pgx.Tx]
	sql stateStatements
}

// keepsMetadata reports whether the table has the three optional columns for metadata, which the plugins do not know either.
func (t *stateTable) keepsMetadata() bool {
	return t.has("meta_ser_id") && t.has("meta_ser_manifest") && t.has("meta_payload")
}

// wide reports whether the key holds the revision, as in Pekko's tables and Akka's before 1.2.4. Then the key does not
// keep an entity from having two rows: the statements have to.
func (t *stateTable) wide() bool { return len(t.key) > 1 }

// stateTable is the table of id's type.
func (s *backend) stateTable(id annals.PersistenceID) *stateTable {
	if t, ok := s.states[id.Type()]; ok {
		return t
	}
	return s.states[""]
}

// stateTables are the tables of a type, all of them for "", each once.
func (s *backend) stateTables(entityType string) []*stateTable {
	if entityType != "" {
		if t, ok := s.states[entityType]; ok {
			return []*stateTable{t}
		}
		return []*stateTable{s.states[""]}
	}
	byName := map[string]*stateTable{}
	for _, t := range s.states {
		byName[t.name] = t
	}
	var all []*stateTable
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}

// validateStateTypes says what can be said without the database.
func (s *backend) validateStateTypes() error {
	var faults []error
	for _, entityType := range slices.Sorted(maps.Keys(s.options.StateTypes)) {
		st := s.options.StateTypes[entityType]
		about := func(err error) {
			if err != nil {
				faults = append(faults, fmt.Errorf("state type %q: %w", entityType, err))
			}
		}
		if entityType == "" {
			about(errors.New("it has no name"))
		}
		if st.Table != "" {
			about(validName("table", st.Table))
		}
		for i, name := range st.Columns {
			about(validName("column", name))
			if slices.Contains(st.Columns[:i], name) {
				about(fmt.Errorf("column %q is named twice", name))
			}
			_, ours := stateShape.columns[name]
			if _, optional := stateShape.optional[name]; ours || optional {
				about(fmt.Errorf("column %q is the store's own", name))
			}
		}
		if len(st.Columns) > 0 && st.Bind == nil {
			about(errors.New("there are columns and no Bind"))
		}
	}
	return errors.Join(faults...)
}

// verifyStates looks at the common table and at those of the types.
func (s *backend) verifyStates(look func(name string) *table) error {
	common := look(s.tables.State)
	s.states = map[string]*stateTable{"": {table: common}}
	faults := []error{stateShape.faults(common)}
	for _, entityType := range slices.Sorted(maps.Keys(s.options.StateTypes)) {
		st := s.options.StateTypes[entityType]
		t := common
		if st.Table != "" {
			t = look(st.Table)
			faults = append(faults, stateShape.faults(t))
		}
		for _, name := range st.Columns {
			if t.exists() && !t.has(name) {
				faults = append(faults, fmt.Errorf("state type %q: table %s has no column %q", entityType, t.name, name))
			}
		}
		s.states[entityType] = &stateTable{table: t, StateType: st}
	}
	return errors.Join(faults...)
}

// bind asks for the additional columns of a state and checks them.
func (t *stateTable) bind(types *typeMap, s annals.State) (names []string, values []any, err error) {
	if t.Bind == nil {
		return nil, nil, nil
	}
	var columns annals.Columns
	if err := panics.Contain("", "", func() (err error) { columns, err = t.Bind(s); return err }); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		if !slices.Contains(t.Columns, name) {
			return nil, nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the value for column %q was not announced in StateType.Columns", name)}
		}
		if err := types.takes(t.columns[name], columns[name]); err != nil {
			return nil, nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("column %q: %w", name, err)}
		}
		names, values = append(names, name), append(values, columns[name])
	}
	return names, values, nil
}

// typeMap knows which Go values the server's types take.
type typeMap struct {
	mu   sync.Mutex // a pgtype.Map remembers plans and is not safe for concurrent use
	once sync.Once
	m    *pgtype.Map
}

// takes reports whether v can be sent for column c, without repeating v.
func (t *typeMap) takes(c column, v any) error {
	switch v.(type) {
	case nil:
		return nil
	case string, int64, float64, bool, []byte, time.Time:
	default:
		return fmt.Errorf("a %T is not string, int64, float64, bool, []byte or time.Time", v)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.once.Do(func() { t.m = pgtype.NewMap() })
	if _, err := t.m.Encode(c.oid, pgtype.BinaryFormatCode, v, nil); err == nil {
		return nil
	}
	if _, err := t.m.Encode(c.oid, pgtype.TextFormatCode, v, nil); err != nil {
		return fmt.Errorf("a %T is not what a column of type %s takes", v, c.typ)
	}
	return nil
}
