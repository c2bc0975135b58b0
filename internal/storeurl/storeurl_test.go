package storeurl_test

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals/internal/storeurl"
)

type values struct {
	Text     string
	List     []string
	Flag     bool
	Duration time.Duration
	Number   int
	Choice   string
}

func read(u *url.URL, v *values) *storeurl.Parameters {
	p := storeurl.Parse(u)
	p.Text("text", &v.Text)
	p.List("list", &v.List)
	p.Flag("flag", &v.Flag)
	p.Duration("duration", &v.Duration)
	storeurl.Number(p, "number", &v.Number)
	storeurl.Choice(p, "choice", &v.Choice, map[string]string{"a": "A", "b": "B"})
	return p
}

// What a URL does not say stays as it is; what it says replaces what was there, false included.
func TestParameters(t *testing.T) {
	t.Parallel()
	before := values{Text: "t", List: []string{"l"}, Flag: true, Duration: time.Second, Number: 1, Choice: "c"}
	for query, want := range map[string]values{
		"":               before,
		"text=a+b%26%3B": {"a b&;", []string{"l"}, true, time.Second, 1, "c"},
		"text=x&list=a,b%20c&flag=false&duration=1m30s&number=42&choice=b": {"x", []string{"a", "b c"}, false, 90 * time.Second, 42, "B"},
	} {
		got := before
		if err := read(&url.URL{RawQuery: query}, &got).Err(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", query, got, err)
		}
	}
}

// Whatever is not understood is refused, and what may be a secret is not shown.
func TestFaults(t *testing.T) {
	t.Parallel()
	for query, faults := range map[string]string{
		"typo":                       "typo has no value",
		"text":                       "text has no value",
		"text=":                      "text has no value",
		"tetx=secret":                "there is no parameter tetx\nparameters are: choice, duration, flag, list, number, text",
		"text=a;number=secret":       "a ;",
		"%zz":                        "the name of a parameter cannot be read",
		"text=secret%zz":             "text is not percent-encoded",
		"text=secret%00":             "text is not valid UTF-8",
		"text=%FFsecret":             "text is not valid UTF-8",
		"&text=a":                    "a parameter is empty",
		"text=a&":                    "a parameter is empty",
		"text=a&text=secret":         "text is there twice",
		"text=a&%74ext=secret":       "text is there twice",
		"=secret":                    "the name of a parameter cannot be read",
		"secret@host/db?flag=true":   "there is an @",
		"secret%40host=1":            "there is no parameter whose name is withheld",
		"flag=secret":                "flag is none of false, true",
		"flag=1":                     "flag is none of",
		"duration=secret":            "duration is not",
		"duration=-1s":               "duration is not",
		"number=secret":              "number is not",
		"number=0":                   "number is not",
		"number=9223372036854775808": "number is not",
		"choice=secret":              "choice is none of a, b",
		"list=a,,secret":             "list has an empty part",
		"number=0&flag=x&text&ab=1":  "text has no value\nparameter flag is none of false, true\nparameter number is not a whole number above zero\nthere is no parameter ab",
	} {
		err := read(&url.URL{RawQuery: query}, &values{}).Err()
		if !strings.Contains(fmt.Sprint(err), faults) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %s", query, err, faults)
		}
	}
	for _, u := range []*url.URL{{ForceQuery: true}, {Fragment: "secret"}} {
		if err := read(u, &values{}).Err(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", u, err)
		}
	}
}

// A driver gets what is left, and may find that some of it is not its own.
func TestRest(t *testing.T) {
	t.Parallel()
	p := read(&url.URL{RawQuery: "text=a&its=1&own=b%26c"}, &values{})
	rest := p.Rest("the driver's")
	if want := (url.Values{"its": {"1"}, "own": {"b&c"}}); !reflect.DeepEqual(rest, want) || p.Err() != nil {
		t.Errorf("%v, %v", rest, p.Err())
	}
	p.Unknown("its")
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "there is no parameter its\nparameters are: choice, duration, flag, list, number, text, the driver's") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("text=a&number=1", "")
	f.Add("text=a;b&%zz&=&&flag", "f")
	f.Fuzz(func(t *testing.T, query, fragment string) {
		p := read(&url.URL{RawQuery: query, Fragment: fragment}, &values{})
		_ = p.Err()
		for name, all := range p.Rest("") {
			if name == "" || len(all) != 1 || all[0] == "" {
				t.Errorf("%q is left: %q", name, all)
			}
		}
	})
}

func TestFields(t *testing.T) {
	t.Parallel()
	type part struct {
		Table      string
		ShardCount int
		OccurredAt time.Duration
	}
	type kind int
	var to struct {
		Table   string
		IDIndex string
		Part    part
		IDs     []string
		Kind    kind
		Func    func()
	}
	u := &url.URL{RawQuery: "table=a&id_index=b&part=c&part.shards=4&part.occurred_at=1s&ids=d,e&kind=one"}
	p := storeurl.Parse(u)
	p.Fields(&to, func(p *storeurl.Parameters, name string, field any) bool {
		k, ok := field.(*kind)
		if ok {
			storeurl.Choice(p, name, k, map[string]kind{"one": 1})
		}
		return ok
	})
	if err := p.Err(); err != nil || to.Table != "a" || to.IDIndex != "b" || to.Part != (part{"c", 4, time.Second}) || len(to.IDs) != 2 || to.Kind != 1 {
		t.Errorf("%+v, %v", to, err)
	}
}
