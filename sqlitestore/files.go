package sqlitestore

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/annals-go/annals"
)

// findFile calls open, which opens the database file at path. The file must exist.
func findFile(path string, open func(modeof ...string) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return invalid("the path names a folder")
	}
	return open()
}

// createFile calls open, which opens the database file at path and creates it when it is missing. Only the owner may read and write a
// new file, whatever the umask of the process is: SQLite gives it the mode of the file that the parameter "modeof" names, and the
// files -wal and -shm get the mode of the database.
func createFile(path string, open func(modeof ...string) error) error {
	err := findFile(path, open)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	model, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+"-mode-*")
	if err != nil {
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			e.Path = filepath.Dir(path) // the caller knows nothing of the file that cannot be made there
		}
		return err
	}
	defer func() { _ = os.Remove(model.Name()) }()
	if err := model.Close(); err != nil {
		return err
	}
	return open("modeof=" + url.PathEscape(model.Name()))
}

// unusable reports whether err says that the path cannot be opened before an operator changes it or its rights.
func unusable(err error) bool {
	kinds := []error{fs.ErrNotExist, fs.ErrPermission, syscall.ENOTDIR, syscall.EROFS, syscall.ELOOP, syscall.ENAMETOOLONG}
	return slices.ContainsFunc(kinds, func(kind error) bool { return errors.Is(err, kind) })
}

// files are the files of the database as the store opened them. SQLite continues to use them after they have been deleted or
// replaced: what it writes then is lost, and other processes do not see it.
type files []file

type file struct {
	path string
	info fs.FileInfo
}

// openFiles returns the files of the database at path, which must be open. As long as it is open, SQLite does not replace them.
func openFiles(path string) (files, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	var opened files
	for _, path := range []string{path, resolved + "-wal", resolved + "-shm"} {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		opened = append(opened, file{path, info})
	}
	return opened, nil
}

// missing is an error of a kind when one of the files is not the one that was opened.
func (f files) missing(kind error) error {
	for i := range f {
		if info, err := os.Stat(f[i].path); err != nil || !os.SameFile(info, f[i].info) {
			return &annals.Error{Kind: kind,
				Err: fmt.Errorf("the file %s was deleted or replaced while the store had it open: close the store", f[i].path)}
		}
	}
	return nil
}
