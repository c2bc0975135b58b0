package storetest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The code in docs/writing-a-store.md is that of the example, which compiles and passes the suite.
func TestDocumentQuotesExample(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/writing-a-store.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)   ```go\n(.*?)   ```\n").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 5 {
		t.Fatalf("the document quotes %d pieces of code, want 5", len(blocks))
	}
	for _, block := range blocks {
		code := strings.TrimPrefix(strings.ReplaceAll("\n"+block[1], "\n   ", "\n"), "\n")
		if !strings.Contains(string(example), code) {
			t.Errorf("the example does not have this code of the document:\n%s", code)
		}
	}
}
