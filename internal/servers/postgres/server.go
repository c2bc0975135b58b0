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
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/annals-go/annals/internal/servers/process"
	"github.com/jackc/pgx/v5"
)

// Env is the environment variable with the URL of a server to use instead of starting one:
// postgres://user:password@host:port/database. The role must be allowed to create databases.
const Env = "ANNALS_POSTGRES"

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
	return start(ctx, settings, func(s *Server) error {
		return s.run(ctx, "initdb", "-D", s.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	})
}

// Standby starts a second server as a streaming replica of s. SELECT pg_promote() makes it a primary.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	return start(ctx, s.settings, func(standby *Server) error {
		return standby.run(ctx, "pg_basebackup", "-D", standby.data, "-d", s.URL, "-R", "-X", "stream", "-c", "fast", "--no-sync")
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
	if c := attr.Credential; c != nil {
		err = os.Chown(s.dir, int(c.Uid), int(c.Gid))
	}
	if err == nil {
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

// binaries returns the directory of initdb and postgres: from the PATH, or the newest version that Debian installed.
func binaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return version(b) - version(a) })
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
	return "", errors.New("PostgreSQL is not installed: set " + Env + " to the URL of a server, or install one (Debian: apt-get install -y postgresql)")
}

// version returns 15 for /usr/lib/postgresql/15/bin/initdb.
func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// account returns the attributes of the server's processes: for root they name the user postgres.
func account() (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return attr, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w (Debian: apt-get install -y postgresql creates the user)", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, errors.Join(uidErr, gidErr)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
