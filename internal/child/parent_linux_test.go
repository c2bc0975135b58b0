package child_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// The child does not outlive a parent that is killed.
func TestEndsWithItsParent(t *testing.T) {
	t.Parallel()
	if pid, err := strconv.Atoi(endOfParent(t)); err != nil || pid == 0 {
		t.Error(pid, err)
	}
}

// endOfParent reads what the parent and its child hold open, until both are gone.
func endOfParent(t *testing.T) string {
	t.Helper()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "CHILD_OF_THE_DEAD=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	said := ""
	for lines.Scan() { // ends when nobody can write any more: parent and child
		said += lines.Text()
	}
	_ = parent.Wait()
	return strings.TrimSpace(said)
}
