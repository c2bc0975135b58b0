package pgstore

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/findings"
)

// writeIDs is the optional column for the last writes of a state, in the text form of writes.List. The plugins do not write it.
const writeIDs = "write_ids"

// metaNames are the optional columns for the metadata of a state. The plugins do not write them.
var metaNames = []string{"meta_ser_id", "meta_ser_manifest", "meta_payload"}

// stateTable is where the states of one entity type live.
type stateTable struct {
	*table
	annals.StateType[pgx.Tx]
	fill func(sql string) string // see filler
	sql  stateStatements
}

// keepsMetadata reports whether the table has all the columns for metadata.
func (t *stateTable) keepsMetadata() bool {
	return !slices.ContainsFunc(metaNames, func(name string) bool { return !t.has(name) })
}

// wide reports whether the primary key contains the revision, as in Pekko's tables and in Akka's before 1.2.4. Then the key allows
// several rows per entity, and the statements have to prevent them.
func (t *stateTable) wide() bool { return len(t.key) > 1 }

// newest leaves out each row of "durable_state" s that is not the newest of its entity.
func (t *stateTable) newest() string {
	if !t.wide() {
		return ""
	}
	return ` AND NOT EXISTS (SELECT FROM "durable_state" newer WHERE newer.persistence_id = s.persistence_id AND newer.revision > s.revision)`
}

// stateTable is the table of id's type.
func (s *backend) stateTable(id annals.PersistenceID) *stateTable { return s.tableOf(id.Type()) }

func (s *backend) tableOf(entityType string) *stateTable {
	if t, ok := s.states[entityType]; ok {
		return t
	}
	return s.states[""]
}

// stateTables are the tables of a type, all of them for "", each once.
func (s *backend) stateTables(entityType string) []*stateTable {
	if entityType != "" {
		return []*stateTable{s.tableOf(entityType)}
	}
	all := slices.SortedFunc(maps.Values(s.states), func(a, b *stateTable) int { return cmp.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b *stateTable) bool { return a.name == b.name })
}

// verifyStates inspects the common table and those of the types.
func (s *backend) verifyStates(look func(string, shape) *table) error {
	common := look(s.tables.State, stateShape)
	s.states = map[string]*stateTable{"": {table: common}}
	faults := []error{common.faults()}
	for _, entityType := range slices.Sorted(maps.Keys(s.options.StateTypes)) {
		st := s.options.StateTypes[entityType]
		t := common
		if st.Table != "" {
			t = look(st.Table, stateShape)
			faults = append(faults, t.faults())
		}
		for _, name := range st.Columns {
			if t.exists() && !t.has(name) {
				faults = append(faults, &findings.Fault{Code: "column", Schema: true, Found: fmt.Sprintf("state type %q: table %s has no column %q", entityType, t.name, name), Do: "add it"})
			}
		}
		s.states[entityType] = &stateTable{table: t, StateType: st}
	}
	return errors.Join(faults...)
}

// typeMap knows which Go values the server's types take.
type typeMap struct {
	mu sync.Mutex // a pgtype.Map remembers plans and is not safe for concurrent use
	m  *pgtype.Map
}

// keep is for statetype.Bind and statetype.Find: pgx converts values.
func (s *backend) keep(t *stateTable) func(column string, value any) (any, error) {
	return func(column string, value any) (any, error) { return value, s.types.takes(t.columns[column], value) }
}

// takes says why v cannot be stored in column c. The error does not contain v.
func (t *typeMap) takes(c column, v any) error {
	if v == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.m == nil {
		t.m = pgtype.NewMap()
	}
	if _, err := t.m.Encode(c.oid, pgtype.BinaryFormatCode, v, nil); err == nil {
		return nil
	}
	if _, err := t.m.Encode(c.oid, pgtype.TextFormatCode, v, nil); err != nil {
		return fmt.Errorf("a %T is not what a column of type %s takes", v, c.typ)
	}
	return nil
}
