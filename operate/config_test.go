package operate_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
)

// A name stands for a URL in the file, with variables of the environment in it.
func TestConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stores.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ANNALS_STORE", "")
	t.Setenv("OPERATE_PASSWORD", "a/b c+d@e")
	t.Setenv("OPERATE_URL", "mem://whole:secret-word@host/x")
	var opened *url.URL
	c := operate.Config{Stores: annals.Openers{"mem": func(_ context.Context, u *url.URL) (annals.Store, error) {
		opened = u
		return memstore.New(), nil
	}}}
	ids := func(args ...string) output { return runWith(t.Context(), c, append([]string{"ids"}, args...)...) }
	write(`{"stores": {"here": "mem://eve:${OPERATE_PASSWORD}@host/x", "whole": "${OPERATE_URL}", "unset": "mem:${OPERATE_NONE}"}}`)
	if o := ids("--config", file, "--store", "here"); o.status != 0 {
		t.Fatalf("%+v", o)
	} else if password, _ := opened.User.Password(); password != "a/b c+d@e" {
		t.Errorf("the password is %q", password)
	}
	t.Setenv("ANNALS_CONFIG", file)
	if o := ids("--store", "whole"); o.status != 0 || opened.User.Username() != "whole" {
		t.Errorf("%+v, %v", o, opened)
	}
	t.Setenv("ANNALS_STORE", "here")
	if o := ids(); o.status != 0 {
		t.Errorf("%+v", o)
	}
	for text, want := range map[string]string{
		`{"stores": {"here": "mem:"}}`:           "has no store there, but: here",
		"{\n\"stores\": {},\n\"store\": {}\n}":   `:3: unknown member "store"`,
		"{\n\"stores\": {\n\"here\": secret}\n}": ":3: invalid character",
		"{\n\"stores\": {\n\"here\": 7}\n}":      ":3: ",
		"{\"stores\": {}}\n\n7":                  ":3: the file is not one object",
		"":                                       ":1: EOF",
		`{`:                                      ":1: EOF",
		`["stores"]`:                             ":1: the file is not one object",
		`{} {}`:                                  ":1: the file is not one object",
		`{"stores":`:                             ":1: EOF",
	} {
		write(text)
		o := ids("--store", "there")
		errs := strings.Replace(o.errors, "unexpected EOF", "EOF", 1) // since Go 1.27 some are unexpected
		if o.status != 3 || !strings.Contains(errs, want) || strings.Contains(errs, "secret") {
			t.Errorf("%q: %+v, want %q", text, o, want)
		}
	}
	write(`{"stores": {"unset": "mem:${OPERATE_NONE}"}}`)
	if o := ids("--store", "unset"); o.status != 3 || !strings.Contains(o.errors, "the environment variable in ${OPERATE_NONE} is not set") {
		t.Errorf("%+v", o)
	}
	guide, err := os.ReadFile("../docs/guide/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(guide), "```json\n")
	example, _, _ = strings.Cut(example, "```")
	write(strings.Replace(example, "sqlite:", "mem:", 1))
	if o := ids("--store", "here"); o.status != 0 || opened.Opaque != "orders.db" {
		t.Errorf("the file of the guide: %+v, %v", o, opened)
	}
	if o := ids("--config", file+".none", "--store", "here"); o.status != 3 || !strings.Contains(o.errors, "cannot be read") {
		t.Errorf("%+v", o)
	}
	t.Setenv("ANNALS_CONFIG", "")
	t.Setenv("HOME", t.TempDir())
	folder, err := os.UserConfigDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "annals"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "annals", "stores.json"), []byte(`{"stores": {"here": "mem:"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if o := ids("--store", "here"); o.status != 0 {
		t.Errorf("%+v", o)
	}
}

// Without the variable, a next command names it where the URL has a password. A name of the file of --config is repeated with the file.
func TestNextNamesTheVariable(t *testing.T) {
	t.Setenv("ANNALS_STORE", "")
	file := filepath.Join(t.TempDir(), "stores.json")
	if err := os.WriteFile(file, []byte(`{"stores": {"here": "mem://ann:secret@host"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config(memstore.New())
	for want, args := range map[string][]string{
		`next: annals ids --store "$ANNALS_STORE"` + "\n":       {"--store", "mem:?password=secret"},
		"next: annals ids --store here --config " + file + "\n": {"--store", "here", "--config", file},
	} {
		if o := runWith(t.Context(), c, append([]string{"show", "x"}, args...)...); o.status != 0 || !strings.Contains(o.text, want) {
			t.Errorf("%q: %+v", args, o)
		}
	}
}
