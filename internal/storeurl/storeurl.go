// Package storeurl reads the parameters of the URLs by which stores are opened. It is strict: if a misspelled parameter were ignored, a
// different store would be opened than the user meant.
//
// Its errors name parameters and never show values: when the characters of a password are not percent-encoded, a part of the password can
// be in any part of a URL.
package storeurl

import (
	"errors"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Parameters are the parameters of one URL. A store reads each of them once, by its name; if the URL has the parameter, its value is stored
// in the variable. Err then returns everything that is wrong.
type Parameters struct {
	left   map[string]string // parameters that have not been read
	known  []string          // names that have been read
	others string            // the argument of Rest
	faults []error
}

// Parse reads the parameters of u. A fragment is a fault, because no store uses it.
func Parse(u *url.URL) *Parameters {
	p := &Parameters{left: map[string]string{}}
	switch {
	case u.Fragment != "":
		p.fault("there is a # in the URL: write %23")
	case strings.Contains(u.RawQuery, "@"):
		p.fault("there is an @ after the ?: write %40, and %3F for a ? in a password")
	case u.RawQuery != "" || u.ForceQuery:
		for piece := range strings.SplitSeq(u.RawQuery, "&") {
			p.add(piece)
		}
	}
	return p
}

func (p *Parameters) add(piece string) {
	name, value, _ := strings.Cut(piece, "=")
	name, errName := url.QueryUnescape(name)
	value, errValue := url.QueryUnescape(value)
	_, twice := p.left[name]
	switch {
	case piece == "":
		p.fault("a parameter is empty: is there an & too many?")
	case strings.Contains(piece, ";"):
		p.fault("there is a ; in the parameters: write & between two of them, and %3B in a value")
	case errName != nil || name == "":
		p.fault("the name of a parameter cannot be read")
	case errValue != nil:
		p.Fault(name, "is not percent-encoded as it should be")
	case value == "":
		p.Fault(name, "has no value")
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		p.Fault(name, "is not valid UTF-8 without U+0000")
	case twice:
		p.Fault(name, "is there twice")
	default:
		p.left[name] = value
	}
}

// take returns the value of the parameter, "" if the URL does not have it.
func (p *Parameters) take(name string) string {
	p.known = append(p.known, name)
	value := p.left[name]
	delete(p.left, name)
	return value
}

// read reads a parameter that the URL may have. parse reports whether the value is right; wrong is the fault of one that is not.
func read[T any](p *Parameters, name string, to *T, wrong string, parse func(value string) (T, bool)) {
	value := p.take(name)
	if value == "" {
		return
	}
	if v, ok := parse(value); ok {
		*to = v
	} else {
		p.Fault(name, wrong)
	}
}

// Text reads a parameter that can have any value except the empty one.
func (p *Parameters) Text(name string, to *string) {
	if value := p.take(name); value != "" {
		*to = value
	}
}

// List reads texts that are separated by commas.
func (p *Parameters) List(name string, to *[]string) {
	read(p, name, to, "has an empty part", func(value string) ([]string, bool) {
		all := strings.Split(value, ",")
		return all, !slices.Contains(all, "")
	})
}

// Flag reads true or false.
func (p *Parameters) Flag(name string, to *bool) {
	Choice(p, name, to, map[string]bool{"true": true, "false": false})
}

// Duration reads a duration above zero, such as 1m30s.
func (p *Parameters) Duration(name string, to *time.Duration) {
	read(p, name, to, "is not a duration above zero, such as 1m30s", func(value string) (time.Duration, bool) {
		d, err := time.ParseDuration(value)
		return d, err == nil && d > 0
	})
}

// Number reads an integer above zero.
func Number[N int | int64](p *Parameters, name string, to *N) {
	read(p, name, to, "is not a whole number above zero", func(value string) (N, bool) {
		n, err := strconv.ParseInt(value, 10, 64)
		return N(n), err == nil && n >= 1 && int64(N(n)) == n
	})
}

// Choice reads one of several values.
func Choice[T any](p *Parameters, name string, to *T, among map[string]T) {
	read(p, name, to, "is none of "+strings.Join(slices.Sorted(maps.Keys(among)), ", "), func(value string) (T, bool) {
		v, ok := among[value]
		return v, ok
	})
}

// Fields reads a parameter for each field of the struct that to points to, and of the structs in it: a text, flag (a bool or *bool), number above
// zero, duration or list. The parameter has the field's name, and before it that of the struct in it, such as journal.sort_key; that of
// Journal.Table is journal, that of ShardCount shards, and that of CreateTables create. other reads a field of another type, given its pointer;
// it returns false when the field has no parameter.
func (p *Parameters) Fields(to any, other func(p *Parameters, name string, field any) bool) {
	p.fields("", reflect.ValueOf(to).Elem(), other)
}

// NoOther is for structs whose fields of other types have no parameters.
func NoOther(*Parameters, string, any) bool { return false }

func (p *Parameters) fields(prefix string, in reflect.Value, other func(p *Parameters, name string, field any) bool) {
	for f, v := range in.Fields() {
		name := strings.ToLower(word.ReplaceAllString(f.Name, "${1}_$2"))
		switch {
		case f.Name == "ShardCount":
			name = "shards"
		case f.Name == "CreateTables":
			name = "create"
		case f.Name == "Table" && prefix != "":
			name = ""
		}
		name = strings.Trim(prefix+"."+name, ".")
		switch to := v.Addr().Interface().(type) {
		case *string:
			p.Text(name, to)
		case *bool:
			p.Flag(name, to)
		case **bool:
			Choice(p, name, to, map[string]*bool{"true": new(true), "false": new(false)})
		case *int:
			Number(p, name, to)
		case *time.Duration:
			p.Duration(name, to)
		case *[]string:
			p.List(name, to)
		default:
			if !other(p, name, to) && v.Kind() == reflect.Struct {
				p.fields(name, v, other)
			}
		}
	}
}

// word finds where a word ends in the name of a field.
var word = regexp.MustCompile("([a-z]|ID)([A-Z])")

// Rest returns the parameters that have not been read, for a driver that reads them: they are no faults then. whose names them in the errors
// of Err.
func (p *Parameters) Rest(whose string) url.Values {
	rest := url.Values{}
	for name, value := range p.left {
		rest.Set(name, value)
	}
	clear(p.left)
	p.others = whose
	return rest
}

// Fault adds a fault of a parameter to those that Err returns.
func (p *Parameters) Fault(name, text string) { p.fault(shown(name) + " " + text) }

// Unknown adds the fault that there is no such parameter.
func (p *Parameters) Unknown(name string) { p.left[name] = "" }

func (p *Parameters) fault(text string) { p.faults = append(p.faults, errors.New(text)) }

// Err returns all faults of the parameters in one error, nil if there are none.
func (p *Parameters) Err() error {
	faults := slices.Clone(p.faults)
	for _, name := range slices.Sorted(maps.Keys(p.left)) {
		faults = append(faults, errors.New("there is no "+shown(name)))
	}
	if len(p.left) > 0 {
		there := slices.Sorted(slices.Values(p.known))
		if p.others != "" {
			there = append(there, p.others)
		}
		if len(there) == 0 {
			there = []string{"none"}
		}
		faults = append(faults, errors.New("parameters are: "+strings.Join(there, ", ")))
	}
	return errors.Join(faults...)
}

// shown is the name of a parameter in an error. A text that does not look like a name may be a part of a value, so it is not shown.
func shown(name string) string {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.-", r)
	}
	if len(name) > 64 || strings.ContainsFunc(name, odd) {
		return "parameter whose name is withheld, since it may be a value"
	}
	return "parameter " + name
}
