package operate_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/projection"
)

// changes are the forms that change something.
func changes() []url.Values {
	return []url.Values{
		{"do": {"pause"}, "name": {"sums"}}, {"do": {"resume"}, "name": {"sums"}}, {"do": {"retry"}, "name": {"sums"}},
		{"do": {"retry"}, "name": {"sums"}, "id": {"Meter|a"}}, {"do": {"discard"}, "name": {"sums"}, "id": {"Meter|a"}, "to": {"1"}, "yes": {"1"}},
	}
}

// No request without the right changes anything, or shows anything: every route, with every form, from everybody who has not all that is asked for.
func TestPageRights(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	parkAll(t, s, "sums", "secret-of-the-error")
	writes := 0
	guarded := watched(s, &writes)
	everybody := func(*http.Request, operate.Action) error { return nil }
	nobody := func(*http.Request, operate.Action) error { return errors.New("not you") }
	readers := func(_ *http.Request, a operate.Action) error {
		if a.Name != "read" {
			return errors.New("only to look")
		}
		return nil
	}
	login := func(v *visitor) {
		if w := v.send("POST", "login", url.Values{"token": {token}}); w.Code != http.StatusSeeOther {
			t.Fatalf("login: %d", w.Code)
		}
	}
	for name, c := range map[string]struct {
		o     operate.PageOptions
		as    func(v *visitor)
		reads bool
		form  string // as "form" of each form, "right" is that of the page
	}{
		"another machine":              {o: operate.PageOptions{}, as: func(v *visitor) { v.remote = "192.0.2.7:1" }},
		"through a proxy":              {o: operate.PageOptions{}, as: func(v *visitor) { v.header.Set("X-Forwarded-For", "192.0.2.7") }},
		"nobody may change":            {o: operate.PageOptions{}, reads: true},
		"no token":                     {o: operate.PageOptions{Token: token, Allow: everybody}},
		"a wrong token":                {o: operate.PageOptions{Token: token, Allow: everybody}, as: func(v *visitor) { v.header.Set("Authorization", "Bearer x") }},
		"a wrong cookie":               {o: operate.PageOptions{Token: token, Allow: everybody}, as: func(v *visitor) { login(v); v.cookies[tokenCookie(v)] = token }},
		"the token, read-only":         {o: operate.PageOptions{Token: token}, as: login, reads: true, form: "right"},
		"the token, no form":           {o: operate.PageOptions{Token: token, Allow: everybody}, as: func(v *visitor) { login(v); v.header.Set("Authorization", "Basic x") }, reads: true},
		"the token, not allowed":       {o: operate.PageOptions{Token: token, Allow: nobody}, as: login},
		"allowed to look":              {o: operate.PageOptions{Allow: readers}, reads: true, form: "right"},
		"allowed, no form":             {o: operate.PageOptions{Allow: everybody}, reads: true},
		"allowed, a wrong form":        {o: operate.PageOptions{Allow: everybody}, reads: true, form: "0123456789abcdefghij"},
		"allowed, no cookie":           {o: operate.PageOptions{Allow: everybody}, reads: true, form: "right without cookie"},
		"allowed, from another site":   {o: operate.PageOptions{Allow: everybody}, as: func(v *visitor) { v.header.Set("Sec-Fetch-Site", "cross-site") }, reads: true, form: "right"},
		"allowed, from another origin": {o: operate.PageOptions{Allow: everybody}, as: func(v *visitor) { v.header.Set("Origin", "https://evil.example") }, reads: true, form: "right"},
	} {
		v := visit(t, guarded, config(s), c.o)
		if c.as != nil {
			c.as(v)
		}
		secret := c.form
		if strings.HasPrefix(c.form, "right") {
			v.cookies["annals-form"] = "the secret of this browser"
			if secret = v.cookies["annals-form"]; c.form != "right" {
				delete(v.cookies, "annals-form")
			}
		}
		for _, route := range operate.PageRoutes() {
			for _, method := range []string{route[0], "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"} {
				for i, form := range changes() {
					if i > 0 && route[1] != "act" {
						break
					}
					form.Set("form", secret)
					path := strings.TrimSuffix(route[1], "{$}")
					if method != "POST" {
						path += "?id=Meter%7Ca&" + form.Encode()
					}
					w := v.send(method, path, form)
					if writes > 0 {
						t.Fatalf("%s: %s %s changes something", name, method, path)
					}
					body := w.Body.String()
					if !c.reads && (strings.Contains(body, "secret-of-the-error") || strings.Contains(body, "Meter|")) {
						t.Errorf("%s: %s %s shows something: %s", name, method, path, body)
					}
					if route[1] == "act" && method == "POST" && w.Code != http.StatusForbidden && w.Code != http.StatusUnauthorized {
						t.Errorf("%s: %v is answered with %d", name, form, w.Code)
					}
				}
			}
		}
		if w := v.get("projection?name=sums"); (w.Code == 200) != c.reads || strings.Contains(w.Body.String(), "secret-of-the-error") != c.reads {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}

// tokenCookie is the name of the cookie of those who have the token.
func tokenCookie(v *visitor) string {
	for name := range v.cookies {
		if strings.HasPrefix(name, "annals-") && name != "annals-form" {
			return name
		}
	}
	return ""
}

// Those who may act.
func TestPageActs(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	parkAll(t, s, "sums", "broken", "broken", "other")
	var log bytes.Buffer
	var asked []operate.Action
	user := func(r *http.Request) string { return r.Header.Get("X-User") }
	v := visit(t, s, config(s), operate.PageOptions{Prefix: "ops", Token: token, User: user, Logger: slog.New(slog.NewTextHandler(&log, nil)), Allow: func(_ *http.Request, a operate.Action) error {
		asked = append(asked, a)
		return nil
	}})
	if w := v.get("projection?name=sums"); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `value="projection?name=sums"`) {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if w := v.send("POST", "login", url.Values{"token": {"wrong"}, "next": {"//evil.example"}}); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "not the token") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for next, want := range map[string]string{"entity?id=a": "/ops/entity?id=a", "//evil.example/x": "/ops/", "https://evil.example": "/ops/", `/\evil.example`: "/ops/", "javascript:alert(1)": "/ops/", "..": "/ops/"} {
		if w := v.send("POST", "login", url.Values{"token": {token}, "next": {next}}); w.Code != http.StatusSeeOther || strings.TrimSuffix(w.Header().Get("Location"), "?") != strings.TrimSuffix(want, "?") {
			t.Errorf("%s: %d %s", next, w.Code, w.Header().Get("Location"))
		}
	}
	secret := v.secret(t, "sums")
	v.header.Set("X-User", "eve\u202e")
	act := func(location string, form url.Values) {
		t.Helper()
		form.Set("form", secret)
		form.Set("name", "sums")
		w := v.send("POST", "act", form)
		if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != location {
			t.Errorf("%v: %d %s %s", form, w.Code, got, w.Body)
		}
	}
	waits := func(want ...string) {
		t.Helper()
		var got []string
		for e, err := range projection.NewControl(s, "sums").Parked(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%s %v %d", e.ID, e.Retry, e.DiscardTo))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("parked are %v, want %v", got, want)
		}
	}
	act("/ops/projection?name=sums&said=paused", url.Values{"do": {"pause"}})
	if w := v.get("projection?name=sums&said=paused"); !strings.Contains(w.Body.String(), "until it is resumed") || !strings.Contains(w.Body.String(), "is paused") {
		t.Error(w.Body)
	}
	act("/ops/projection?name=sums&said=resumed", url.Values{"do": {"resume"}})
	same := map[string]string{}
	for _, m := range regexp.MustCompile(`name="same" value="([^"]+)"><button aria-label="Retry all with the error of Meter\|(.)"`).FindAllStringSubmatch(v.get("projection?name=sums").Body.String(), -1) {
		same[m[2]] = m[1]
	}
	if len(same) != 3 || same["a"] != same["b"] || same["a"] == same["c"] {
		t.Fatal(same)
	}
	act("/ops/projection?name=sums&said=retried", url.Values{"do": {"retry"}, "same": {same["a"]}})
	waits("Meter|a true 0", "Meter|b true 0", "Meter|c false 0")
	act("/ops/projection?name=sums&said=none", url.Values{"do": {"retry"}, "same": {"0123456789abcdef"}})
	discard := url.Values{"do": {"discard"}, "id": {"Meter|c"}, "to": {"1"}, "form": {secret}, "name": {"sums"}}
	if w := v.send("POST", "act", discard); w.Code != 200 || !strings.Contains(w.Body.String(), "for good?") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	waits("Meter|a true 0", "Meter|b true 0", "Meter|c false 0") // it has asked first
	discard.Set("yes", "1")
	act("/ops/projection?name=sums&said=discards", discard)
	waits("Meter|a true 0", "Meter|b true 0", "Meter|c true 1")
	for _, a := range []operate.Action{{Name: "read"}, {Name: "pause", Projection: "sums"}, {Name: "discard", Projection: "sums", ID: "Meter|c"}} {
		if !slices.Contains(asked, a) {
			t.Errorf("nobody asked whether %+v is allowed", a)
		}
	}
	if n := strings.Count(log.String(), "the page for operators changed a projection"); n != 5 || strings.Count(log.String(), `user=eve\u202e`) != n {
		t.Errorf("the log has %d changes: %s", n, &log)
	}
	if strings.Contains(log.String(), token) {
		t.Error("the log has the token")
	}
	for form, status := range map[string]int{"do=pause": 400, "do=reset&name=sums": 400, "do=discard&name=sums&id=Meter%7Ca&to=x&yes=1": 400, "do=retry&name=sums&id=Meter%7Cz": 400, "do=retry&name=none": 400, "do=pause&name=none": 400, "do=resume&name=none": 400} {
		values, err := url.ParseQuery(form + "&form=" + secret)
		if w := v.send("POST", "act", values); err != nil || w.Code != status {
			t.Errorf("%s: %d %s", form, w.Code, w.Body)
		}
	}
	if w := v.get("projection?name=none"); strings.Contains(w.Body.String(), "<button>Pause the") || !strings.Contains(v.get("projection?name=sums").Body.String(), "<button>Pause the") {
		t.Errorf("what has not been run can be paused: %s", w.Body)
	}
	v.cookies = map[string]string{}
	v.header.Set("Authorization", "Bearer "+token) // a script needs no form
	if w := v.send("POST", "act", url.Values{"do": {"retry"}, "name": {"sums"}}); w.Code != http.StatusSeeOther {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A page is for its own machine unless the options say otherwise, whatever name the browser used for it.
func TestPageIsLocal(t *testing.T) {
	t.Parallel()
	v := visit(t, memstore.New(), config(nil), operate.PageOptions{})
	for host, want := range map[string]int{"localhost": 200, "localhost:80": 200, "127.0.0.1:80": 200, "[::1]:80": 200, "evil.example": 403, "evil.example:80": 403, "10.0.0.1": 403} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Host = "[::1]:7", host
		w := httptest.NewRecorder()
		if v.page.ServeHTTP(w, r); w.Code != want {
			t.Errorf("%s: %d", host, w.Code)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr, r.Host, r.Proto, r.ProtoMinor = "127.0.0.1:7", "127.0.0.1:8080", "HTTP/1.0", 0 // as nginx sends it
	w := httptest.NewRecorder()
	if v.page.ServeHTTP(w, r); w.Code != http.StatusForbidden {
		t.Errorf("a proxy: %d", w.Code)
	}
	for _, o := range []operate.PageOptions{{Token: "short"}, {Prefix: "a/../b"}, {Prefix: "{x}"}, {Prefix: "a b"}, {Prefix: "a//b"}} {
		if _, err := operate.Handler(memstore.New(), config(nil), o); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := operate.Handler(nil, config(nil), operate.PageOptions{}); !errors.Is(err, annals.ErrInvalid) {
		t.Error(err)
	}
}
