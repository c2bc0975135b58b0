package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/contexts"
)

// healthPatience bounds how long CheckHealth waits for a connection to read, for other writes, and for the write lock.
const healthPatience = 5 * time.Second

// CheckHealth is ability.HealthChecker.
func (v view) CheckHealth(ctx context.Context) error {
	if contexts.InTx(ctx, v.b.self) {
		return invalid("the transaction has the write lock")
	}
	patient, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	err := v.readTx(patient, func(ctx context.Context, q *statements) error {
		if _, err := checkVersion(ctx, q); err != nil {
			return err
		}
		return v.b.files.missing(annals.ErrCorrupt)
	})
	if err == nil && !v.b.looksOnly {
		if err = probeFolder(v.b.path); err == nil {
			err = v.b.lockOnce(patient)
		}
	}
	switch {
	case err == nil:
		return nil
	case patient.Err() != nil && ctx.Err() == nil:
		return &annals.Error{Kind: annals.ErrUnavailable, Err: fmt.Errorf("the write lock was not free for %v", healthPatience)}
	case cannotWrite(err):
		return &annals.Error{Kind: annals.ErrInvalid, Err: err}
	}
	return err
}

// lockOnce waits until no write uses the writing connection, and calls probeFile.
func (b *backend) lockOnce(ctx context.Context) error {
	once(ctx)
	release, err := b.writer.exclusive(ctx)
	if err != nil {
		return err
	}
	defer release()
	return b.probeFile(ctx)
}

// probeFile takes the write lock and writes in a transaction that it rolls back, so that nothing reaches the file. BEGIN IMMEDIATE alone
// does not show that the file is read-only: SQLite then begins a transaction for reading.
func (b *backend) probeFile(ctx context.Context) error {
	tx, err := b.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, `UPDATE annals SET clock = clock`)
	return err
}

// probeFolder creates a file beside path, writes to it and removes it. It fails when the disk is full or the folder is read-only, which
// SQLite would report only for a COMMIT.
func probeFolder(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-health-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
