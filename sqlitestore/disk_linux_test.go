package sqlitestore_test

import (
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// disk records what SQLite writes to the files in one folder, and lets operations fail as a test demands. Other folders are not
// affected.
type disk struct {
	dir string

	mu    sync.Mutex
	ops   []diskOp
	fault func(op diskOp) (code int32) // 0: it works
}

// diskOp is one change of one file.
type diskOp struct {
	kind string // "write", "sync", "truncate", "delete", or "sync folder", which makes deletes last
	file string // the name in its folder
	at   int64  // of a write, or the size of a truncate
	data []byte
	code int32 // what it failed with, 0 where it worked
}

// newDisk records the operations in the folder until the test ends.
func newDisk(tb testing.TB, dir string) *disk {
	d := &disk{dir: dir}
	watched.Store(dir, d)
	tb.Cleanup(func() { watched.Delete(dir) })
	return d
}

// failing sets which operations fail from now on; nil is none.
func (d *disk) failing(fault func(op diskOp) int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = fault
}

// done returns what was done so far.
func (d *disk) done() []diskOp {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.ops)
}

// do records op and returns its result.
func (d *disk) do(op diskOp) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fault != nil {
		op.code = d.fault(op)
	}
	if op.code != 0 && op.kind == "write" {
		op.data = op.data[:len(op.data)/2] // it fails half way
	}
	d.ops = append(d.ops, op)
	return op.code
}

// image is the content of files, by name.
type image map[string][]byte

// written is the content of the files when the process has been killed after ops.
func written(ops []diskOp) image {
	now := image{}
	for _, op := range ops {
		now.apply(op)
	}
	return now
}

// survived is the content of the files when the power was lost after ops: all that was synced, and of the other writes those that
// keep returns, given the number of the write since the last sync of its file. A failed sync loses the writes that it should have
// synced.
func survived(ops []diskOp, keep func(i int, op diskOp) (diskOp, bool)) image {
	safe, pending := image{}, map[string][]diskOp{}
	for _, op := range ops {
		switch {
		case op.kind == "sync" && op.code == 0:
			for _, p := range pending[op.file] {
				safe.apply(p)
			}
			delete(pending, op.file)
		case op.kind == "sync":
			delete(pending, op.file)
		case op.kind == "sync folder":
			for file, ops := range pending {
				for i, p := range slices.Backward(ops) {
					if p.kind == "delete" {
						delete(safe, file)
						pending[file] = ops[i+1:]
						break
					}
				}
			}
		default:
			pending[op.file] = append(pending[op.file], op)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(pending)) {
		for i, op := range pending[file] {
			if op, ok := keep(i, op); ok {
				safe.apply(op)
			}
		}
	}
	return safe
}

func (im image) apply(op diskOp) {
	data := im[op.file]
	switch op.kind {
	case "write":
		if end := int(op.at) + len(op.data); end > len(data) {
			data = append(data, make([]byte, end-len(data))...)
		}
		copy(data[op.at:], op.data)
		im[op.file] = data
	case "truncate":
		if op.code == 0 {
			im[op.file] = data[:min(len(data), int(op.at))]
		}
	case "delete":
		if op.code == 0 {
			delete(im, op.file)
		}
	}
}

// watched are the disks by folder; tracked are the files on them that SQLite has open, by pointer.
var watched, tracked sync.Map

type trackedFile struct {
	disk       *disk
	name       string
	methods    *lib.Tsqlite3_io_methods // SQLite's own
	syncFolder bool                     // with its first sync, as SQLite does for a log that it may have made
}

// The methods of SQLite's own file system, and those of its files with some replaced, by the pointer to the original methods.
var (
	openOwn, deleteOwn uintptr
	methodsMu          sync.Mutex
	methods            = map[uintptr]uintptr{}
)

// The default file system of SQLite is changed before the first test opens a file.
func init() {
	tls := libc.NewTLS()
	defer tls.Close()
	vfs := at[lib.Tsqlite3_vfs](lib.Xsqlite3_vfs_find(tls, 0))
	openOwn, deleteOwn = vfs.FxOpen, vfs.FxDelete
	vfs.FxOpen, vfs.FxDelete = address(openFile), address(deleteFile)
}

// at is the value that p points at. It is in memory of SQLite, which Go does not move.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// address makes a Go function callable by SQLite; function[F] is the reverse.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&struct{ uintptr }{p})) }

type (
	openFunc     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	deleteFunc   = func(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32
	closeFunc    = func(tls *libc.TLS, file uintptr) int32
	writeFunc    = func(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32
	truncateFunc = func(tls *libc.TLS, file uintptr, size int64) int32
)

func diskOf(name uintptr) (*disk, string) {
	path := libc.GoString(name)
	d, ok := watched.Load(filepath.Dir(path))
	if !ok {
		return nil, ""
	}
	return d.(*disk), filepath.Base(path)
}

func openFile(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32 {
	code := function[openFunc](openOwn)(tls, vfs, name, file, flags, outFlags)
	if code != lib.SQLITE_OK || name == 0 {
		return code
	}
	d, base := diskOf(name)
	if d == nil {
		return code
	}
	f := at[lib.Tsqlite3_file](file)
	made := flags&lib.SQLITE_OPEN_CREATE != 0 && flags&(lib.SQLITE_OPEN_WAL|lib.SQLITE_OPEN_MAIN_JOURNAL) != 0
	tracked.Store(file, &trackedFile{d, base, at[lib.Tsqlite3_io_methods](f.FpMethods), made})
	f.FpMethods = changed(tls, f.FpMethods)
	return code
}

// changed are the methods with some replaced by those of this file. They are in memory of SQLite.
func changed(tls *libc.TLS, own uintptr) uintptr {
	methodsMu.Lock()
	defer methodsMu.Unlock()
	p, ok := methods[own]
	if !ok {
		p = lib.Xsqlite3_malloc(tls, int32(unsafe.Sizeof(lib.Tsqlite3_io_methods{})))
		m := at[lib.Tsqlite3_io_methods](p)
		*m = *at[lib.Tsqlite3_io_methods](own)
		m.FxClose, m.FxWrite = address(closeTracked), address(writeTracked)
		m.FxTruncate, m.FxSync = address(truncateTracked), address(syncTracked)
		methods[own] = p
	}
	return p
}

func deleteFile(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32 {
	if d, base := diskOf(name); d != nil {
		if code := d.do(diskOp{kind: "delete", file: base}); code != 0 {
			return code
		}
	}
	code := function[deleteFunc](deleteOwn)(tls, vfs, name, syncDir)
	if d, _ := diskOf(name); d != nil && syncDir != 0 {
		d.do(diskOp{kind: "sync folder"})
	}
	return code
}

func fileOf(file uintptr) *trackedFile {
	f, _ := tracked.Load(file)
	return f.(*trackedFile)
}

func closeTracked(tls *libc.TLS, file uintptr) int32 {
	f := fileOf(file)
	tracked.Delete(file)
	return function[closeFunc](f.methods.FxClose)(tls, file)
}

func writeTracked(tls *libc.TLS, file, data uintptr, n int32, offset int64) int32 {
	f := fileOf(file)
	op := diskOp{kind: "write", file: f.name, at: offset, data: slices.Clone(unsafe.Slice(at[byte](data), n))}
	code := f.disk.do(op)
	if code != 0 {
		n /= 2
	}
	if failed := function[writeFunc](f.methods.FxWrite)(tls, file, data, n, offset); failed != 0 {
		return failed
	}
	return code
}

func truncateTracked(tls *libc.TLS, file uintptr, size int64) int32 {
	f := fileOf(file)
	if code := f.disk.do(diskOp{kind: "truncate", file: f.name, at: size}); code != 0 {
		return code
	}
	return function[truncateFunc](f.methods.FxTruncate)(tls, file, size)
}

// syncTracked does not sync the disk: the record of the operation says what a loss of power would leave.
func syncTracked(_ *libc.TLS, file uintptr, _ int32) int32 {
	f := fileOf(file)
	code := f.disk.do(diskOp{kind: "sync", file: f.name})
	if code == 0 && f.syncFolder {
		f.syncFolder = false
		f.disk.do(diskOp{kind: "sync folder"})
	}
	return code
}
