package readmodel

// The tables are the same in SQLite and PostgreSQL. Every row belongs to a generation. A rebuild writes a new generation beside the
// current one; then one statement makes it the current one, which all reads ask for.
//
// posted counts the messages of a thread, deleted ones included, and messages those that are left. read_to is the position up to which a
// member has read, and unread counts the messages of other members after that position. at is in microseconds since 1970.
//
// chat_handled and chat_subscription are for updaters: number is that of the last event of a thread that was handled, and name is a random one,
// which no other read model has.
var tables = []string{
	`CREATE TABLE IF NOT EXISTS chat_generation (
		id BIGINT PRIMARY KEY, -- there is one row, 1
		current BIGINT NOT NULL, newest BIGINT NOT NULL)`,
	`INSERT INTO chat_generation (id, current, newest) VALUES (1, 1, 1) ON CONFLICT DO NOTHING`,
	`CREATE TABLE IF NOT EXISTS chat_handled (
		generation BIGINT NOT NULL, thread TEXT NOT NULL, number BIGINT NOT NULL,
		PRIMARY KEY (generation, thread))`,
	`CREATE TABLE IF NOT EXISTS chat_subscription (
		id BIGINT PRIMARY KEY, -- there is one row, 1
		name TEXT NOT NULL)`,
	`CREATE TABLE IF NOT EXISTS chat_thread (
		generation BIGINT NOT NULL, thread TEXT NOT NULL, name TEXT NOT NULL,
		members BIGINT NOT NULL, posted BIGINT NOT NULL, messages BIGINT NOT NULL,
		PRIMARY KEY (generation, thread))`,
	`CREATE TABLE IF NOT EXISTS chat_member (
		generation BIGINT NOT NULL, thread TEXT NOT NULL, account TEXT NOT NULL,
		role TEXT NOT NULL, read_to BIGINT NOT NULL, unread BIGINT NOT NULL,
		PRIMARY KEY (generation, thread, account))`,
	`CREATE UNIQUE INDEX IF NOT EXISTS chat_member_account ON chat_member (generation, account, thread)`,
	`CREATE TABLE IF NOT EXISTS chat_message (
		generation BIGINT NOT NULL, thread TEXT NOT NULL, position BIGINT NOT NULL,
		id TEXT NOT NULL, sender TEXT NOT NULL, text TEXT NOT NULL, edited BOOLEAN NOT NULL, at BIGINT NOT NULL,
		PRIMARY KEY (generation, thread, position))`,
	`CREATE UNIQUE INDEX IF NOT EXISTS chat_message_id ON chat_message (generation, thread, id)`,
}

// currentGeneration is the generation that is read.
const currentGeneration = `(SELECT current FROM chat_generation WHERE id = 1)`
