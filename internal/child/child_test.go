package child_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"

	"github.com/annals-go/annals/internal/child"
)

// TestMain lets the test program play the parent that dies.
func TestMain(m *testing.M) {
	if os.Getenv("CHILD_OF_THE_DEAD") == "" {
		m.Run()
		return
	}
	cmd := exec.Command("sleep", "600")
	cmd.Stdout = os.Stdout // so that a reader sees when it ends
	p, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(cmd.Process.Pid) + "\n")
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	<-p.Ended()
}

func TestStop(t *testing.T) {
	t.Parallel()
	p, err := child.Start(exec.Command("sleep", "600"), syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	p.Stop()
	p.Stop() // it has ended: nothing happens
	<-p.Ended()
}

func TestEndsByItself(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	cmd := exec.Command("echo", "done")
	cmd.Stdout = &out
	p, err := child.Start(cmd, syscall.SIGTERM)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Ended()
	if out.String() != "done\n" {
		t.Errorf("wrote %q", &out)
	}
	if _, err := child.Start(exec.Command("no-such-program"), syscall.SIGTERM); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}

type counted struct{ stops *int }

func (c counted) Stop() { *c.stops++ }

func TestOne(t *testing.T) {
	t.Parallel()
	var one child.One[counted]
	one.Stop() // nothing runs
	stops, starts := 0, 0
	broken := errors.New("broken")
	start := func() (counted, error) {
		if starts++; starts == 1 {
			return counted{}, broken
		}
		return counted{&stops}, nil
	}
	if _, err := one.Get(start); !errors.Is(err, broken) {
		t.Error(err)
	}
	for range 2 {
		if _, err := one.Get(start); err != nil {
			t.Error(err)
		}
	}
	one.Stop()
	one.Stop()
	if starts != 2 || stops != 1 {
		t.Errorf("%d starts, %d stops", starts, stops)
	}
}
