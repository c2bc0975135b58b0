package process

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/annals-go/annals"
)

// Init creates the table of the process. It is for sqlitestore.Options. at is in microseconds since 1970.
func Init(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS todo (
		n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, at INTEGER NOT NULL, recipient TEXT NOT NULL,
		serializer INTEGER NOT NULL, manifest TEXT NOT NULL, data BLOB NOT NULL) STRICT`)
	if err == nil {
		_, err = tx.ExecContext(ctx, `CREATE INDEX IF NOT EXISTS todo_at ON todo (at, n)`)
	}
	return err
}

func add(ctx context.Context, tx *sql.Tx, t todo) error {
	p, err := commands.Encode(t.do)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO todo (id, at, recipient, serializer, manifest, data) VALUES (?, ?, ?, ?, ?, ?)`,
		t.id, t.at.UnixMicro(), t.to, p.SerializerID, p.Manifest, p.Data)
	return err
}

func remove(ctx context.Context, tx *sql.Tx, id string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM todo WHERE id = ?`, id)
	return err
}

// first returns the command that is to be sent next; ok is false when there is none.
func first(ctx context.Context, db *sql.DB) (t todo, ok bool, err error) {
	var at int64
	var p annals.Payload
	err = db.QueryRowContext(ctx, `SELECT id, at, recipient, serializer, manifest, data FROM todo ORDER BY at, n LIMIT 1`).
		Scan(&t.id, &at, &t.to, &p.SerializerID, &p.Manifest, &p.Data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return todo{}, false, nil
	case err != nil:
		return todo{}, false, err
	}
	t.at = time.UnixMicro(at)
	t.do, err = commands.Decode(p)
	return t, err == nil, err
}
