package sqlitestore

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/annals-go/annals"
)

// What CheckHealth finds in the folder is unavailable when it can pass by itself, and invalid when an operator has to act.
func TestFaultsOfTheFolder(t *testing.T) {
	t.Parallel()
	for cause, mustAct := range map[error]bool{
		syscall.ENOSPC: false, syscall.EDQUOT: false, syscall.EIO: false, syscall.EMFILE: false,
		syscall.EROFS: true, syscall.EACCES: true, syscall.ENOENT: true,
	} {
		err := &fs.PathError{Op: "write", Path: "annals.db-health-1", Err: cause}
		if cannotWrite(err) != mustAct || kindOf(err) != annals.ErrUnavailable {
			t.Errorf("%v: cannotWrite is %v, kind %v", cause, cannotWrite(err), kindOf(err))
		}
	}
}
