package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals/internal/servers/process"
)

// Pooler is a PgBouncer in front of a server. Each transaction of a client gets the session that was used the longest time ago, so a session
// seldom serves a client twice in a row.
type Pooler struct {
	bin, dir, server string
	port             int
	attr             *syscall.SysProcAttr
	process          *process.Process
}

// StartPooler starts a PgBouncer in front of the server at a URL, until t ends. Its settings have the form name=value, and are
// pool_mode=transaction unless they say otherwise.
func StartPooler(t testing.TB, server string, settings ...string) *Pooler {
	t.Helper()
	p := &Pooler{server: server}
	t.Cleanup(p.stop)
	if err := p.start(t, settings); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *Pooler) start(t testing.TB, settings []string) (err error) {
	if p.bin, err = exec.LookPath("pgbouncer"); err != nil {
		if p.bin, err = exec.LookPath("/usr/sbin/pgbouncer"); err != nil { // not on the PATH of every user
			return errors.New("PgBouncer is not installed (Debian: apt-get install -y pgbouncer)")
		}
	}
	if p.attr, err = account(); err != nil {
		return err
	}
	if p.dir, err = os.MkdirTemp("", "annals-pgbouncer-"); err != nil {
		return err
	}
	if err = chown(p.dir, p.attr); err != nil {
		return err
	}
	if p.port, err = freePort(); err != nil {
		return err
	}
	u, err := url.Parse(p.server)
	if err != nil {
		return err
	}
	database := fmt.Sprintf("* = host=%s port=%s user=%s", u.Hostname(), u.Port(), u.User.Username())
	if password, set := u.User.Password(); set {
		database += " password=" + password
	}
	lines := append([]string{"[databases]", database,
		"[pgbouncer]", "listen_addr=127.0.0.1", "listen_port=" + strconv.Itoa(p.port), "unix_socket_dir=", "auth_type=any", "admin_users=admin",
		"pool_mode=transaction", "server_round_robin=1", "max_client_conn=1000", "default_pool_size=50"}, settings...)
	if err := os.WriteFile(filepath.Join(p.dir, "pgbouncer.ini"), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	return p.Restart(t.Context())
}

// URL is the database at a URL of the server, through the pooler, without the server's settings, which PgBouncer refuses.
func (p *Pooler) URL(t testing.TB, server string) string {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = "127.0.0.1:" + strconv.Itoa(p.port)
	q := u.Query()
	q.Del("search_path")
	q.Del("application_name")
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String()
}

// Kill kills the pooler. The server's sessions end with their connections.
func (p *Pooler) Kill() { p.process.Stop() }

// Restart starts the pooler at the same address after Kill, and returns when it accepts connections.
func (p *Pooler) Restart(ctx context.Context) error {
	var log bytes.Buffer
	cmd := exec.Command(p.bin, filepath.Join(p.dir, "pgbouncer.ini"))
	cmd.Dir, cmd.SysProcAttr, cmd.Stdout, cmd.Stderr = p.dir, p.attr, &log, &log
	var err error
	if p.process, err = process.Start(cmd, syscall.SIGKILL); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		err := p.Command(ctx, "SHOW VERSION")
		if err == nil {
			return nil
		}
		select {
		case <-p.process.Ended():
			return fmt.Errorf("pgbouncer ended: %s", &log)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Command gives a command to the pooler, such as PAUSE, RESUME, RELOAD or RECONNECT.
func (p *Pooler) Command(ctx context.Context, command string) error {
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://admin@127.0.0.1:%d/pgbouncer?sslmode=disable&default_query_exec_mode=simple_protocol", p.port))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, command)
	return err
}

// stop stops the pooler, if it was started, and removes its files.
func (p *Pooler) stop() {
	if p.process != nil {
		p.process.Stop()
	}
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}
