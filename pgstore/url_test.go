package pgstore_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/internal/storeurl/urltest"
	"github.com/annals-go/annals/pgstore"
)

func TestURLParameters(t *testing.T) {
	t.Parallel()
	urltest.Check(t, "../docs/stores/urls.md", "pgstore", "postgres://user@host/database", func(u *url.URL) (any, error) { return pgstore.FromURL(u) })
}

func TestOpenURL(t *testing.T) {
	t.Parallel()
	schema := postgres.Schema(t)
	u := schema + "&create=true&journal=Orders&write_timeout=3s&pool_max_conns=3&application_name=orders"
	s, err := annals.Openers{"postgres": pgstore.Options{}.OpenURL}.Open(t.Context(), strings.Replace(u, "postgres:", "postgresql:", 1))
	if err != nil {
		t.Fatal(err)
	}
	appendOne(t, s.(*pgstore.Store), "T|1", 0)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	_, err = s.Journal().LastSeqNr(t.Context(), "T|1")
	wantKind(t, err, annals.ErrClosed)
	if n := count(t, schema, `SELECT count(*) FROM "Orders"`); n != 1 {
		t.Errorf("%d rows in the table that the URL names", n)
	}
}

// All faults of a URL are reported at once, without a connection, and without values that may be secret.
func TestOpenURLRefuses(t *testing.T) {
	t.Parallel()
	openers := annals.Openers{"postgres": pgstore.Options{}.OpenURL}
	for u, want := range map[string]string{
		"postgres://user:sec/ret@host/db":                                                             "cannot be parsed",
		"postgres://user:sec#ret@host/db":                                                             "cannot be parsed",
		"postgres://user:sec?ret@host/db":                                                             "cannot be parsed",
		"postgres://user:sec%ret@host/db":                                                             "cannot be parsed",
		"postgres://user:123/ret@host/db":                                                             "percent-encoded",
		"postgres://user:123#ret@host/db":                                                             "a #",
		"postgres://user:123?ret@host/db":                                                             "an @",
		"postgres://user:123?ret=@host/db":                                                            "an @",
		"postgres:user:secret@host/db":                                                                "the URL is postgres://user:password@host",
		"postgres://user:secret@host/db?sslmod=disable":                                               "no parameter sslmod\n",
		"postgres://user:secret@host/db?pool_max_con=4":                                               "no parameter pool_max_con\n",
		"postgres://user:secret@host/db?pool_max_conns=secret":                                        "parameter pool_max_conns",
		"postgres://user:secret@host/db?sslmode=secret":                                               "parameter sslmode",
		"postgres://user:secret@host/db?password=secret&password=x":                                   "password is there twice",
		"postgres://user:secret@host/db?journl=x&jsonb=secret&sslmode=secret&create=true&create=true": "no parameter journl\n",
	} {
		s, err := openers.Open(t.Context(), u)
		if s != nil || !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %s", u, s, err, want)
		}
		for _, secret := range []string{"sec", "ret", "123"} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells a piece of the password: %v", err)
			}
		}
	}
	_, err := openers.Open(t.Context(), "postgres://host/db?journl=x&jsonb=2&sslmode=x&create=true&create=true&pool_max_conns=x")
	for _, name := range []string{"journl", "jsonb", "sslmode", "create", "pool_max_conns"} {
		if err == nil || !strings.Contains(err.Error(), "parameter "+name) {
			t.Errorf("not all at once: %v, %s is missing", err, name)
		}
	}
}

// FuzzURL parses any URL. An error never shows the password.
func FuzzURL(f *testing.F) {
	const password = "s3cret"
	f.Add("host", "/db", "schema=a&create=true&write_timeout=1s&max_events=7&pool_max_conns=3")
	f.Add("a:1,b:2", "", "sslmode=disable&target_session_attrs=any&application_name=x&options=-c%20jit=off")
	f.Add("[::1", "/@/", "sslmod=disable&connect_timeout=x&a.b=c&%zz&=&host=/tmp")
	f.Fuzz(func(t *testing.T, host, path, query string) {
		u := &url.URL{Scheme: "postgres", User: url.UserPassword("user", password), Host: host, Path: path, RawQuery: query}
		_, err := pgstore.FromURL(u)
		if err != nil && strings.Contains(err.Error(), password) && !strings.Contains(host+path+query, password) {
			t.Errorf("the error holds the password: %v", err)
		}
	})
}
