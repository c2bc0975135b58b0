package pgstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/writes"
)

// stateStatements are the texts of the statements for one table.
type stateStatements struct {
	insert, update    string // see stateTable.statement
	get, lookUp, last string
	skip              string
	columns           string
	keys              string // columns without payloads
}

func (t *stateTable) prepare() {
	t.sql.columns = t.stateColumns(payloadBytes(t.table, "state_payload"), t.columnOr("meta_payload", "NULL::bytea"))
	t.sql.keys = t.stateColumns("''::bytea", "NULL::bytea")
	fill := func(sql string, further ...string) string {
		return strings.NewReplacer(append(further, "{state}", t.name, "{columns}", t.sql.columns, "{key}", strings.Join(t.key, ", "),
			"{payload}", payloadValue(t.table, "state_payload", "$8::bytea"), "{no payload}", noPayload(t.table, "state_payload"),
			"{write ids}", t.columnOr(writeIDs, "NULL::text"))...).Replace(sql)
	}
	// In tables with the wide key an entity may have two rows: the newest counts.
	t.sql.get = fill(`SELECT {columns} FROM {state} WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1`)
	t.sql.lookUp = fill(`SELECT revision, coalesce({write ids}, '') FROM {state} WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1`)
	t.sql.last = fill(`SELECT revision FROM {state} WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1`)
	t.sql.skip = fill(`
		INSERT INTO {state} (slice, entity_type, persistence_id, revision, db_timestamp, state_ser_id, state_ser_manifest, state_payload)
		SELECT $1::int, $2::text, $3::text, $4::bigint, transaction_timestamp(), 0, '', {no payload}
		WHERE NOT EXISTS (SELECT FROM {state} WHERE persistence_id = $3::text)
		ON CONFLICT DO NOTHING`)

	// A write in the text form of writes.Write, at the time {at}, and the column for the last writes.
	const entry = `($2::bigint + 1) || '/' || (extract(epoch FROM {at}) * 1000000)::bigint || '/' || $9::text`
	ids, firstID, nextIDs := "", "", ""
	if t.has(writeIDs) {
		ids, firstID = ", write_ids", ", "+entry
		nextIDs = `, write_ids = array_to_string(
				(string_to_array(old.write_ids, ' '))[greatest(cardinality(string_to_array(old.write_ids, ' ')) - {kept}, 1):] || (` + entry + `), ' ')`
	}
	t.sql.insert = fill(strings.NewReplacer("{, ids}", ids, "{, id}", firstID).Replace(`
		INSERT INTO {state} (persistence_id, revision, slice, entity_type, tags, state_ser_id, state_ser_manifest, state_payload, db_timestamp{, ids}{, column})
		SELECT $1::text, $2::bigint + 1, $3::int, $4::text, $5::text[], $6::int, $7::text, {payload}, {at}{, id}{, value}
		WHERE NOT EXISTS (SELECT FROM {state} WHERE persistence_id = $1::text)
		ON CONFLICT ({key}) DO NOTHING
		RETURNING db_timestamp`), "{at}", "transaction_timestamp()")

	// The time is later than the time before, even where clocks step back, unless that time is infinite. As in the plugins a tombstone keeps
	// its tags, so that followers of a tag see it.
	t.sql.update = fill(strings.NewReplacer("{, ids}", nextIDs).Replace(`
		UPDATE {state} AS old SET revision = $2::bigint + 1, slice = $3::int, entity_type = $4::text,
			tags = CASE WHEN $6::int = 0 AND $5::text[] IS NULL THEN old.tags ELSE $5::text[] END,
			state_ser_id = $6::int, state_ser_manifest = $7::text, state_payload = {payload}, db_timestamp = {at}{, ids}{, column = value}
		WHERE old.persistence_id = $1::text AND old.revision = $2::bigint
			AND NOT EXISTS (SELECT FROM {state} newer WHERE newer.persistence_id = $1::text AND newer.revision > $2::bigint)
		RETURNING db_timestamp`), "{kept}", strconv.Itoa(writes.Remembered-2),
		"{at}", "greatest(transaction_timestamp(), nullif(old.db_timestamp, 'infinity') + interval '1 microsecond')")
}

// stateColumns are the id and the columns of a state, with expressions for the two payloads.
func (t *stateTable) stateColumns(payload, meta string) string {
	return "persistence_id, " + payloadColumns("revision", "db_timestamp", "state_", payload, "tags",
		t.columnOr("meta_ser_id", "NULL::int"), t.columnOr("meta_ser_manifest", "NULL::text"), meta)
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

// statement is the statement for p, with its arguments. It writes one row, or none when the last revision is not p.After. The columns
// that are optional or additional follow the others. They differ from table to table and from write to write.
func (t *stateTable) statement(p *statePut) (sql string, args []any) {
	data := notNil(p.Data)
	if p.deleted && t.json("state_payload") {
		data = []byte("{}")
	}
	args = []any{string(p.ID), int64(p.After), p.ID.Slice(), p.ID.Type(), p.Tags, p.SerializerID, p.Manifest, data}
	if t.has(writeIDs) {
		args = append(args, p.WriteID.String())
	}
	var columns, params, sets strings.Builder
	add := func(column string, value any) {
		args = append(args, value)
		fmt.Fprintf(&columns, ", %s", quote(column))
		fmt.Fprintf(&params, ", $%d", len(args))
		fmt.Fprintf(&sets, ", %s = $%d", quote(column), len(args))
	}
	if t.keepsMetadata() {
		id, manifest, meta := metaColumns(p.Metadata)
		add("meta_ser_id", id)
		add("meta_ser_manifest", manifest)
		add("meta_payload", meta)
	}
	for i, name := range p.names {
		add(name, p.values[i])
	}
	sql = t.sql.update
	if p.After == 0 {
		sql = t.sql.insert
	}
	return strings.NewReplacer("{, column}", columns.String(), "{, value}", params.String(), "{, column = value}", sets.String()).Replace(sql), args
}
