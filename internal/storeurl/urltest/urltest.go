// Package urltest compares the parameters of a store's URL with docs/stores/urls.md and with the store's options.
package urltest

import (
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Check calls parse with the URL base and the parameters that the document at path lists for store, each with its example. parse must
// accept all of them, there must be no others, and every field of the result must be set, except those that cannot be written as text:
// functions, interfaces and maps.
func Check(t *testing.T, path, store, base string, parse func(*url.URL) (any, error)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var query, documented []string
	row := regexp.MustCompile("(?m)^\\| ([a-z0-9, ]+) \\| `([a-z_.]+)=([^`]+)` \\|")
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		if slices.Contains(strings.Split(cells[1], ", "), store) {
			documented = append(documented, cells[2])
			query = append(query, cells[2]+"="+cells[3])
		}
	}
	if len(query) > 0 && !strings.Contains(base, "?") {
		base += "?"
	}
	u, err := url.Parse(base + strings.Join(query, "&"))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := parse(u)
	if err != nil {
		t.Fatalf("%s: %v", u, err)
	}
	unset(reflect.ValueOf(settings), func(field string) { t.Errorf("no parameter of %s sets %s", store, field) })

	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += "nonsense=1"
	if _, err = parse(u); err == nil {
		t.Fatalf("%s was taken", u)
	}
	_, list, _ := strings.Cut(err.Error(), "parameters are: ")
	known := strings.Split(list, ", ")
	known = slices.DeleteFunc(known, func(name string) bool { return name == "none" || strings.Contains(name, " ") })
	slices.Sort(documented)
	if !slices.Equal(known, documented) {
		t.Errorf("%s has the parameters\n%v, the document\n%v", store, known, documented)
	}
}

// unset returns the fields of v that are zero, except those that cannot be written as text.
func unset(v reflect.Value, report func(field string)) {
	for i := range v.NumField() {
		field, name := v.Field(i), v.Type().Name()+"."+v.Type().Field(i).Name
		switch field.Kind() {
		case reflect.Func, reflect.Map:
		case reflect.Interface:
			if layout := field.Elem(); layout.Kind() == reflect.Struct {
				unset(layout, report)
			}
		case reflect.Struct:
			if hasFunc(field.Type()) {
				if field.IsZero() && name != "Layout.Keys" { // of esa: only functions of the program, which have no names
					report(name)
				}
				continue
			}
			unset(field, report)
		default:
			if field.IsZero() {
				report(name)
			}
		}
	}
}

// hasFunc reports whether the struct t has a field that is a function: then a text selects one of several values.
func hasFunc(t reflect.Type) bool {
	for field := range t.Fields() {
		if field.Type.Kind() == reflect.Func {
			return true
		}
	}
	return false
}
