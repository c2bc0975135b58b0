package annals_test

import (
	"fmt"
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

// Links between documents lead to files that exist, and to headings in them.
func TestLinks(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`) // without addresses
	code := regexp.MustCompile("(?s)```.*?```")                // instances of generic functions look like links
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return code.ReplaceAllString(string(text), "")
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(read(name), -1) {
			target := name
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(name), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if m[2] != "" && !strings.Contains(anchors(read(target)), " "+m[2]+" ") {
				t.Errorf("%s links to %s, which has no heading %s", name, target, m[2])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// anchors are those of the headings in a document, as GitHub makes them, each between spaces.
func anchors(document string) string {
	all := " "
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(document, -1) {
		heading := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all += strings.ReplaceAll(heading, " ", "-") + " "
	}
	return all
}

// Every decision has a number of its own and is listed by its title.
func TestDecisionsAreListed(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	decisions, err := filepath.Glob("docs/adr/*.md")
	if err != nil || len(decisions) == 0 {
		t.Fatalf("%d decisions, %v", len(decisions), err)
	}
	for i, name := range decisions {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		number, _, _ := strings.Cut(filepath.Base(name), "-")
		if want := fmt.Sprintf("%04d", i+1); number != want || !strings.HasPrefix(string(text), "# "+number+" ") {
			t.Errorf("%s: want number %s, in the title too", name, want)
		}
		if !strings.Contains(string(list), "(adr/"+filepath.Base(name)+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// Every piece of Go in a document is in a file that is compiled: an example or a program.
func TestSnippets(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	var documents []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case path.Ext(name) == ".md":
			documents = append(documents, name)
			return nil
		case !strings.HasSuffix(name, ".go"), !strings.HasPrefix(name, "examples/") && !strings.HasPrefix(path.Base(name), "example"):
			return nil
		}
		text, err := os.ReadFile(name)
		code.WriteString(unindented(string(text)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	snippets := 0
	for _, name := range documents {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if snippets++; !strings.Contains(code.String(), unindented(s[1])) {
				t.Errorf("%s: no example contains\n%s", name, s[1])
			}
		}
	}
	if snippets < 60 {
		t.Errorf("found %d snippets", snippets)
	}
}

func unindented(code string) string {
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(code, "")
}
