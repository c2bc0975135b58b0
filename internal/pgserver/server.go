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

	dir     string
	process *child.Process
}

// Start makes a cluster in a temporary directory and starts a server on it. Run by root it runs as the user postgres,
// because PostgreSQL refuses root.
func Start(ctx context.Context) (*Server, error) {
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
	s := &Server{dir: dir}
	if err := s.start(ctx, bin, attr); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Stop ends the server and removes its data.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.Stop()
	}
	_ = os.RemoveAll(s.dir)
}

func (s *Server) start(ctx context.Context, bin string, attr *syscall.SysProcAttr) error {
	if c := attr.Credential; c != nil {
		if err := os.Chown(s.dir, int(c.Uid), int(c.Gid)); err != nil {
			return err
		}
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.dir, attr
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=on", "-c", "max_connections=300")
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = s.dir, attr, &log, &log
	if s.process, err = child.Start(cmd, syscall.SIGQUIT); err != nil { // at once: nothing of it is kept
		return err
	}
	s.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", port)
	return s.await(ctx, &log)
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
