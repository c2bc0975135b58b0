// Package testenv finds or starts the servers that tests and figures run against, and breaks them on demand.
package testenv

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/annals-go/annals/internal/child"
)

// DynamoDBVariable names the environment variable with the endpoint of a DynamoDB to use instead of a server of our own.
const DynamoDBVariable = "ANNALS_DYNAMODB"

const dynoxideVersion = "1.2.1" // as in scripts/dynoxide.sh

// DynamoDBServer is a DynamoDB-compatible server in memory, in a process of its own.
type DynamoDBServer struct {
	Endpoint string
	process  *child.Process
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
	cmd := exec.Command(program, "serve", "--port", port)
	out := &output{ready: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	s := &DynamoDBServer{Endpoint: "http://127.0.0.1:" + port}
	if s.process, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		return nil, err
	}
	select {
	case <-out.ready:
		return s, nil
	case <-s.process.Ended():
		return nil, fmt.Errorf("the DynamoDB test server did not start: %s", out.begun)
	}
}

// Stop ends the server.
func (s *DynamoDBServer) Stop() { s.process.Stop() }

// output waits for the server to say that it is listening.
type output struct {
	begun []byte // what it said until then
	done  bool
	ready chan struct{}
}

// Write is io.Writer.
func (o *output) Write(text []byte) (int, error) {
	if !o.done {
		o.begun = append(o.begun, text...)
		if o.done = bytes.Contains(o.begun, []byte("listening")); o.done {
			close(o.ready)
		}
	}
	return len(text), nil
}

// own is the server of this process, started when a test first asks for it.
var own child.One[*DynamoDBServer]

// DynamoDB is the endpoint of the server that the tests of one process share: the one that ANNALS_DYNAMODB names, or one of
// our own. That there is none fails the test.
func DynamoDB(t testing.TB) string {
	t.Helper()
	if endpoint := os.Getenv(DynamoDBVariable); endpoint != "" {
		return endpoint
	}
	server, err := own.Get(StartDynamoDB)
	if err != nil {
		t.Fatal(err)
	}
	return server.Endpoint
}

// NewDynamoDB is the endpoint of an empty server for one test of many transactions, whose tokens slow a server down; the
// one that ANNALS_DYNAMODB names, if any.
func NewDynamoDB(t testing.TB) string {
	t.Helper()
	if endpoint := os.Getenv(DynamoDBVariable); endpoint != "" {
		return endpoint
	}
	server, err := StartDynamoDB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.Endpoint
}

// Main runs the tests of a package and stops the server that they started. TestMain calls it.
func Main(m *testing.M) {
	defer Stop()
	_ = os.Unsetenv("AWS_CA_BUNDLE") // our servers speak plain HTTP, and reading the bundle for each client takes longer than most tests
	m.Run()                          // its code is the program's when TestMain returns
}

// Stop stops the server, if one was started: for a TestMain that does more than Main.
func Stop() { own.Stop() }
