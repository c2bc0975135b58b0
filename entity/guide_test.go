package entity_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The snippets of the guide are lines of examples that compile and, where they print something, are checked.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide/entities.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, name := range []string{"example_test.go", "../aggregate/example_test.go", "../entitytest/example_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code.WriteString(unindented(string(text)))
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(guide), -1)
	if len(snippets) < 8 {
		t.Errorf("found %d snippets", len(snippets))
	}
	for _, s := range snippets {
		if !strings.Contains(code.String(), unindented(s[1])) {
			t.Errorf("no example contains\n%s", s[1])
		}
	}
}

func unindented(code string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(code, "")
}
