package pgstore

import "strings"

// statements are the texts of the statements that depend on the tables. They are made once, when the store opens.
type statements struct {
	appendFirst, appendNext string // one event
	appendEach              string // commits of one event each
	appendAll               string // commits of any number of events, which may have times of their own
	appendDeleted           string // commits after deleted events
	lookUp, last, deleteTo  string
	skip                    string
	remains                 string // of a deleted entity; this and the next ones are Forget's
	lockState, lockDeletes  string
	lockNewest, lockJournal string
	forgetEvents            string
	forgetState             string
	replay, replayTo        string // without and with a last number
	gap                     string // with {state} for the table of the entity's state
	recover                 string
	events, eventKeys       string // the columns of an event, with and without payloads
	loadSnapshot            string
	saveSnapshot            string
	deleteSnapshots         string
	snapshots, snapshotKeys string // followed snapshots, with and without payloads
}

func (s *backend) prepare() {
	s.sql.events, s.sql.eventKeys = eventColumns(payloadBytes(s.journal, "event_payload"), "meta_payload"), eventColumns("''::bytea", "NULL::bytea")
	s.prepareAppend()
	s.prepareDelete()
	s.prepareReplay()
	s.prepareGap()
	s.prepareSnapshots()
	s.prepareRecover()
	s.prepareSkip()
	s.prepareForget()
	for _, t := range s.states {
		t.prepare()
	}
}

// lastNumber is an expression for the last number of the entity id. Of max, the server would read all rows of the entity if it made its plan when there
// were few.
func lastNumber(id string) string {
	return "coalesce((SELECT seq_nr FROM {journal} WHERE persistence_id = " + id + " ORDER BY seq_nr DESC LIMIT 1), 0)"
}

// fill replaces the placeholders of a statement: names of tables, the columns of a new row, the event columns, the empty payload of an
// event, and further ones, as pairs.
func (s *backend) fill(sql string, further ...string) string {
	return strings.NewReplacer(append(further,
		"{journal}", s.journal.name, "{snapshot}", s.snapshot.name, "{offset}", s.offset.name, "{epoch}", s.epoch.name,
		"{row}", "slice, entity_type, persistence_id, seq_nr, writer, event_ser_id, event_ser_manifest, event_payload, adapter_manifest, tags, meta_ser_id, meta_ser_manifest, meta_payload, db_timestamp",
		"{events}", s.sql.events, "{no payload}", noPayload(s.journal, "event_payload"))...).Replace(sql)
}

// payloadBytes is an expression for the bytes of a payload column.
func payloadBytes(t *table, column string) string {
	if t.json(column) {
		return "convert_to(" + column + "::text, 'UTF8')"
	}
	return column
}

// payloadValue is an expression that converts bytes to the type of a payload column.
func payloadValue(t *table, column, bytes string) string {
	if t.json(column) {
		return "convert_from(" + bytes + ", 'UTF8')::" + t.columns[column].typ
	}
	return bytes
}

// noPayload is the value of a payload column where there is no payload.
func noPayload(t *table, column string) string {
	if t.json(column) {
		return "'{}'::" + t.columns[column].typ
	}
	return "''::bytea"
}

// In these statements, the time of a write is later than that of the entity's last row, even where clocks step back, unless that time
// is infinite. Each commit of a group has a time of its own: the plugins' queries read a number of rows after the time of the last row
// read, and make no progress where more rows than that share a time. A group does not get ahead of the clock, because writing a row
// takes longer than a microsecond.
//
// An entity whose newest row is a deleted event may be forgotten during the statement. So only appendDeleted writes after such a row: it
// locks the row, and so does Forget. Where the row is gone when the lock is free, the server leaves it out.
func (s *backend) prepareAppend() {
	value := func(bytes string) string { return payloadValue(s.journal, "event_payload", bytes) }

	// Without ON CONFLICT, which looks into the index once more: only a concurrent writer can violate the key here.
	s.sql.appendFirst = s.fill(`
		INSERT INTO {journal} ({row})
		SELECT $1::int, $2::text, $3::text, $4::bigint + 1, $5::text, $6::int, $7::text, {payload},
			$9::text, $10::text::text[], $11::int, $12::text, $13::bytea, transaction_timestamp()
		WHERE NOT EXISTS (SELECT FROM {journal} WHERE persistence_id = $3::text AND seq_nr > 0)
		RETURNING db_timestamp`, "{payload}", value("$8::bytea"))

	// A scan of the index reads all rows of the entity within a leaf page: from $4 on there is one, if the writer wins.
	s.sql.appendNext = s.fill(`
		INSERT INTO {journal} ({row})
		SELECT $1::int, $2::text, $3::text, $4::bigint + 1, $5::text, $6::int, $7::text, {payload},
			$9::text, $10::text::text[], $11::int, $12::text, $13::bytea,
			greatest(transaction_timestamp(), nullif(last.db_timestamp, 'infinity') + interval '1 microsecond')
		FROM (SELECT seq_nr, db_timestamp, deleted FROM {journal} WHERE persistence_id = $3::text AND seq_nr >= $4::bigint ORDER BY seq_nr DESC LIMIT 1) last
		WHERE last.seq_nr = $4::bigint AND NOT last.deleted
		RETURNING db_timestamp`, "{payload}", value("$8::bytea"))

	// Commits to different entities, in the order of their ids: two groups must not deadlock.
	s.sql.appendEach = s.fill(`
		INSERT INTO {journal} ({row})
		SELECT e.slice, e.entity_type, e.id, e.after + 1, e.writer, e.ser_id, e.manifest, {payload},
			e.adapter, e.tags::text[], e.meta_id, e.meta_manifest, e.meta,
			greatest(transaction_timestamp() + (e.nr - 1) * interval '1 microsecond', nullif(last.db_timestamp, 'infinity') + interval '1 microsecond')
		FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::text[],
				$6::text[], $7::int[], $8::text[], $9::bytea[], $10::text[], $11::int[], $12::text[], $13::bytea[]) WITH ORDINALITY
			AS e (slice, entity_type, id, after, writer, adapter, ser_id, manifest, payload, tags, meta_id, meta_manifest, meta, nr)
			LEFT JOIN LATERAL (SELECT seq_nr, db_timestamp, deleted FROM {journal} WHERE persistence_id = e.id AND seq_nr >= e.after
				ORDER BY seq_nr DESC LIMIT 1) last ON TRUE
		WHERE coalesce(last.seq_nr, 0) = e.after AND last.deleted IS NOT TRUE
		ORDER BY nr
		ON CONFLICT (persistence_id, seq_nr) DO NOTHING
		RETURNING persistence_id, db_timestamp`, "{payload}", value("e.payload"))

	// The first event of a commit decides whether the commit wins. The other events of the winners follow in the same statement.
	appendAll := s.fill(`
		WITH m AS MATERIALIZED (
			SELECT m.*, greatest(transaction_timestamp() + (m.nr - 1) * interval '1 microsecond',
				nullif(last.db_timestamp, 'infinity') + interval '1 microsecond') AS at
			FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::timestamptz[]) WITH ORDINALITY
				AS m (slice, entity_type, id, after, writer, latest, nr)
				LEFT JOIN LATERAL ({newest}) last ON TRUE
			WHERE coalesce(last.seq_nr, 0) = m.after AND {writable} AND coalesce(m.latest <= transaction_timestamp() + interval '1 minute', TRUE)),
		e AS MATERIALIZED (
			SELECT * FROM unnest($7::bigint[], $8::bigint[], $9::text[], $10::int[], $11::text[], $12::bytea[], $13::text[], $14::int[], $15::text[],
				$16::bytea[], $17::timestamptz[])
				AS e (nr, seq_nr, adapter, ser_id, manifest, payload, tags, meta_id, meta_manifest, meta, at)),
		won AS (
			INSERT INTO {journal} ({row})
			SELECT m.slice, m.entity_type, m.id, e.seq_nr, m.writer, e.ser_id, e.manifest, {payload},
				e.adapter, e.tags::text[], e.meta_id, e.meta_manifest, e.meta, coalesce(e.at, m.at)
			FROM m JOIN e USING (nr) WHERE e.seq_nr = m.after + 1
			ORDER BY nr
			ON CONFLICT (persistence_id, seq_nr) DO NOTHING
			RETURNING persistence_id),
		rest AS (
			INSERT INTO {journal} ({row})
			SELECT m.slice, m.entity_type, m.id, e.seq_nr, m.writer, e.ser_id, e.manifest, {payload},
				e.adapter, e.tags::text[], e.meta_id, e.meta_manifest, e.meta, coalesce(e.at, m.at)
			FROM won JOIN m ON m.id = won.persistence_id JOIN e USING (nr) WHERE e.seq_nr > m.after + 1
			ORDER BY nr, e.seq_nr)
		SELECT m.id, m.at FROM won JOIN m ON m.id = won.persistence_id`, "{payload}", value("e.payload"))
	s.sql.appendAll = s.fill(s.fill(appendAll, "{newest}", `SELECT seq_nr, db_timestamp, deleted FROM {journal}
					WHERE persistence_id = m.id AND seq_nr >= m.after ORDER BY seq_nr DESC LIMIT 1`, "{writable}", "last.deleted IS NOT TRUE"))
	s.sql.appendDeleted = s.fill(s.fill(appendAll, "{newest}", `SELECT seq_nr, db_timestamp, deleted FROM {journal} newest
					WHERE persistence_id = m.id AND seq_nr = m.after AND deleted
						AND NOT EXISTS (SELECT FROM {journal} WHERE persistence_id = m.id AND seq_nr > m.after)
					FOR KEY SHARE OF newest`, "{writable}", "last.deleted"))

	s.sql.last = s.fill("SELECT " + lastNumber("$1"))

	// Is the commit of $4 events after $2 one of the writer $3, and where does it end? Events of one commit share time and writer,
	// and the next commit is later: so the row before tells a commit's first event from one in its middle. Where events have times of
	// their own ($5) the writer alone counts. DeleteTo strips rows, gives the last of them its own time, which is later, and removes
	// old ones, from the first on: the commit's time is that of its earliest row, and the last row is proof enough where the first
	// has been removed.
	s.sql.lookUp = s.fill(`
		SELECT coalesce(last.seq_nr, 0), coalesce(last.deleted, FALSE), own.at, coalesce(own.until, 0), transaction_timestamp()
		FROM (SELECT) one
			LEFT JOIN LATERAL (SELECT seq_nr, deleted FROM {journal} WHERE persistence_id = $1 AND seq_nr >= 0 ORDER BY seq_nr DESC LIMIT 1) last ON TRUE
			LEFT JOIN LATERAL (
				SELECT CASE WHEN $5 THEN c.last_at ELSE c.at END AS at, (SELECT max(r.seq_nr) FROM {journal} r WHERE r.persistence_id = $1 AND r.seq_nr > $2 AND r.seq_nr <= $2 + $4
					AND r.writer = $3 AND ($5 OR r.db_timestamp = c.at OR r.deleted)) AS until
				FROM (SELECT min(r.db_timestamp) FILTER (WHERE r.writer = $3) AS at,
						(array_agg(r.db_timestamp ORDER BY r.seq_nr DESC) FILTER (WHERE r.writer = $3))[1] AS last_at,
						bool_or(r.seq_nr = $2 + 1 AND r.writer = $3) AS begins,
						bool_or(r.seq_nr = $2 + 1 AND r.writer <> $3 AND NOT (r.deleted AND r.writer = '')) AS other,
						bool_or(r.seq_nr = $2 + $4 AND r.writer = $3) AS ends
					FROM {journal} r WHERE r.persistence_id = $1 AND r.seq_nr > $2 AND r.seq_nr <= $2 + $4) c
				WHERE (c.begins OR c.ends AND NOT c.other) AND ($5 OR NOT EXISTS (SELECT FROM {journal} b WHERE b.persistence_id = $1
					AND b.seq_nr = $2 AND b.writer = $3 AND (b.db_timestamp = c.at OR b.deleted)))) own ON TRUE`)
}
