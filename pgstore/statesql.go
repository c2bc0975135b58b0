package pgstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/sqltext"
	"github.com/annals-go/annals/internal/writes"
)

// stateStatements are the texts of the statements for one table.
type stateStatements struct {
	insert, update                  string // see stateTable.statement
	get, lookUp, last, skip, gap    string
	remains, lockState, forgetState string // Forget's
}

// The columns of a state in the order of eventColumns, after the id. A plugin that writes the state leaves the columns that it does not know as
// they are: the metadata is that of a revision which is among the last writes. Without an id of the serializer there is none.
const stateColumns = `persistence_id, revision, db_timestamp, state_ser_id, coalesce(state_ser_manifest, ''), state_payload::bytea, NULL::text, NULL::text, tags,
	CASE WHEN ' ' || "write_ids" NOT LIKE '% ' || revision || '/%' THEN NULL ELSE "meta_ser_id" END, "meta_ser_manifest", "meta_payload"`

// In tables with the wide key an entity may have two rows: the newest counts.
const (
	getState    = `SELECT ` + stateColumns + ` FROM "durable_state" WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1`
	lookUpState = `SELECT revision, coalesce("write_ids", '') FROM "durable_state" WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1`
	lastOfState = `SELECT revision FROM "durable_state" WHERE persistence_id = $1 ORDER BY revision DESC LIMIT 1`
	skipState   = `
		INSERT INTO "durable_state" (slice, entity_type, persistence_id, revision, db_timestamp, state_ser_id, state_ser_manifest, state_payload)
		SELECT $1::int, $2::text, $3::text, $4::bigint, transaction_timestamp(), 0, '', ''::bytea
		WHERE NOT EXISTS (SELECT FROM "durable_state" WHERE persistence_id = $3::text)
		ON CONFLICT DO NOTHING`
)

// Optional and additional columns follow where the comments are: see sqltext.WithColumns. The key is the table's, and may have the revision, too.
//
// The time of an update is later than the time before, even where clocks step back, unless that time is infinite. As in the plugins a
// tombstone keeps its tags, so that followers of a tag see it.
const (
	insertState = `
		INSERT INTO "durable_state" (persistence_id, revision, slice, entity_type, tags, state_ser_id, state_ser_manifest, state_payload, db_timestamp/*, column*/)
		SELECT $1::text, $2::bigint + 1, $3::int, $4::text, $5::text[], $6::int, $7::text, $8::bytea, transaction_timestamp()/*, value*/
		WHERE NOT EXISTS (SELECT FROM "durable_state" WHERE persistence_id = $1::text)
		ON CONFLICT ("persistence_id") DO NOTHING
		RETURNING db_timestamp`
	updateState = `
		UPDATE "durable_state" AS old SET revision = $2::bigint + 1, slice = $3::int, entity_type = $4::text,
			tags = CASE WHEN $6::int = 0 AND $5::text[] IS NULL THEN old.tags ELSE $5::text[] END,
			state_ser_id = $6::int, state_ser_manifest = $7::text, state_payload = $8::bytea,
			db_timestamp = greatest(transaction_timestamp(), nullif(old.db_timestamp, 'infinity') + interval '1 microsecond')/*, column = value*/
		WHERE old.persistence_id = $1::text AND old.revision = $2::bigint
			AND NOT EXISTS (SELECT FROM "durable_state" newer WHERE newer.persistence_id = $1::text AND newer.revision > $2::bigint)
		RETURNING db_timestamp`
)

// The values of the column write_ids for a write: itself in the text form of writes.Write, and the last writes with it. $9 is its id.
const firstID = `($2::bigint + 1) || '/' || (extract(epoch FROM transaction_timestamp()) * 1000000)::bigint || '/' || $9::text`

var nextIDs = `array_to_string(
	(string_to_array(old.write_ids, ' '))[greatest(cardinality(string_to_array(old.write_ids, ' ')) - ` + strconv.Itoa(writes.Remembered-2) + `, 1):] ||
	(($2::bigint + 1) || '/' || (extract(epoch FROM greatest(transaction_timestamp(), nullif(old.db_timestamp, 'infinity') + interval '1 microsecond'))
		* 1000000)::bigint || '/' || $9::text), ' ')`

func (t *stateTable) prepare(s *backend) {
	fill := s.filler(t.table, `"durable_state"`, t.name, `"persistence_id"`, strings.Join(t.key, ", "))
	t.fill = fill
	var columns []string // the optional ones, with a parameter each
	if t.has(writeIDs) {
		columns = append(columns, writeIDs)
	}
	if t.keepsMetadata() {
		columns = append(columns, metaNames...)
	}
	withOptional := func(sql, ids string) string {
		return sqltext.WithColumns(fill(sql), len(columns), func(i int) (name, value string) {
			if columns[i] == writeIDs {
				return writeIDs, ids
			}
			return columns[i], "$" + strconv.Itoa(9+i)
		})
	}
	t.sql = stateStatements{
		insert: withOptional(insertState, firstID), update: withOptional(updateState, nextIDs),
		get: fill(getState), lookUp: fill(lookUpState), last: fill(lastOfState), skip: fill(skipState), gap: fill(findGap),
		remains: fill(findRemains), lockState: fill(lockState), forgetState: fill(forgetState),
	}
}

// guard prevents concurrent writes of the first revision of id until tx ends, where the table's key does not.
func (t *stateTable) guard(ctx context.Context, tx pgx.Tx, id annals.PersistenceID) error {
	if !t.wide() {
		return nil
	}
	_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock("+lockKey("state", "$1", "$2")+")", string(id), t.name)
	return err
}

// statement is the statement for p, with its arguments. It writes one row, or none when the last revision is not p.After. The additional
// columns differ from write to write.
func (t *stateTable) statement(p *statePut) (sql string, args []any) {
	data := notNil(p.Data)
	if p.SerializerID == 0 && t.json() {
		data = []byte("{}")
	}
	args = []any{string(p.ID), int64(p.After), p.ID.Slice(), p.ID.Type(), p.Tags, p.SerializerID, p.Manifest, data}
	if t.has(writeIDs) {
		args = append(args, p.WriteID.String())
	}
	if t.keepsMetadata() {
		id, manifest, meta := metaColumns(&p.Metadata)
		args = append(args, id, manifest, meta)
	}
	sql = t.sql.update
	if p.After == 0 {
		sql = t.sql.insert
	}
	first := len(args) + 1
	sql = sqltext.WithColumns(sql, len(p.names), func(i int) (name, value string) { return quote(p.names[i]), "$" + strconv.Itoa(first+i) })
	return sql, append(args, p.values...)
}
