package pgstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/sqlrow"
)

// stateStatements are the texts of the statements for one table.
type stateStatements struct {
	get, lookUp, last string
	skip              string
	columns           string
	keys              string // columns without payloads
}

func (t *stateTable) prepare() {
	fill := func(sql string) string {
		return strings.NewReplacer("{state}", t.name, "{columns}", t.sql.columns, "{no payload}", noPayload(t.table, "state_payload"),
			"{write ids}", t.columnOr(writeIDs, "NULL::text")).Replace(sql)
	}
	t.sql.columns = t.stateColumns(payloadBytes(t.table, "state_payload"), t.columnOr("meta_payload", "NULL::bytea"))
	t.sql.keys = t.stateColumns("''::bytea", "NULL::bytea")
	// In tables with the wide key an entity may have two rows: the newest counts.
	t.sql.get = fill(`SELECT {columns} FROM {state} WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1`)
	t.sql.lookUp = fill(`SELECT revision, coalesce({write ids}, '') FROM {state} WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1`)
	t.sql.last = fill(`SELECT revision FROM {state} WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1`)
	t.sql.skip = fill(`
		INSERT INTO {state} (slice, entity_type, persistence_id, revision, db_timestamp, state_ser_id, state_ser_manifest, state_payload)
		SELECT $1::int, $2::text, $3::text, $4::bigint, transaction_timestamp(), 0, '', {no payload}
		WHERE NOT EXISTS (SELECT FROM {state} WHERE persistence_id = $3::text)
		ON CONFLICT DO NOTHING`)
}

// stateColumns are the columns of a state as appendStates reads them.
func (t *stateTable) stateColumns(payload, meta string) string {
	return "persistence_id, revision, db_timestamp, state_ser_id, coalesce(state_ser_manifest, ''), " + payload + ", tags, " +
		t.columnOr("meta_ser_id", "NULL::int") + ", " + t.columnOr("meta_ser_manifest", "NULL::text") + ", " + meta
}

// columnOr is an optional column, or another expression where the table lacks the column.
func (t *stateTable) columnOr(column, other string) string {
	if t.has(column) {
		return column
	}
	return other
}

// guard prevents concurrent writes of the first revision of id until tx ends, where the table's key does not.
func (t *stateTable) guard(ctx context.Context, tx pgx.Tx, id annals.PersistenceID) error {
	if !t.wide() {
		return nil
	}
	_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`, "annals state "+string(id))
	return err
}

// statement is the statement for p. It writes one row, or none when the last revision is not p.After.
func (t *stateTable) statement(p *statePut) (sql string, args []any) {
	b := stateBuilder{t: t}
	if p.After == 0 {
		return b.insert(p), b.args
	}
	return b.update(p), b.args
}

// stateBuilder collects the columns that a write sets, which differ from write to write.
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
	b.metadata(p)
	b.additional(p)
	guard := ""
	if b.t.wide() {
		guard = fmt.Sprintf(" WHERE NOT EXISTS (SELECT FROM %s WHERE persistence_id = %s)", b.t.name, id)
	}
	return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s%s ON CONFLICT (%s) DO NOTHING RETURNING db_timestamp",
		b.t.name, strings.Join(b.columns, ", "), strings.Join(b.values, ", "), guard, strings.Join(b.t.key, ", "))
}

func (b *stateBuilder) update(p *statePut) string {
	// Later than the time before, even where clocks step back, unless that time is infinite.
	const later = "greatest(transaction_timestamp(), nullif(old.db_timestamp, 'infinity') + interval '1 microsecond')"
	id, before := b.arg(string(p.ID))+"::text", b.arg(int64(p.After))+"::bigint"
	b.set("revision", before+" + 1")
	b.set("db_timestamp", later)
	if b.t.has(writeIDs) {
		b.set(writeIDs, fmt.Sprintf(`array_to_string((string_to_array(old.%[1]s, ' '))[greatest(cardinality(string_to_array(old.%[1]s, ' ')) - %[2]d, 1):] || (%[3]s), ' ')`,
			writeIDs, sqlrow.RememberedWrites-2, b.entry(p, "("+before+" + 1)", later)))
	}
	if !p.deleted || len(p.Tags) > 0 { // as in the plugins a tombstone keeps its tags, so that followers of a tag see it
		b.set("tags", b.arg(p.Tags)+"::text[]")
	}
	b.payload(p)
	b.metadata(p)
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
		b.set("state_payload", noPayload(b.t.table, "state_payload"))
		return
	}
	b.set("state_ser_id", b.arg(p.SerializerID)+"::int")
	b.set("state_ser_manifest", b.arg(p.Manifest)+"::text")
	b.set("state_payload", payloadValue(b.t.table, "state_payload", b.arg(notNil(p.Data))+"::bytea"))
}

func (b *stateBuilder) metadata(p *statePut) {
	if !b.t.keepsMetadata() {
		return
	}
	id, manifest, data := metaColumns(p.Metadata)
	b.set("meta_ser_id", b.arg(id)+"::int")
	b.set("meta_ser_manifest", b.arg(manifest)+"::text")
	b.set("meta_payload", b.arg(data)+"::bytea")
}

func (b *stateBuilder) additional(p *statePut) {
	for i, name := range p.names {
		b.set(name, b.arg(p.values[i]))
	}
}

// entry is an expression for p in the text form of sqlrow.Write.
func (b *stateBuilder) entry(p *statePut, revision, at string) string {
	return fmt.Sprintf("%s || '/' || (extract(epoch FROM %s) * 1000000)::bigint || '/' || %s::text", revision, at, b.arg(p.WriteID.String()))
}

// appendStates reads rows of stateStatements.columns to their end.
func appendStates(to []annals.State, rows pgx.Rows) ([]annals.State, error) {
	defer rows.Close()
	for rows.Next() {
		var s annals.State
		var id string
		var tags pgtype.Array[string]
		var metaID *int32
		var metaManifest *string
		var meta []byte
		err := rows.Scan(&id, (*int64)(&s.Revision), &s.Time, &s.SerializerID, &s.Manifest, &s.Data, &tags, &metaID, &metaManifest, &meta)
		if err != nil {
			return to, corrupt(id, s.Revision, err)
		}
		s.ID, s.Time, s.Metadata = annals.PersistenceID(id), s.Time.UTC(), metadata(metaID, metaManifest, meta)
		if s.Tags, err = list(tags); err != nil {
			return to, corrupt(id, s.Revision, err)
		}
		if s.Revision < 1 {
			return to, corrupt(id, s.Revision, errNumber)
		}
		if err := checkMetadata(s.Metadata); err != nil {
			return to, corrupt(id, s.Revision, err)
		}
		if s.SerializerID == 0 {
			s.Deleted, s.Payload = true, annals.Payload{}
		}
		to = append(to, s)
	}
	return to, rows.Err()
}
