-- What a release with the schema version 3 made and wrote, as pg_dump shows it.
CREATE TABLE akka_projection_timestamp_offset_store (
    projection_name character varying(255) NOT NULL,
    projection_key character varying(255) NOT NULL,
    slice integer NOT NULL,
    persistence_id character varying(255) NOT NULL,
    seq_nr bigint NOT NULL,
    timestamp_offset timestamp with time zone NOT NULL,
    timestamp_consumed timestamp with time zone NOT NULL
);
CREATE TABLE annals_projection_epoch (
    projection_name character varying(255) NOT NULL,
    slice_from smallint NOT NULL,
    slice_to smallint NOT NULL,
    epoch bigint NOT NULL,
    through_time timestamp with time zone,
    through_seq_nr bigint,
    through_id character varying(255),
    newest_time timestamp with time zone
);
COMMENT ON TABLE annals_projection_epoch IS 'annals schema version 3';
CREATE TABLE durable_state (
    slice integer NOT NULL,
    entity_type character varying(255) NOT NULL,
    persistence_id character varying(255) NOT NULL,
    revision bigint NOT NULL,
    db_timestamp timestamp with time zone NOT NULL,
    state_ser_id integer NOT NULL,
    state_ser_manifest character varying(255),
    state_payload bytea NOT NULL,
    tags text[],
    write_ids text,
    meta_ser_id integer,
    meta_ser_manifest character varying(255),
    meta_payload bytea
);
CREATE TABLE event_journal (
    slice integer NOT NULL,
    entity_type character varying(255) NOT NULL,
    persistence_id character varying(255) NOT NULL,
    seq_nr bigint NOT NULL,
    db_timestamp timestamp with time zone NOT NULL,
    event_ser_id integer NOT NULL,
    event_ser_manifest character varying(255) NOT NULL,
    event_payload bytea NOT NULL,
    deleted boolean DEFAULT false NOT NULL,
    writer character varying(255) NOT NULL,
    adapter_manifest character varying(255),
    tags text[],
    meta_ser_id integer,
    meta_ser_manifest character varying(255),
    meta_payload bytea
);
CREATE TABLE snapshot (
    slice integer NOT NULL,
    entity_type character varying(255) NOT NULL,
    persistence_id character varying(255) NOT NULL,
    seq_nr bigint NOT NULL,
    db_timestamp timestamp with time zone,
    write_timestamp bigint NOT NULL,
    ser_id integer NOT NULL,
    ser_manifest character varying(255) NOT NULL,
    snapshot bytea NOT NULL,
    tags text[],
    meta_ser_id integer,
    meta_ser_manifest character varying(255),
    meta_payload bytea
);
INSERT INTO akka_projection_timestamp_offset_store VALUES ('p', '0-1023', 649, 'T|1', 3, '2026-01-02 03:04:05.000006+00', '2026-11-23 22:00:30.313407+00');
INSERT INTO akka_projection_timestamp_offset_store VALUES ('p', '0-1023', 650, 'T|2', 2, '2026-01-02 03:04:06.000006+00', '2026-11-23 22:00:30.313407+00');
INSERT INTO annals_projection_epoch VALUES ('p', 0, 1024, 7, '0001-01-01 00:00:00+00', 0, '', '2026-01-02 03:04:06.000006+00');
INSERT INTO durable_state VALUES (154, 'State', 'State|1', 2, '2026-11-23 22:00:30.312966+00', 4, 'M', '\x7365636f6e64', '{blue}', '1/1795471230312026/02000000-0000-0000-0000-000000000000 2/1795471230312966/02010000-0000-0000-0000-000000000000', NULL, NULL, NULL);
INSERT INTO event_journal VALUES (649, 'T', 'T|1', 3, '2026-11-23 22:00:30.300455+00', 4, 'M', '\x7468726565', false, '01010000-0000-0000-0000-000000000000', '', '{red,"a \"b\", {c}"}', 4, 'M', '\x6d65746164617461206f66207468726565');
INSERT INTO event_journal VALUES (649, 'T', 'T|1', 4, '2026-11-23 22:00:30.300455+00', 4, 'M', '\x666f7572', false, '01010000-0000-0000-0000-000000000000', '', '{red,"a \"b\", {c}"}', 4, 'M', '\x6d65746164617461206f6620666f7572');
INSERT INTO event_journal VALUES (649, 'T', 'T|1', 1, '2026-11-23 22:00:30.298304+00', 0, '', '\x', true, '01000000-0000-0000-0000-000000000000', '', NULL, NULL, NULL, NULL);
INSERT INTO event_journal VALUES (649, 'T', 'T|1', 2, '2026-11-23 22:00:30.306172+00', 0, '', '\x', true, '01010000-0000-0000-0000-000000000000', '', NULL, NULL, NULL, NULL);
INSERT INTO event_journal VALUES (649, 'T', 'T|1', 5, '2026-11-23 22:00:30.308143+00', 4, 'M', '\x66697665', false, '01040000-0000-0000-0000-000000000000', '', '{red,"a \"b\", {c}"}', 4, 'M', '\x6d65746164617461206f662066697665');
INSERT INTO event_journal VALUES (650, 'T', 'T|2', 1, '2026-11-23 22:00:30.310652+00', 4, 'M', '\x78', false, '01000000-0000-0000-0000-000000000000', '', '{red,"a \"b\", {c}"}', 4, 'M', '\x6d65746164617461206f662078');
INSERT INTO event_journal VALUES (650, 'T', 'T|2', 2, '2026-11-23 22:00:30.310652+00', 4, 'M', '\x79', false, '01000000-0000-0000-0000-000000000000', '', '{red,"a \"b\", {c}"}', 4, 'M', '\x6d65746164617461206f662079');
INSERT INTO snapshot VALUES (649, 'T', 'T|1', 3, '2026-11-23 22:00:30.300455+00', 1795471230309, 4, 'M', '\x736e617073686f74', '{}', NULL, NULL, NULL);
ALTER TABLE ONLY akka_projection_timestamp_offset_store
    ADD CONSTRAINT akka_projection_timestamp_offset_store_pkey PRIMARY KEY (slice, projection_name, timestamp_offset, persistence_id, seq_nr);
ALTER TABLE ONLY annals_projection_epoch
    ADD CONSTRAINT annals_projection_epoch_pkey PRIMARY KEY (projection_name, slice_from, slice_to);
ALTER TABLE ONLY durable_state
    ADD CONSTRAINT durable_state_pkey PRIMARY KEY (persistence_id);
ALTER TABLE ONLY event_journal
    ADD CONSTRAINT event_journal_pkey PRIMARY KEY (persistence_id, seq_nr);
ALTER TABLE ONLY snapshot
    ADD CONSTRAINT snapshot_pkey PRIMARY KEY (persistence_id);
CREATE INDEX durable_state_slice_idx ON durable_state USING btree (slice, entity_type, db_timestamp);
CREATE INDEX event_journal_slice_idx ON event_journal USING btree (slice, entity_type, db_timestamp, seq_nr);
