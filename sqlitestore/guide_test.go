package sqlitestore_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The snippets of the guide are lines of the example, which compiles and whose output is checked.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide/durable-state.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	unindented := func(code string) string { return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(code, "") }
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(snippets) < 5 {
		t.Errorf("found %d snippets", len(snippets))
	}
	for _, s := range snippets {
		if !strings.Contains(unindented(string(example)), unindented(s[1])) {
			t.Errorf("the example does not contain\n%s", s[1])
		}
	}
}
