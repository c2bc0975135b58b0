// Package pgserver starts a PostgreSQL of its own from the installed binaries, for tests and measurements.
package pgserver

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

	"github.com/annals-go/annals/internal/child"
	"github.com/jackc/pgx/v5"
)

// Env names a server to use instead, by URL: postgres://user:password@host:port/database, of a role that may create
// databases.
const Env = "ANNALS_POSTGRES"

// Server is a running PostgreSQL of our own: fsync on, listening on 127.0.0.1 only.
type Server struct {
	URL string // of a superuser, in the database postgres

	bin, dir, data string
	attr           *syscall.SysProcAttr
	port           int
	settings       []string
	process        *child.Process
}

// Start makes a cluster in a temporary directory and starts a server on it, with settings as name=value. Run by root it runs as
// the user postgres, because PostgreSQL refuses root.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	return start(ctx, settings, func(s *Server) error {
		return s.run(ctx, "initdb", "-D", s.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	})
}

// Standby starts a server that follows s, on a copy of its data. SELECT pg_promote() makes the standby a primary.
func (s *Server) Standby(ctx context.Context) (*Server, error) {
	return start(ctx, s.settings, func(standby *Server) error {
		return standby.run(ctx, "pg_basebackup", "-D", standby.data, "-d", s.URL, "-R", "-X", "stream", "-c", "fast", "--no-sync")
	})
}

// start starts a server on data that fill makes.
func start(ctx context.Context, settings []string, fill func(*Server) error) (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	attr, err := account()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgserver-")
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
		s.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", s.port)
		err = s.Restart(ctx)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Stop ends the server and removes its data.
func (s *Server) Stop() {
	s.Crash()
	_ = os.RemoveAll(s.dir)
}

// Crash stops the server at once, as pg_ctl stop -m immediate does: what is not flushed is lost.
func (s *Server) Crash() {
	if s.process != nil {
		s.process.Stop()
	}
}

// Restart starts the server again behind a Crash, at the same address, and returns when it answers.
func (s *Server) Restart(ctx context.Context, settings ...string) error {
	args := []string{"-D", s.data, "-p", strconv.Itoa(s.port)}
	for _, setting := range slices.Concat([]string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=on", "max_connections=300"}, s.settings, settings) {
		args = append(args, "-c", setting)
	}
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(s.bin, "postgres"), args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = s.dir, s.attr, &log, &log
	var err error
	if s.process, err = child.Start(cmd, syscall.SIGQUIT); err != nil {
		return err
	}
	return s.await(ctx, &log)
}

// run runs one of PostgreSQL's programs to its end.
func (s *Server) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, s.attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, out)
	}
	return nil
}

// await returns when the server answers.
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

// binaries is the directory of initdb and postgres: of the PATH, or of the newest version that Debian installed.
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
	return "", errors.New("there is no PostgreSQL: set " + Env + " to the URL of a server, or install one (Debian: apt-get install -y postgresql)")
}

// version is the 15 of /usr/lib/postgresql/15/bin/initdb.
func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// account is whose the server's processes are: never root's.
func account() (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return attr, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w (Debian: apt-get install -y postgresql makes it)", err)
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
