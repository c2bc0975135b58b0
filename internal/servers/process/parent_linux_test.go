package process_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// A child process ends when its parent is killed.
func TestEndsWithItsParent(t *testing.T) {
	t.Parallel()
	if pid, err := strconv.Atoi(endOfParent(t)); err != nil || pid == 0 {
		t.Error(pid, err)
	}
}

// endOfParent returns what the parent wrote, after both parent and child have ended: both hold the pipe open.
func endOfParent(t *testing.T) string {
	t.Helper()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "ANNALS_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	said := ""
	for lines.Scan() { // ends when parent and child have both closed the pipe
		said += lines.Text()
	}
	_ = parent.Wait()
	return strings.TrimSpace(said)
}
