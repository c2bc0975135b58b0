package claims

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
)

// Each field of Capabilities is needed by a feature or has a reason why it is not, and the tables of docs/claims.md are these.
func TestTables(t *testing.T) {
	t.Parallel()
	needed := map[string]bool{}
	var features, informative []string
	for _, f := range All {
		for _, claim := range f.Needs {
			name, _, _ := strings.Cut(strings.TrimPrefix(claim, "!"), ".")
			needed[name] = true
			has(annals.Capabilities{}, claim) // panics on a name that is no bool field
		}
		claims := strings.ReplaceAll("`"+strings.Join(f.Needs, "`, `")+"`", "`!", "no `")
		unless := ""
		if f.Unless != "" {
			unless = "`" + f.Unless + "`"
		}
		features = append(features, strings.TrimSpace(f.Name+" | "+claims+" | "+unless))
	}
	fields := reflect.VisibleFields(reflect.TypeFor[annals.Capabilities]())
	for _, field := range fields {
		reason, ok := Informative[field.Name]
		if !ok && !needed[field.Name] {
			t.Errorf("no feature needs %s, and it is not informative", field.Name)
		}
		if ok && needed[field.Name] && field.Type.Kind() == reflect.Bool {
			t.Errorf("%s is informative, and a feature needs it", field.Name)
		}
		if ok {
			informative = append(informative, "`"+field.Name+"` | "+reason)
		}
	}
	if len(informative) != len(Informative) {
		t.Errorf("%d of %d informative names are fields", len(informative), len(Informative))
	}

	text, err := os.ReadFile("../../docs/claims.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Split(string(text), "\n## ")
	if len(sections) != 4 {
		t.Fatalf("docs/claims.md has %d sections", len(sections)-1)
	}
	for i, want := range [][]string{features, informative} {
		if got := rows(sections[i+1]); !slices.Equal(got, want) {
			t.Errorf("the table of the document is\n%s\nin the code it is\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	gained := map[string]bool{}
	for _, row := range rows(sections[3]) {
		first, _, _ := strings.Cut(row, " | ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
			name, _, _ := strings.Cut(m[1], ".")
			gained[name] = true
		}
	}
	for name := range needed {
		if !gained[name] {
			t.Errorf("docs/claims.md does not say which stores claim %s", name)
		}
	}
}

// rows are the rows of the table in a section, without its head.
func rows(section string) (found []string) {
	for line := range strings.Lines(section) {
		if row, ok := strings.CutPrefix(line, "| "); ok {
			found = append(found, strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(row), "|")))
		}
	}
	return found[min(1, len(found)):]
}

// A store without one of the claims of a feature is refused, with a text that names both.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, f := range All {
		all := annals.Capabilities{}
		for _, v := range reflect.ValueOf(&all).Elem().Fields() {
			if v.Kind() == reflect.Bool {
				v.SetBool(true)
			}
		}
		if err := f.Missing(all); err != nil {
			t.Errorf("%s with all claims: %v", f.Name, err)
		}
		for _, claim := range f.Needs {
			less := all
			if claim == "!Limits.FirstSnapshot" {
				less.Limits.FirstSnapshot = true
			} else {
				reflect.ValueOf(&less).Elem().FieldByName(claim).SetBool(false)
			}
			err := Refusal("test", less, f)
			if !errors.Is(err, annals.ErrUnsupported) || !strings.Contains(err.Error(), f.Name) || !strings.Contains(err.Error(), strings.TrimPrefix(claim, "!")) || !strings.Contains(err.Error(), f.Unless) {
				t.Errorf("%s without %s: %v", f.Name, claim, err)
			}
		}
	}
}
