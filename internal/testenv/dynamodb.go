// Package testenv finds or starts the servers that tests and figures run against, and breaks them on demand.
package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// DynamoDBVariable names the environment variable with the endpoint of a DynamoDB to use instead of a server of our own.
const DynamoDBVariable = "ANNALS_DYNAMODB"

const dynoxideVersion = "1.2.1" // as in scripts/dynoxide.sh

// DynamoDBServer is a DynamoDB-compatible server in memory, in a process of its own.
type DynamoDBServer struct {
	Endpoint string
	command  *exec.Cmd
	ended    chan struct{}
}

// StartDynamoDB starts an empty server. scripts/dynoxide.sh installs it.
func StartDynamoDB() (*DynamoDBServer, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(cache, "annals", "dynoxide-"+dynoxideVersion, "dynoxide")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("the DynamoDB test server is not installed, run scripts/dynoxide.sh: %w", err)
	}
	// A free port may be taken by somebody else before the server has it.
	for range 5 {
		var s *DynamoDBServer
		if s, err = startDynoxide(program); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startDynoxide(program string) (*DynamoDBServer, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	s := &DynamoDBServer{Endpoint: "http://127.0.0.1:" + port, ended: make(chan struct{})}
	s.command = exec.Command(program, "serve", "--port", port)
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that panics leaves no server behind
	out, err := s.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.command.Stderr = s.command.Stdout
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the signal comes when the thread ends that started the process
		defer runtime.UnlockOSThread()
		defer close(s.ended)
		if err := s.command.Start(); err != nil {
			started <- err
			return
		}
		lines := bufio.NewScanner(out)
		ready := false
		for lines.Scan() {
			if !ready && strings.Contains(lines.Text(), "listening") {
				ready = true
				started <- nil
			}
		}
		err := s.command.Wait()
		if !ready {
			started <- errors.Join(errors.New("the DynamoDB test server did not start"), err)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return s, nil
}

// Stop ends the server.
func (s *DynamoDBServer) Stop() {
	_ = s.command.Process.Kill()
	<-s.ended
}

var shared struct {
	once   sync.Once
	server *DynamoDBServer
	err    error
}

// DynamoDB is the endpoint of the server that the tests of one process share: the one that ANNALS_DYNAMODB names, or one of
// our own. That there is none fails the test.
func DynamoDB(t testing.TB) string {
	t.Helper()
	if endpoint := os.Getenv(DynamoDBVariable); endpoint != "" {
		return endpoint
	}
	shared.once.Do(func() { shared.server, shared.err = StartDynamoDB() })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.server.Endpoint
}

// Main runs the tests of a package and stops the server that they started. TestMain calls it.
func Main(m *testing.M) {
	defer Stop()
	m.Run() // its code is the program's when TestMain returns
}

// Stop stops the server, if one was started: for a TestMain that does more than Main.
func Stop() {
	if shared.server != nil {
		shared.server.Stop()
	}
}
