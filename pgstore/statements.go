package pgstore

import "strings"

// statements are those that are used often. They are made once, when the store opens.
type statements struct {
	appendFirst, appendNext, appendEach, appendRaced, appendAll, appendDeleted string
	lookUp, last, deleteTo, skip                                               string
	lockDeletes, lockNewest, lockJournal, forgetEvents                         string // Forget's
	lockEntities, guarded                                                      string // Guard's
	replay, replayTo, recover                                                  string
	loadSnapshot, saveSnapshot, deleteSnapshots                                string
	lockRange, moveRange, ownOffsets, replaceOffsets                           string // of offsets
	watermark                                                                  string
}

func (s *backend) prepare() {
	fill, deleteTo := s.filler(s.journal), fencingDelete
	if s.options.PluginDeletes {
		deleteTo = pluginDelete
	}
	lockDeletes := "SELECT pg_advisory_xact_lock(" + lockKey("delete", "$1", literal(s.journal.name)) + ")"
	s.fill, s.sql = fill, statements{
		fill(appendFirst), fill(appendNext), fill(appendEach + appended), fill(appendEach + unlessTaken + appended), fill(appendAll), fill(appendDeleted),
		fill(lookUpCommit), fill(lastNumber), "WITH turn AS MATERIALIZED (" + lockDeletes + ")," + fill(deleteTo), fill(skipNumbers),
		lockDeletes, fill(lockNewest), fill(lockJournal), fill(forgetEvents),
		lockEntities(), fill(guardedNumber),
		fill(replayFrom), fill(replayTo), fill(recoverEntity),
		fill(loadSnapshot), s.filler(s.snapshot)(saveSnapshot(s.snapshotsAreFollowed())), fill(deleteSnapshots),
		fill(lockRange), fill(moveRange), fill(ownOffsets), fill(replaceOffsets),
		s.watermark(),
	}
	for _, t := range s.states {
		t.prepare(s)
	}
}

// filler returns the function that turns the text of a statement into the statement for the tables of s. A text is for the tables of Akka and
// the columns of Schema, with payloads that are bytes. Names of tables are in double quotes, and so are columns that are read and that a table
// may lack: then they become NULL. Payloads have casts to bytea, which become conversions where a column holds JSON: of what is read from any
// table, and of what is written to t.
func (s *backend) filler(t *table, further ...string) func(text string) string {
	pairs := append(further, s.tables.names()...)
	for _, from := range []*table{s.journal, s.snapshot, t} {
		for _, c := range from.shape.columns {
			if !from.has(c.Name) {
				pairs = append(pairs, quote(c.Name), "NULL::"+c.Type)
			}
		}
		if payload := from.shape.payload; from.json() {
			pairs = append(pairs, payload+"::bytea", "convert_to("+payload+"::text, 'UTF8')")
		}
	}
	if typ := t.columns[t.shape.payload].typ; t.json() {
		pairs = append(pairs, "$8::bytea[]", "$8::bytea[]") // its elements are e.payload
		for _, written := range []string{"$8::bytea", "e.payload::bytea"} {
			pairs = append(pairs, written, "convert_from("+written+", 'UTF8')::"+typ)
		}
		pairs = append(pairs, "''::bytea", "'{}'::"+typ)
	}
	return strings.NewReplacer(pairs...).Replace
}

// In these statements, the time of a write is later than that of the entity's last row, even where clocks step back, unless that time
// is infinite. Each commit of a group has a time of its own: the plugins' queries read a number of rows after the time of the last row
// read, and make no progress where more rows than that share a time. A group does not get ahead of the clock, because writing a row
// takes longer than a microsecond.
//
// An entity whose newest row is a deleted event may be forgotten during the statement. So only appendDeleted writes after such a row: it
// locks the row, and so does Forget. Where the row is gone when the lock is free, the server leaves it out.
const (
	insertEvent = `
		INSERT INTO "event_journal" (slice, entity_type, persistence_id, seq_nr, writer, event_ser_id, event_ser_manifest, event_payload,
			adapter_manifest, tags, meta_ser_id, meta_ser_manifest, meta_payload, db_timestamp)`

	insertSingle = insertEvent + `
		SELECT $1::int, $2::text, $3::text, $4::bigint + 1, $5::text, $6::int, $7::text, $8::bytea,
			coalesce($9::text, ''), $10::text::text[], $11::int, $12::text, $13::bytea, `

	// Without ON CONFLICT, which looks into the index once more: only a concurrent writer can violate the key here.
	appendFirst = insertSingle + `transaction_timestamp()
		WHERE NOT EXISTS (SELECT FROM "event_journal" WHERE persistence_id = $3::text AND seq_nr > 0)
		RETURNING db_timestamp`

	// A scan of the index reads all rows of the entity within a leaf page: from $4 on there is one, if the writer wins.
	appendNext = insertSingle + `greatest(transaction_timestamp(), nullif(last.db_timestamp, 'infinity') + interval '1 microsecond')
		FROM (SELECT seq_nr, db_timestamp, deleted FROM "event_journal" WHERE persistence_id = $3::text AND seq_nr >= $4::bigint ORDER BY seq_nr DESC LIMIT 1) last
		WHERE last.seq_nr = $4::bigint AND NOT last.deleted
		RETURNING db_timestamp`

	// Commits of one event to different entities, in the order of their ids: two groups must not deadlock. There is no ORDER BY, which would
	// sort them once more: a LATERAL subquery is executed for each row of unnest in turn. As with appendFirst, a concurrent writer of one of
	// the numbers makes the statement fail. appendRaced leaves out such commits, and takes longer.
	appendEach = insertEvent + `
		SELECT e.slice, e.entity_type, e.id, e.after + 1, e.writer, e.ser_id, e.manifest, e.payload::bytea,
			coalesce(e.adapter, ''), e.tags::text[], e.meta_id, e.meta_manifest, e.meta,
			greatest(transaction_timestamp() + (e.nr - 1) * interval '1 microsecond', nullif(last.db_timestamp, 'infinity') + interval '1 microsecond')
		FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::text[],
				$6::int[], $7::text[], $8::bytea[], $9::text[], $10::text[], $11::int[], $12::text[], $13::bytea[]) WITH ORDINALITY
			AS e (slice, entity_type, id, after, writer, ser_id, manifest, payload, adapter, tags, meta_id, meta_manifest, meta, nr)
			LEFT JOIN LATERAL (SELECT seq_nr, db_timestamp, deleted FROM "event_journal" WHERE persistence_id = e.id AND seq_nr >= e.after
				ORDER BY seq_nr DESC LIMIT 1) last ON TRUE
		WHERE coalesce(last.seq_nr, 0) = e.after AND last.deleted IS NOT TRUE`
	unlessTaken = `
		ON CONFLICT (persistence_id, seq_nr) DO NOTHING`
	appended = `
		RETURNING persistence_id, db_timestamp`

	// Commits of any number of events, which may have times of their own.
	appendAll = commitsAfter + `(SELECT seq_nr, db_timestamp, deleted FROM "event_journal"
					WHERE persistence_id = m.id AND seq_nr >= m.after ORDER BY seq_nr DESC LIMIT 1) last ON TRUE
			WHERE last.deleted IS NOT TRUE` + appendMatching

	// appendAll after deleted events.
	appendDeleted = commitsAfter + `(SELECT seq_nr, db_timestamp, deleted FROM "event_journal" newest
					WHERE persistence_id = m.id AND seq_nr = m.after AND deleted
						AND NOT EXISTS (SELECT FROM "event_journal" WHERE persistence_id = m.id AND seq_nr > m.after)
					FOR KEY SHARE OF newest) last ON TRUE
			WHERE last.deleted` + appendMatching

	// The beginning of both: the commits m, beside the last row of each.
	commitsAfter = `
		WITH m AS MATERIALIZED (
			SELECT m.*, greatest(transaction_timestamp() + (m.nr - 1) * interval '1 microsecond',
				nullif(last.db_timestamp, 'infinity') + interval '1 microsecond') AS at
			FROM unnest($1::int[], $2::text[], $3::text[], $4::bigint[], $5::text[], $14::timestamptz[]) WITH ORDINALITY
				AS m (slice, entity_type, id, after, writer, latest, nr)
				LEFT JOIN LATERAL `

	// The rest of both: the events of the commits m, with their times. The first event of a commit decides whether the commit wins. The other
	// events of the winners follow in the same statement.
	appendMatching = `
				AND coalesce(last.seq_nr, 0) = m.after AND coalesce(m.latest <= transaction_timestamp() + interval '1 minute', TRUE)),
		e AS MATERIALIZED (
			SELECT * FROM unnest($6::int[], $7::text[], $8::bytea[], $9::text[], $10::text[], $11::int[], $12::text[], $13::bytea[],
				$15::bigint[], $16::bigint[], $17::timestamptz[])
				AS e (ser_id, manifest, payload, adapter, tags, meta_id, meta_manifest, meta, nr, seq_nr, at)),
		won AS (` + insertEvent + matching + `e.seq_nr = m.after + 1
			ORDER BY nr
			ON CONFLICT (persistence_id, seq_nr) DO NOTHING
			RETURNING persistence_id),
		rest AS (` + insertEvent + matching + `e.seq_nr > m.after + 1 AND m.id IN (SELECT persistence_id FROM won)
			ORDER BY nr, e.seq_nr)
		SELECT m.id, m.at FROM won JOIN m ON m.id = won.persistence_id`

	matching = `
			SELECT m.slice, m.entity_type, m.id, e.seq_nr, m.writer, e.ser_id, e.manifest, e.payload::bytea,
				e.adapter, e.tags::text[], e.meta_id, e.meta_manifest, e.meta, coalesce(e.at, m.at)
			FROM m JOIN e USING (nr) WHERE `

	// Of max, the server would read all rows of the entity if it made its plan when there were few.
	lastNumber = `SELECT coalesce((SELECT seq_nr FROM "event_journal" WHERE persistence_id = $1 ORDER BY seq_nr DESC LIMIT 1), 0)`

	// Is the commit of $4 events after $2 one of the writer $3, and where does it end? Events of one commit share time and writer,
	// and the next commit is later: so the row before tells a commit's first event from one in its middle. Where events have times of
	// their own ($5) the writer alone counts. DeleteTo strips rows, gives the last of them its own time, which is later, and removes
	// old ones, from the first on: the commit's time is that of its earliest row, and the last row is proof enough where the first
	// has been removed.
	lookUpCommit = `
		SELECT coalesce(last.seq_nr, 0), coalesce(last.deleted, FALSE), own.at, coalesce(own.until, 0), transaction_timestamp()
		FROM (SELECT) one
			LEFT JOIN LATERAL (SELECT seq_nr, deleted FROM "event_journal" WHERE persistence_id = $1 AND seq_nr >= 0 ORDER BY seq_nr DESC LIMIT 1) last ON TRUE
			LEFT JOIN LATERAL (
				SELECT CASE WHEN $5 THEN c.last_at ELSE c.at END AS at, (SELECT max(r.seq_nr) FROM "event_journal" r
					WHERE r.persistence_id = $1 AND r.seq_nr > $2::bigint AND r.seq_nr <= $2::bigint + $4::bigint
						AND r.writer = $3 AND ($5 OR r.db_timestamp = c.at OR r.deleted)) AS until
				FROM (SELECT min(r.db_timestamp) FILTER (WHERE r.writer = $3) AS at,
						(array_agg(r.db_timestamp ORDER BY r.seq_nr DESC) FILTER (WHERE r.writer = $3))[1] AS last_at,
						bool_or(r.seq_nr = $2::bigint + 1 AND r.writer = $3) AS begins,
						bool_or(r.seq_nr = $2::bigint + 1 AND r.writer <> $3 AND NOT (r.deleted AND r.writer = '')) AS other,
						bool_or(r.seq_nr = $2::bigint + $4::bigint AND r.writer = $3) AS ends
					FROM "event_journal" r WHERE r.persistence_id = $1 AND r.seq_nr > $2::bigint AND r.seq_nr <= $2::bigint + $4::bigint) c
				WHERE (c.begins OR c.ends AND NOT c.other) AND ($5 OR NOT EXISTS (SELECT FROM "event_journal" b WHERE b.persistence_id = $1
					AND b.seq_nr = $2::bigint AND b.writer = $3 AND (b.db_timestamp = c.at OR b.deleted)))) own ON TRUE`
	// The row of just the slices, unless other rows overlap it or its epoch is older.
	lockRange = `
		SELECT ` + rangeColumns + ` FROM "annals_projection_epoch" WHERE projection_name = $1 AND slice_from = $2 AND slice_to = $3 AND epoch >= $6
			AND NOT EXISTS (SELECT FROM "annals_projection_epoch" other WHERE other.projection_name = $1 AND other.slice_from < $5 AND other.slice_to > $4
				AND (other.slice_from, other.slice_to) <> ($2, $3))
		FOR UPDATE`

	moveRange = `
		UPDATE "annals_projection_epoch" SET epoch = $4, through_time = $5, through_seq_nr = $6, through_id = $7, newest_time = greatest(newest_time, $8)
		WHERE projection_name = $1 AND slice_from = $2 AND slice_to = $3`

	// The server expects ten rows of unnest, and one with these conditions, which all rows meet. For one it uses the index, also where the table is
	// small when it makes the plan, and has many dead rows later. And it does not make a plan anew each time, as it does while it expects fewer rows
	// of the values than of any values.
	always = ` WHERE slice >= 0 AND id >= ''`

	// The newest row of each of many entities.
	ownOffsets = `
		SELECT o.timestamp_offset, o.seq_nr, o.persistence_id
		FROM (SELECT * FROM unnest($2::int[], $3::text[]) AS asked (slice, id)` + always + `) asked,
			LATERAL (SELECT o.timestamp_offset, o.seq_nr, o.persistence_id FROM "akka_projection_timestamp_offset_store" o
				WHERE o.slice = asked.slice AND o.projection_name = $1 AND o.persistence_id = asked.id ORDER BY o.timestamp_offset DESC, o.seq_nr DESC LIMIT 1) o`

	replaceOffsets = `
		WITH o AS MATERIALIZED (SELECT * FROM unnest($3::int[], $4::text[], $5::bigint[], $6::timestamptz[]) AS o (slice, id, seq_nr, at)` + always + `),
		replaced AS (DELETE FROM "akka_projection_timestamp_offset_store" old USING o WHERE old.slice = o.slice AND old.projection_name = $1 AND old.persistence_id = o.id)
		INSERT INTO "akka_projection_timestamp_offset_store" (projection_name, projection_key, slice, persistence_id, seq_nr, timestamp_offset, timestamp_consumed)
		SELECT $1, $2, o.slice, o.id, o.seq_nr, o.at, transaction_timestamp() FROM o`
)
