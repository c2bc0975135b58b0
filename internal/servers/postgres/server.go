// Package postgres gives PostgreSQL servers to tests and measurements. Start starts one from the installed binaries, in a temporary
// directory. Database, Schema and Tables give each test a database or schema of its own on one server that all tests of a program share: the
// server that the environment variable ANNALS_POSTGRES names, or one started at the first call.
//
// A package whose tests share a server has
//
//	func TestMain(m *testing.M) { postgres.Main(m) }
package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/annals-go/annals/internal/servers/process"
	"github.com/jackc/pgx/v5"
)

// Env is the environment variable with the URL of a server to use instead of starting one:
// postgres://user:password@host:port/database. The role must be allowed to create databases.
const Env = "ANNALS_POSTGRES"

// Programs is the environment variable with the directory of the programs of the servers that are started, initdb and postgres.
// scripts/postgres.sh installs some and prints their directory.
const Programs = "ANNALS_POSTGRES_PROGRAMS"

// Server is a PostgreSQL server that Start has started. It runs with fsync on and listens on 127.0.0.1 only.
type Server struct {
	URL string // connects as a superuser to the database postgres

	bin, dir, data string
	attr           *syscall.SysProcAttr
	port           int
	settings       []string
	process        *process.Process
}

// Start creates a database cluster in a temporary directory and starts a server on it. Each setting has the form name=value. When
// the caller is root, the server runs as the user postgres, because PostgreSQL refuses to run as root.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	return start(ctx, settings, func(s *Server) error { return s.create(ctx) })
}

// create creates the database cluster. The first one that initdb makes is kept in the user's cache, and later ones are copies of it: these take
// a tenth of the time.
func (s *Server) create(ctx context.Context) error {
	args, kept := []string{"-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"}, ""
	cache, err := os.UserCacheDir()
	info, failed := os.Stat(filepath.Join(s.bin, "initdb"))
	if err == nil && failed == nil { // another initdb, or other arguments, have another name
		sum := sha256.Sum256(fmt.Append(nil, s.bin, info.Size(), info.ModTime(), args))
		kept = filepath.Join(cache, "annals", fmt.Sprintf("cluster-%x", sum[:8]))
		if _, err := os.Stat(kept); err == nil {
			if copyTree(kept, s.data) == nil {
				return chown(s.data, s.attr)
			}
			kept = "" // it cannot be read: it may be that of another user
			if err := os.RemoveAll(s.data); err != nil {
				return err
			}
		}
	}
	err = s.run(ctx, "initdb", append(args, "-D", s.data)...)
	if err == nil && kept != "" {
		s.keep(kept)
	}
	return err
}

// keep copies the database cluster to kept. Where that fails, the next server has no copy to start from.
func (s *Server) keep(kept string) {
	_ = os.MkdirAll(filepath.Dir(kept), 0o755)
	dir, err := os.MkdirTemp(filepath.Dir(kept), "cluster-")
	if err != nil {
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	whole := filepath.Join(dir, "whole")
	if copyTree(s.data, whole) == nil && exec.Command("sync").Run() == nil { // a crash of the machine leaves no part of one
		_ = os.Rename(whole, kept) // fails where another program has kept one meanwhile
	}
}

// Standby starts a second server as a streaming replica of s. SELECT pg_promote() makes it a primary.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	return start(ctx, s.settings, func(standby *Server) error { return s.backUp(ctx, standby) })
}

// backUp copies the data of s to a standby. Not every package of PostgreSQL has pg_basebackup.
func (s *Server) backUp(ctx context.Context, standby *Server) error {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	begin, end := "pg_backup_start('standby', TRUE)", "pg_backup_stop(FALSE)"
	var number int
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&number); err != nil {
		return err
	}
	if number < 150000 {
		begin, end = "pg_start_backup('standby', TRUE, FALSE)", "pg_stop_backup(FALSE, FALSE)"
	}
	if _, err := conn.Exec(ctx, "SELECT "+begin); err != nil {
		return err
	}
	if err := copyTree(s.data, standby.data); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, "SELECT labelfile FROM "+end).Scan(&label); err != nil {
		return err
	}
	primary := fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=postgres'\n", s.port)
	for name, text := range map[string]string{"backup_label": label, "standby.signal": "", "postgresql.auto.conf": primary} {
		if err := os.WriteFile(filepath.Join(standby.data, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return chown(standby.data, standby.attr)
}

// copyTree copies the files of a server. One that is running may remove some meanwhile.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		target := to + strings.TrimPrefix(path, from)
		switch {
		case err != nil || d.Name() == "postmaster.pid":
		case d.IsDir():
			err = os.Mkdir(target, 0o700)
		default:
			var data []byte
			if data, err = os.ReadFile(path); err == nil {
				err = os.WriteFile(target, data, 0o600)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// chown gives a directory, with all that is in it, to the account of a server.
func chown(dir string, attr *syscall.SysProcAttr) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if uid, gid, other := owner(attr); other && err == nil {
			err = os.Chown(path, uid, gid)
		}
		return err
	})
}

// start starts a server on the data directory that fill creates.
func start(ctx context.Context, settings []string, fill func(*Server) error) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	attr, err := account()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "annals-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, data: filepath.Join(dir, "data"), attr: attr, settings: settings}
	if err = chown(s.dir, s.attr); err == nil {
		err = fill(s)
	}
	if err == nil {
		s.port, err = freePort()
	}
	if err == nil {
		// The server has no TLS. A client that asks for it connects twice.
		s.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
		err = s.Restart(ctx)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Stop stops the server and removes its data.
func (s *Server) Stop() {
	s.Crash()
	_ = os.RemoveAll(s.dir)
}

// Crash stops the server without a shutdown checkpoint, as pg_ctl stop -m immediate does. Restart then recovers from the log.
func (s *Server) Crash() {
	if s.process != nil {
		s.process.Stop()
	}
}

// Restart starts the server at the same address after a Crash, and returns when the server accepts connections.
func (s *Server) Restart(ctx context.Context, settings ...string) error {
	args := []string{"-D", s.data, "-p", strconv.Itoa(s.port)}
	for _, setting := range slices.Concat([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=on", "max_connections=300"}, s.settings, settings) {
		args = append(args, "-c", setting)
	}
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = s.dir, s.attr, &log, &log
	var err error
	if s.process, err = process.Start(cmd, syscall.SIGQUIT); err != nil {
		return err
	}
	return s.await(ctx, &log)
}

// run runs one of PostgreSQL's programs and waits for it.
func (s *Server) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, s.attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// await returns when the server accepts connections.
func (s *Server) await(ctx context.Context, log *bytes.Buffer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.process.Ended():
			return fmt.Errorf("postgres ended: %s", log)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// binaries returns the directory of initdb and postgres: the one that Programs names, that on the PATH, the newest version that Debian
// installed, or the one that scripts/postgres.sh installed for a user without root.
func binaries() (string, error) {
	if dir := os.Getenv(Programs); dir != "" {
		return dir, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
	if cache, err := os.UserCacheDir(); err == nil {
		installed, _ := filepath.Glob(filepath.Join(cache, "annals/postgresql-*/bin/initdb"))
		found = append(found, installed...)
	}
	if onPath, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(onPath); err == nil {
			found = append([]string{real}, found...)
		}
	}
	for _, initdb := range found {
		dir := filepath.Dir(initdb)
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("PostgreSQL is not installed: run scripts/servers.sh, or set " + Env + " to the URL of a server")
}

// version returns 15 for /usr/lib/postgresql/15/bin/initdb.
func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
