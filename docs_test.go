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
