package projection_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	. "github.com/annals-go/annals/projection"
)

// The guide has each line that is logged, each field of a Status, and each operation of an Observer.
func TestGuide(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../docs/guide/running-projections.md")
	if err != nil {
		t.Fatal(err)
	}
	wants := func(what, text string) {
		t.Helper()
		if !strings.Contains(string(guide), text) {
			t.Errorf("the guide has no %s %q", what, text)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	logged, operation := regexp.MustCompile(`(?:Level\w+|ctx), "annals: ([^":;]+)`), regexp.MustCompile(`\bop[A-Z]\w+ += "(\w+)"`)
	lines := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range logged.FindAllStringSubmatch(string(text), -1) {
			wants("line", m[1])
			lines++
		}
		for _, m := range operation.FindAllStringSubmatch(string(text), -1) {
			wants("operation", "`"+m[1]+"`")
		}
	}
	if lines < 15 {
		t.Errorf("%d lines were found in the code", lines)
	}
	for _, of := range []any{Status{}, RangeStatus{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			switch f.Name {
			case "Name", "Type", "Tag", "States", "Slices", "Epoch": // say what they are
			default:
				if f.IsExported() {
					wants("field", "`"+f.Name+"`")
				}
			}
		}
	}
}
