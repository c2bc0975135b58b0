package pgstore

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/sqlrow"
)

// stateStatements are the texts for one table.
type stateStatements struct {
	get, lookUp string
	columns     string
	keys        string // columns without payloads
}

func (t *stateTable) prepare() {
	const head = "persistence_id, revision, db_timestamp, state_ser_id, coalesce(state_ser_manifest, ''), "
	t.sql.columns = head + read(t.table, "state_payload") + ", tags"
	t.sql.keys = head + "''::bytea, tags"
	kept := "''"
	if t.has(writeIDs) {
		kept = "coalesce(" + writeIDs + ", '')"
	}
	// In tables with the wide key an entity may have two rows, of which the newest counts.
	const newest = "WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1"
	t.sql.get = fmt.Sprintf("SELECT %s FROM %s %s", t.sql.columns, t.name, newest)
	t.sql.lookUp = fmt.Sprintf("SELECT revision, %s FROM %s %s", kept, t.name, newest)
}

// statement is what writes p. It writes one row, or none when the last revision is not p.After.
func (t *stateTable) statement(p *statePut) (sql string, args []any) {
	b := stateBuilder{t: t}
	if p.After == 0 {
		return b.insert(p), b.args
	}
	return b.update(p), b.args
}

// stateBuilder collects the columns that a write sets: which ones differs from write to write.
type stateBuilder struct {
	t       *stateTable
	args    []any
	columns []string
	values  []string
}

func (b *stateBuilder) arg(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("$%d", len(b.args))
}

func (b *stateBuilder) set(column, value string) {
	b.columns, b.values = append(b.columns, quote(column)), append(b.values, value)
}

func (b *stateBuilder) insert(p *statePut) string {
	const now = "transaction_timestamp()"
	id := b.arg(string(p.ID)) + "::text"
	b.set("slice", b.arg(p.ID.Slice())+"::int")
	b.set("entity_type", b.arg(p.ID.Type())+"::text")
	b.set("persistence_id", id)
	b.set("revision", "1")
	b.set("db_timestamp", now)
	if b.t.has(writeIDs) {
		b.set(writeIDs, b.entry(p, "1", now))
	}
	b.set("tags", b.arg(p.Tags)+"::text[]")
	b.payload(p)
	b.additional(p)
	guard := ""
	if b.t.wide() {
		guard = fmt.Sprintf(" WHERE NOT EXISTS (SELECT FROM %s WHERE persistence_id = %s)", b.t.name, id)
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s%s ON CONFLICT (%s) DO NOTHING RETURNING db_timestamp",
		b.t.name, strings.Join(b.columns, ", "), strings.Join(b.values, ", "), guard, strings.Join(b.t.key, ", "))
}

func (b *stateBuilder) update(p *statePut) string {
	id, before := b.arg(string(p.ID))+"::text", b.arg(int64(p.After))+"::bigint"
	b.set("revision", before+" + 1")
	b.set("db_timestamp", after("old.db_timestamp"))
	if b.t.has(writeIDs) {
		b.set(writeIDs, fmt.Sprintf(`array_to_string((string_to_array(old.%[1]s, ' '))[greatest(cardinality(string_to_array(old.%[1]s, ' ')) - %[2]d, 1):] || (%[3]s), ' ')`,
			writeIDs, sqlrow.RememberedWrites-2, b.entry(p, "("+before+" + 1)", after("old.db_timestamp"))))
	}
	if !p.deleted || len(p.Tags) > 0 { // like the plugins a tombstone keeps its tags: followers of a tag see it go
		b.set("tags", b.arg(p.Tags)+"::text[]")
	}
	b.payload(p)
	b.additional(p)
	sets := make([]string, len(b.columns))
	for i := range sets {
		sets[i] = b.columns[i] + " = " + b.values[i]
	}
	guard := ""
	if b.t.wide() {
		guard = fmt.Sprintf(" AND NOT EXISTS (SELECT FROM %s newer WHERE newer.persistence_id = %s AND newer.revision > %s)", b.t.name, id, before)
	}
	return fmt.Sprintf("UPDATE %s AS old SET %s WHERE old.persistence_id = %s AND old.revision = %s%s RETURNING db_timestamp",
		b.t.name, strings.Join(sets, ", "), id, before, guard)
}

func (b *stateBuilder) payload(p *statePut) {
	if p.deleted {
		b.set("state_ser_id", "0")
		b.set("state_ser_manifest", "''")
		b.set("state_payload", empty(b.t.table, "state_payload"))
		return
	}
	b.set("state_ser_id", b.arg(p.SerializerID)+"::int")
	b.set("state_ser_manifest", b.arg(p.Manifest)+"::text")
	b.set("state_payload", written(b.t.table, "state_payload", b.arg(notNil(p.Data))+"::bytea"))
}

func (b *stateBuilder) additional(p *statePut) {
	for i, name := range p.names {
		b.set(name, b.arg(p.values[i]))
	}
}

// entry is p as sqlrow.Write writes it.
func (b *stateBuilder) entry(p *statePut, revision, at string) string {
	return fmt.Sprintf("%s || '/' || (extract(epoch FROM %s) * 1000000)::bigint || '/' || %s::text", revision, at, b.arg(p.writer.String()))
}

// appendStates reads rows of stateStatements.columns to their end.
func appendStates(to []annals.State, rows pgx.Rows, result *annals.Result) ([]annals.State, error) {
	defer rows.Close()
	for rows.Next() {
		var s annals.State
		var id string
		var tags pgtype.Array[string]
		err := rows.Scan(&id, (*int64)(&s.Revision), &s.Time, &s.SerializerID, &s.Manifest, &s.Data, &tags)
		if err != nil {
			return to, corrupt(id, s.Revision, err)
		}
		s.ID, s.Time = annals.PersistenceID(id), s.Time.UTC()
		if s.Tags, err = list(tags); err != nil {
			return to, corrupt(id, s.Revision, err)
		}
		if s.SerializerID == 0 {
			s.Deleted, s.Payload = true, annals.Payload{}
		}
		result.Bytes += len(s.Data)
		to = append(to, s)
	}
	return to, rows.Err()
}
