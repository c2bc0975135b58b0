package pgstore

import (
	"fmt"
	"strings"
)

// statements are the texts that the names and payload types of the tables decide, made once when the store opens.
type statements struct {
	appendFirst, appendNext    [2]string // of an event with nothing but its payload, and of any
	appendEach, appendAll      string
	lookUp, last, deleteTo     string
	replay, recover            string
	saveSnapshot, loadSnapshot string
	deleteSnapshots            string
	events, eventKeys          string
}

// read is an expression for the bytes of a payload column.
func read(t *table, column string) string {
	if t.json(column) {
		return "convert_to(" + column + "::text, 'UTF8')"
	}
	return column
}

// written is an expression that makes bytes what a payload column holds.
func written(t *table, column, bytes string) string {
	if t.json(column) {
		return "convert_from(" + bytes + ", 'UTF8')::" + t.columns[column].typ
	}
	return bytes
}

// empty is what a payload column holds where there is no payload.
func empty(t *table, column string) string {
	if t.json(column) {
		return "'{}'::" + t.columns[column].typ
	}
	return "''::bytea"
}

func (s *Store) prepare() {
	s.prepareAppend()
	s.prepareDelete()
	s.prepareReplay()
	s.prepareSnapshots()
	s.prepareRecover()
	for _, t := range s.states {
		t.prepare()
	}
}

// lastRow joins the newest row of the entity in column id, event or marker, as last: its number is the entity's. Rows before
// from are not looked for: a scan of the index reads all that a leaf page has of the entity, and from the last number on that is one.
func (s *Store) lastRow(id, from string) string {
	return fmt.Sprintf(`LEFT JOIN LATERAL (
		SELECT j.seq_nr, j.db_timestamp FROM %s j WHERE j.persistence_id = %s AND j.seq_nr >= %s ORDER BY j.seq_nr DESC LIMIT 1) last ON TRUE`, s.journal.name, id, from)
}

// after is the time of the next write behind a row that was written at earlier: times rise by entity even where clocks step back.
func after(earlier string) string { return later("transaction_timestamp()", earlier) }

// nth is after for commit number nr of a group: each has a time of its own. Queries of the plugins read a number of rows behind the
// time of the last, and do not get past a time that more rows share. A group never gets ahead of the clock: to write a row takes
// longer than a microsecond.
func nth(nr, earlier string) string {
	return later("transaction_timestamp() + ("+nr+" - 1) * interval '1 microsecond'", earlier)
}

func later(now, earlier string) string {
	return "greatest(" + now + ", " + finite(earlier) + " + interval '1 microsecond')"
}

// finite is at, NULL where it is the end of all times: nothing can come behind that.
func finite(at string) string { return "nullif(" + at + ", 'infinity')" }

const journalColumns = `slice, entity_type, persistence_id, seq_nr, writer, event_ser_id, event_ser_manifest, event_payload,
	adapter_manifest, tags, meta_ser_id, meta_ser_manifest, meta_payload, db_timestamp`

func (s *Store) prepareAppend() {
	insert := fmt.Sprintf("INSERT INTO %s (%s)", s.journal.name, strings.Join(strings.Fields(journalColumns), " "))
	const drop = "ON CONFLICT (persistence_id, seq_nr) DO NOTHING RETURNING persistence_id, db_timestamp"

	// One commit of one event: what a lone writer pays for. Without ON CONFLICT, which costs a second look into the index: here
	// only a writer that loses in the same moment meets the key.
	const one = "$1::int, $2::text, $3::text, $4::bigint + 1, $5::text, $6::int, $7::text, "
	for i, rest := range []struct{ columns, values string }{
		{"adapter_manifest", "''::text"}, // the others are NULL by themselves
		{"adapter_manifest, tags, meta_ser_id, meta_ser_manifest, meta_payload", "$9::text, $10::text::text[], $11::int, $12::text, $13::bytea"},
	} {
		columns := "slice, entity_type, persistence_id, seq_nr, writer, event_ser_id, event_ser_manifest, event_payload, " + rest.columns + ", db_timestamp"
		values := one + written(s.journal, "event_payload", "$8::bytea") + ", " + rest.values
		s.sql.appendFirst[i] = fmt.Sprintf(`INSERT INTO %[1]s (%[2]s) SELECT %[3]s, transaction_timestamp()
			WHERE NOT EXISTS (SELECT FROM %[1]s WHERE persistence_id = $3::text AND seq_nr > 0) RETURNING db_timestamp`, s.journal.name, columns, values)
		s.sql.appendNext[i] = fmt.Sprintf(`INSERT INTO %[1]s (%[2]s) SELECT %[3]s, %[4]s
			FROM (SELECT seq_nr, db_timestamp FROM %[1]s WHERE persistence_id = $3::text AND seq_nr >= $4::bigint ORDER BY seq_nr DESC LIMIT 1) last
			WHERE last.seq_nr = $4::bigint RETURNING db_timestamp`, s.journal.name, columns, values, after("last.db_timestamp"))
	}

	// Commits of one event each, to different entities. Two groups must not deadlock: all insert in the order of the ids.
	s.sql.appendEach = fmt.Sprintf(`%s
		SELECT e.slice, e.entity_type, e.id, e.after + 1, e.writer, e.ser_id, e.manifest, %s, e.adapter, e.tags::text[], e.meta_id, e.meta_manifest, e.meta, %s
		FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::int[], $8::text[], $9::bytea[], $10::text[], $11::int[], $12::text[], $13::bytea[])
			WITH ORDINALITY AS e (slice, entity_type, id, after, writer, adapter, ser_id, manifest, payload, tags, meta_id, meta_manifest, meta, nr) %s
		WHERE coalesce(last.seq_nr, 0) = e.after
		ORDER BY nr
		%s`, insert, written(s.journal, "event_payload", "e.payload"), nth("e.nr", "last.db_timestamp"), s.lastRow("e.id", "e.after"), drop)

	commits := fmt.Sprintf(`SELECT m.*, %s AS at
		FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::text[]) WITH ORDINALITY AS m (slice, entity_type, id, after, writer, nr)
		%s
		WHERE coalesce(last.seq_nr, 0) = m.after`, nth("m.nr", "last.db_timestamp"), s.lastRow("m.id", "m.after"))
	const events = `SELECT * FROM unnest($6::bigint[], $7::bigint[], $8::text[], $9::int[], $10::text[], $11::bytea[], $12::text[], $13::int[], $14::text[], $15::bytea[])
		AS e (nr, seq_nr, adapter, ser_id, manifest, payload, tags, meta_id, meta_manifest, meta)`
	event := fmt.Sprintf(`m.slice, m.entity_type, m.id, e.seq_nr, m.writer, e.ser_id, e.manifest, %s, e.adapter, e.tags::text[], e.meta_id, e.meta_manifest, e.meta, m.at`,
		written(s.journal, "event_payload", "e.payload"))

	// The first event of a commit decides whether it wins. Only winners' other events follow, in the same statement.
	s.sql.appendAll = fmt.Sprintf(`WITH m AS MATERIALIZED (%s), e AS MATERIALIZED (%s),
		won AS (%s SELECT %s FROM m JOIN e USING (nr) WHERE e.seq_nr = m.after + 1 ORDER BY nr %s),
		rest AS (%s SELECT %s FROM won JOIN m ON m.id = won.persistence_id JOIN e USING (nr) WHERE e.seq_nr > m.after + 1 ORDER BY nr, e.seq_nr)
		SELECT persistence_id, db_timestamp FROM won`, commits, events, insert, event, drop, insert, event)

	s.sql.last = fmt.Sprintf(`SELECT coalesce(max(seq_nr), 0) FROM %s WHERE persistence_id = $1`, s.journal.name)

	// Is the commit of $4 events behind $2 one of the writer $3, and where does it end? Events of one commit share time and writer,
	// and the next commit is later: so the row before tells a commit's first event from one in its middle. DeleteTo strips rows,
	// gives the last of them its own time, which is later, and removes old ones, from the first on: the commit's time is that of
	// its earliest row, and the last row is proof enough where the first is no more.
	s.sql.lookUp = fmt.Sprintf(`SELECT coalesce(last.seq_nr, 0), own.at, coalesce(own.until, 0)
		FROM (SELECT) one %s LEFT JOIN LATERAL (
			SELECT c.at, (SELECT max(r.seq_nr) FROM %[2]s r WHERE r.persistence_id = $1 AND r.seq_nr > $2 AND r.seq_nr <= $2 + $4
				AND r.writer = $3 AND (r.db_timestamp = c.at OR r.deleted)) AS until
			FROM (SELECT min(r.db_timestamp) FILTER (WHERE r.writer = $3) AS at,
					bool_or(r.seq_nr = $2 + 1 AND r.writer = $3) AS begins,
					bool_or(r.seq_nr = $2 + 1 AND r.writer <> $3 AND NOT (r.deleted AND r.writer = '')) AS other,
					bool_or(r.seq_nr = $2 + $4 AND r.writer = $3) AS ends
				FROM %[2]s r WHERE r.persistence_id = $1 AND r.seq_nr > $2 AND r.seq_nr <= $2 + $4) c
			WHERE (c.begins OR c.ends AND NOT c.other) AND NOT EXISTS (SELECT FROM %[2]s b WHERE b.persistence_id = $1 AND b.seq_nr = $2
				AND b.writer = $3 AND (b.db_timestamp = c.at OR b.deleted))) own ON TRUE`,
		s.lastRow("$1", "0"), s.journal.name)
}
