package plantest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files of requests")

// Golden compares text with the file testdata/requests/name.txt; go test -update writes it.
func Golden(t testing.TB, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", "requests", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	have, wanted := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(have), len(wanted)) {
		if a, b := line(have, i), line(wanted, i); a != b {
			t.Errorf("%s, line %d:\n got %s\nwant %s", file, i+1, a, b)
			return
		}
	}
}

func line(lines []string, i int) string {
	if i >= len(lines) {
		return "(nothing)"
	}
	return lines[i]
}
