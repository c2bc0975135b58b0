package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/findings"
)

// The bounds from which Examine finds a problem.
const (
	leastFree  = 1 << 30 // bytes on the disk
	largestLog = 1 << 28 // bytes in the write-ahead log, which has 16 MiB when readers do not hold it
)

// examine calls what Open calls, without an end at the first refusal, and looks at what Open does not look at.
func (s *setup) examine(ctx context.Context) (found findings.List, err error) {
	err = s.open(ctx, func(b *backend, q *statements) error { return s.examineFile(ctx, &found, b, q) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		found.Add(ability.Refused, "file", "there is no such file", "Open refuses it where it may not create it", "Migrate creates it")
		found[len(found)-1].Schema = true
		err = nil
	case err != nil:
		err = found.Refused(openFault(err), "file")
	}
	if err == nil {
		s.examineDisk(&found)
	}
	return found, err
}

// examineFile looks at the file with the connection of b. It returns an error that ends the look at the file.
func (s *setup) examineFile(ctx context.Context, found *findings.List, b *backend, q *statements) error {
	var failed error
	refuse := func(code string, err error) bool {
		if err != nil && failed == nil {
			failed = found.Refused(openFault(err), code)
		}
		return err == nil
	}
	if refuse("file", lookAtVersion(ctx, q)) {
		mode, err := journalMode(ctx, q, getMode)
		if err == nil && mode != "wal" {
			err = errNoWAL
		}
		refuse("journal-mode", err)
		found.Add(ability.Note, "journal-mode", "journal_mode is "+mode+"; the store writes with synchronous=FULL", "", "")
		whole := false
		refuse("tables", looking(ctx, q, func() error {
			version, err := checkVersion(ctx, q)
			if err != nil || !refuse("version", older(version)) {
				return err
			}
			found.Add(ability.Note, "version", fmt.Sprintf("the tables have schema version %d", version), "", "")
			whole = refuse("tables", checkTables(ctx, q))
			whole = refuse("state-types", s.types.check(ctx, q)) && whole
			for _, t := range slices.Concat(ownTables(), s.types.ownTables()) {
				refuse("index", t.checkIndex(ctx, q))
			}
			if whole {
				return s.examineClock(ctx, found, q)
			}
			return nil
		}))
		if whole && !s.o.ReadOnly {
			s.examineLock(ctx, found, b, refuse)
		}
	}
	return failed
}

// examineLock takes the write lock, as a write would, and lets it go.
func (s *setup) examineLock(ctx context.Context, found *findings.List, b *backend, refuse func(string, error) bool) {
	patient, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	err := b.probeFile(patient)
	if patient.Err() != nil && ctx.Err() == nil {
		found.Add(ability.Problem, "lock", fmt.Sprintf("the write lock was not free for %v", healthPatience), "writes wait", "find the program that has a transaction open, such as with lsof")
		return
	}
	refuse("write", err)
}

// examineClock compares the clock with the newest time in the file.
func (s *setup) examineClock(ctx context.Context, found *findings.List, q *statements) error {
	var newest int64
	_, err := q.row(ctx, newestTime(s.types.tables("")), nil, func(v *values) { newest = v.micros("db_timestamp") })
	if ahead := time.Until(time.UnixMicro(newest)); err == nil && ahead > time.Second {
		found.Add(ability.Problem, "clock", fmt.Sprintf("the newest time in the file is %v ahead of the clock of this machine", ahead.Round(time.Millisecond)),
			"new events get times after it, until the clock has passed it", "set the clock, as with NTP")
	}
	return err
}

// examineDisk looks at the folder, the files and the disk.
func (s *setup) examineDisk(found *findings.List) {
	folder := filepath.Dir(s.path)
	var err error
	if !s.o.ReadOnly {
		err = probeFolder(s.path)
	}
	if err != nil {
		found.Add(ability.Problem, "folder", fmt.Sprintf("a file cannot be written in the folder: %v", err), "SQLite needs files beside that of the store: writes fail", "give the user of the program the right to write in it, or free space on the disk")
	}
	if info, err := os.Stat(s.path); err == nil && info.Mode().Perm()&0o007 != 0 {
		found.Add(ability.Note, "mode", fmt.Sprintf("the file has the mode %v", info.Mode().Perm()), "all users of the machine can read or write it", "chmod o= the file")
	}
	if info, err := os.Stat(s.path + "-wal"); err == nil && info.Size() > largestLog {
		found.Add(ability.Problem, "log", fmt.Sprintf("the write-ahead log has %d MiB", info.Size()>>20), "a reader has held it for long: reads get slower, and the disk fills", "end the transaction of the program that reads, such as a sqlite3 that was left open")
	}
	free, network, ok := disk(folder)
	switch {
	case !ok:
		found.Add(ability.Note, "not-checked", "how much space is free was not checked: not on this system", "", "")
	case free < leastFree:
		found.Add(ability.Problem, "disk", fmt.Sprintf("free space: %d MiB", free>>20), "without space writes fail", "free space, or move the file while no program has it open")
	default:
		found.Add(ability.Note, "disk", fmt.Sprintf("free space: %d GiB", free>>30), "", "")
	}
	if network {
		found.Add(ability.Problem, "network-disk", "the file is on a network file system", "locks and syncs may not hold there: the file can be damaged", "move it to a disk of the machine")
	}
}
