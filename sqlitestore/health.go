package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/annals-go/annals"
)

// healthPatience is how long CheckHealth waits for the write lock, and for whatever else is in front of it.
const healthPatience = 5 * time.Second

// CheckHealth implements annals.HealthChecker. It reads the file, looks whether the files are the ones that were opened, writes a
// few bytes into a new file beside the database, which it removes again, and takes and releases the write lock. It is ErrUnavailable
// when the disk is full or another process has held the lock for five seconds, ErrCorrupt when a file was deleted or replaced, and
// ErrInvalid when the file or its folder cannot be written.
func (s *Store) CheckHealth(ctx context.Context) error {
	call := annals.Call{Op: "check health"}
	ctx, o := s.observe(ctx, call)
	o.requests(2)
	return o.end(ctx, s.checkHealth(ctx, call))
}

func (s *Store) checkHealth(ctx context.Context, call annals.Call) error {
	if annals.ContextInTx(ctx, s) {
		return errInside(call)
	}
	patient, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	err := s.read(patient, call, func(ctx context.Context, q *statements) error {
		if _, err := checkVersion(ctx, q); err != nil {
			return err
		}
		return errors.Join(s.files.check(), probeFolder(s.path))
	})
	if err == nil {
		err = s.lockOnce(patient, call)
	}
	if patient.Err() != nil && ctx.Err() == nil {
		return &annals.Error{Op: call.Op, Kind: annals.ErrUnavailable, Err: fmt.Errorf("the write lock was not free for %v", healthPatience)}
	}
	if cannotWrite(err) {
		if e := (*annals.Error)(nil); errors.As(err, &e) {
			err = e.Err
		}
		return &annals.Error{Op: call.Op, Kind: annals.ErrInvalid, Err: err}
	}
	return translate(call.Op, "", err)
}

// lockOnce waits for the caller's turn at the writing connection, and probes it.
func (s *Store) lockOnce(ctx context.Context, call annals.Call) error {
	release, err := s.writer.exclusive(ctx, call)
	if err != nil {
		return err
	}
	defer release()
	return s.probeFile(ctx)
}

// probeFile writes to the file in a transaction that it rolls back. SQLite would notice only in a write that a file may not be
// written: BEGIN IMMEDIATE then begins a transaction for reading.
func (s *Store) probeFile(ctx context.Context) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(ctx, `UPDATE annals SET clock = clock`)
	return err
}

// probeFolder creates a file beside path, writes to it and removes it. SQLite would notice only in a COMMIT that there is no space.
func probeFolder(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-health-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}
