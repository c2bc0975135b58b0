package verify_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/annals-go/annals/verify"
)

// The table in the guide is that of Kinds, and no code is there twice.
func TestKinds(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := ""
	for _, k := range verify.Kinds() {
		row := fmt.Sprintf("| `%s` | %s | %s |\n", k.Code, k.Means, k.Do)
		if strings.Contains(rows, fmt.Sprintf("| `%s` |", k.Code)) {
			t.Errorf("%s is there twice", k.Code)
		}
		rows += row
	}
	if !strings.Contains(string(guide), rows) {
		t.Errorf("the guide does not have these rows:\n%s", rows)
	}
}
