package annals_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/annals-go/annals"
)

// The test vectors of docs/formats/r2dbc.md are what Slice computes.
func TestSliceVectors(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/formats/r2dbc.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Slices\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `(.+)` \\| -?\\d+ \\| (\\d+) \\|$").FindAllStringSubmatch(section, -1)
	if len(rows) < 30 {
		t.Fatalf("found %d vectors", len(rows))
	}
	for _, row := range rows {
		id := annals.PersistenceID(strings.ReplaceAll(row[1], `\|`, "|")) // as tables escape it
		if got := strconv.Itoa(id.Slice()); got != row[2] {
			t.Errorf("%q: slice %s, the document says %s", id, got, row[2])
		}
	}
}

// Links between documents lead to files that exist.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`) // without addresses and anchors
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The snippets of a guide are lines of examples, which compile and whose output is checked.
func TestGuides(t *testing.T) {
	t.Parallel()
	for _, guide := range []struct {
		name     string
		examples []string
		snippets int // at least
	}{
		{"entities.md", []string{"entity", "aggregate", "entitytest"}, 8},
		{"cleanup.md", []string{"cleanup"}, 4},
		{"durable-state.md", []string{"sqlitestore", "pgstore", "dynamostore"}, 10},
	} {
		text, err := os.ReadFile("docs/guide/" + guide.name)
		if err != nil {
			t.Fatal(err)
		}
		var code strings.Builder
		for _, dir := range guide.examples {
			example, err := os.ReadFile(dir + "/example_test.go")
			if err != nil {
				t.Fatal(err)
			}
			code.WriteString(unindented(string(example)))
		}
		snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(snippets) < guide.snippets {
			t.Errorf("%s: found %d snippets", guide.name, len(snippets))
		}
		for _, s := range snippets {
			if !strings.Contains(code.String(), unindented(s[1])) {
				t.Errorf("%s: no example contains\n%s", guide.name, s[1])
			}
		}
	}
}

func unindented(code string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(code, "")
}
