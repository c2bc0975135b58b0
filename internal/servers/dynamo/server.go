// Package dynamo gives DynamoDB-compatible servers to tests and measurements, and a proxy that injects faults. Endpoint returns the
// server that all tests of a program share: the one that the environment variable ANNALS_DYNAMODB names, or one started at the
// first call.
//
// A package whose tests share a server has
//
//	func TestMain(m *testing.M) { dynamo.Main(m) }
package dynamo

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"

	"github.com/annals-go/annals/internal/servers/process"
)

// Env is the environment variable with the endpoint of a DynamoDB to use instead of starting a server.
const Env = "ANNALS_DYNAMODB"

const dynoxideVersion = "1.2.1" // as in scripts/dynoxide.sh

// Server is a DynamoDB-compatible server that runs as a child process and keeps its data in memory.
type Server struct {
	Endpoint string
	process  *process.Process
}

// Start starts an empty server. scripts/dynoxide.sh installs the program.
func Start() (*Server, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(cache, "annals", "dynoxide-"+dynoxideVersion, "dynoxide")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("the DynamoDB test server is not installed, run scripts/dynoxide.sh: %w", err)
	}
	// Another process may take the free port before the server does: try again.
	for range 5 {
		var s *Server
		if s, err = startDynoxide(program); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func startDynoxide(program string) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	cmd := exec.Command(program, "serve", "--port", port)
	cmd.Env = append(os.Environ(), "TOKIO_WORKER_THREADS=1") // with a thread for each processor the same requests take more processor time
	out := &output{ready: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	s := &Server{Endpoint: "http://127.0.0.1:" + port}
	if s.process, err = process.Start(cmd, syscall.SIGKILL); err != nil {
		return nil, err
	}
	select {
	case <-out.ready:
		return s, nil
	case <-s.process.Ended():
		return nil, fmt.Errorf("the DynamoDB test server did not start: %s", out.begun)
	}
}

// Stop stops the server.
func (s *Server) Stop() { s.process.Stop() }

// output closes ready when the server writes that it is listening.
type output struct {
	begun []byte // the output until then
	done  bool
	ready chan struct{}
}

// Write implements io.Writer.
func (o *output) Write(text []byte) (int, error) {
	if !o.done {
		o.begun = append(o.begun, text...)
		if o.done = bytes.Contains(o.begun, []byte("listening")); o.done {
			close(o.ready)
		}
	}
	return len(text), nil
}

// shared is the server of this program's tests.
var shared process.Singleton[*Server]

// Endpoint returns the endpoint of the shared server: the one that Env names, or one started at the first call. The test fails when
// no server can be started.
func Endpoint(t testing.TB) string {
	t.Helper()
	if endpoint := os.Getenv(Env); endpoint != "" {
		return endpoint
	}
	server, err := shared.Get(Start)
	if err != nil {
		t.Fatal(err)
	}
	return server.Endpoint
}

// NewEndpoint returns the endpoint of a new server that stops when t ends, or of the server that Env names. It is for tests with many
// transactions: the server becomes slower with each transaction token that it remembers.
func NewEndpoint(t testing.TB) string {
	t.Helper()
	if endpoint := os.Getenv(Env); endpoint != "" {
		return endpoint
	}
	server, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.Endpoint
}

// Main runs the tests of a package and then calls Stop. TestMain calls it.
func Main(m *testing.M) {
	defer Stop()
	_ = os.Unsetenv("AWS_CA_BUNDLE") // the servers speak plain HTTP, and reading the bundle for each client takes longer than most tests
	debug.SetGCPercent(800)          // requests allocate much that is used for a short time: less time for the garbage collector
	m.Run()                          // the program exits with its code when TestMain returns
}

// Stop stops the shared server if one was started. A TestMain that does not call Main calls Stop at its end.
func Stop() { shared.Stop() }
