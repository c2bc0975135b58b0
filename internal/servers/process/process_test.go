package process_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/annals-go/annals/internal/servers/process"
)

// TestMain makes the test program act as a parent that is killed when ANNALS_TEST_PARENT is set.
func TestMain(m *testing.M) {
	if os.Getenv("ANNALS_TEST_PARENT") == "" {
		m.Run()
		return
	}
	cmd := exec.Command("sleep", "600")
	cmd.Stdout = os.Stdout // so that the pipe stays open until the child ends
	p, err := process.Start(cmd, syscall.SIGKILL)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(cmd.Process.Pid) + "\n")
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		panic(err)
	}
	_ = self.Kill()
	<-p.Ended()
}

func TestStop(t *testing.T) {
	t.Parallel()
	p, err := process.Start(exec.Command("sleep", "600"), syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	p.Stop()
	p.Stop() // the process has ended already
	<-p.Ended()
}

func TestEndsByItself(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd := exec.Command("echo", "done")
	cmd.Stdout = &out
	p, err := process.Start(cmd, syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	if out.String() != "done\n" {
		t.Errorf("wrote %q", &out)
	}
	if _, err := process.Start(exec.Command("no-such-program"), syscall.SIGTERM); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}

type counted struct{ stops *int }

func (c counted) Stop() { *c.stops++ }

func TestSingleton(t *testing.T) {
	t.Parallel()
	var shared process.Singleton[counted]
	shared.Stop() // nothing is running
	stops, starts := 0, 0
	broken := errors.New("broken")
	start := func() (counted, error) {
		if starts++; starts == 1 {
			return counted{}, broken
		}
		return counted{&stops}, nil
	}
	if _, err := shared.Get(start); !errors.Is(err, broken) {
		t.Error(err)
	}
	for range 2 {
		if _, err := shared.Get(start); err != nil {
			t.Error(err)
		}
	}
	shared.Stop()
	shared.Stop()
	if starts != 2 || stops != 1 {
		t.Errorf("%d starts, %d stops", starts, stops)
	}
}
