package cleanup_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The snippets of the guide are lines of the examples, which compile and whose output is checked.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide/cleanup.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	unindented := func(code string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(code, "") }
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(snippets) < 4 {
		t.Errorf("found %d snippets", len(snippets))
	}
	for _, s := range snippets {
		if !strings.Contains(unindented(string(examples)), unindented(s[1])) {
			t.Errorf("no example contains\n%s", s[1])
		}
	}
}
