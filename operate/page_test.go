package operate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/projection"
)

const token = "a token of sixteen or more characters"

// watched is a store that counts what is written to it.
func watched(s annals.Store, writes *int) annals.Store {
	return &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, run func() error) error {
		if c.Writes {
			*writes++
		}
		return run()
	}}
}

// parkAll has a projection with this name park the meters a and b, because of errors with these texts.
func parkAll(t *testing.T, s annals.Store, name string, texts ...string) {
	t.Helper()
	for i := range texts {
		metered(t, s, string(rune('a'+i)), 2)
	}
	source := projection.Source[added]{Store: s, Type: "Meter", Codec: meter.Events}
	r, err := projection.AtLeastOnce(name, source, s, func(_ context.Context, e projection.Envelope[added]) error {
		return errors.New(texts[e.ID.EntityID()[0]-'a'])
	}, projection.Options{Ranges: 1, ErrorText: error.Error, Logger: slog.New(slog.DiscardHandler),
		OnError: func(context.Context, projection.Failure) projection.Verdict { return projection.Park }})
	if err == nil {
		err = r.CatchUp(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// visitor sends requests to a page as a browser of this machine.
type visitor struct {
	page    http.Handler
	prefix  string
	header  http.Header
	cookies map[string]string
	remote  string
}

func visit(t *testing.T, s annals.Store, c operate.Config, o operate.PageOptions) *visitor {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	h, err := operate.Handler(s, c, o)
	if err != nil {
		t.Fatal(err)
	}
	return &visitor{page: h, prefix: "/" + strings.Trim(o.Prefix, "/"), header: http.Header{}, cookies: map[string]string{}, remote: "127.0.0.1:40000"}
}

func (v *visitor) send(method, path string, form url.Values) *httptest.ResponseRecorder {
	path = strings.TrimSuffix(v.prefix, "/") + "/" + strings.TrimPrefix(path, "/")
	r := httptest.NewRequest(method, "http://localhost:8080"+path, strings.NewReader(form.Encode()))
	r.RemoteAddr = v.remote
	maps.Copy(r.Header, v.header)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range v.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	v.page.ServeHTTP(w, r)
	result := w.Result()
	defer result.Body.Close()
	for _, c := range result.Cookies() {
		v.cookies[c.Name] = c.Value
	}
	return w
}

func (v *visitor) get(path string) *httptest.ResponseRecorder { return v.send("GET", path, nil) }

var formSecret = regexp.MustCompile(`name="form" value="([^"]+)"`)

// secret is that of the forms on the page of a projection.
func (v *visitor) secret(t *testing.T, projection string) string {
	t.Helper()
	w := v.get("projection?name=" + url.QueryEscape(projection))
	m := formSecret.FindStringSubmatch(w.Body.String())
	if m == nil {
		t.Fatalf("no form: %d %s", w.Code, w.Body)
	}
	return m[1]
}

// views are addresses of every view, about an entity and a projection.
func views(id, projection string) []string {
	id, projection = url.QueryEscape(id), url.QueryEscape(projection)
	return []string{"", "entities", "entities?search=" + id, "entities?search=" + id + "&all=1", "entities?type=" + id + "&after=" + id, "entity?id=" + id, "entity?id=" + id + "&at=1", "entity?id=" + id + "&at=2&raw=1",
		"entity?id=" + id + "&at=" + id, "entity?id=" + id + "&after=1", "projection?name=" + projection, "projection?name=" + projection + "&said=" + id, "projection?name=" + projection + "&after=" + id,
		"trace?correlation=" + id, "trace?correlation=" + id + "&since=0", "tail", "tail?after=0", "tail?after=" + id, "tail?type=" + id + "&tag=" + id, "tail/events?from=" + id, "tail/events?type=" + id + "&from=soon", "act?do=pause&name=" + projection, id, id + "/" + id}
}

// correlated is metadata with a correlation.
func correlated(text string) []byte {
	data, _ := json.Marshal(map[string]string{"correlation": text, "causation": text + "/1"})
	return data
}

// What is stored, or in an address, does nothing in the page or in the log.
func TestPageIsHarmless(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	texts := append(slices.Clone(hostile), `<i data-evil>`, `"><i data-evil>`, `'><i data-evil>`, "`<i data-evil>", `</script><i data-evil>`, `</textarea></pre><i data-evil>`, `javascript:alert(1)`, "{{.}}", `&lt;i data-evil&gt;`, strings.Repeat("x", 400))
	var log bytes.Buffer
	for _, text := range texts {
		p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: text, Data: []byte(`{"` + text + `":"` + text + `"}`)}
		events := []annals.NewEvent{{Payload: p, Tags: []string{text}, Metadata: annals.Payload{SerializerID: codec.JSONSerializer, Data: correlated(text)}}, {Payload: annals.Payload{SerializerID: 99, Manifest: text, Data: []byte(text)}}}
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: annals.PersistenceID("Meter|" + text), Events: events}); err != nil {
			t.Fatal(err)
		}
	}
	parkAll(t, s, "sums", hostile...)
	allow := func(_ *http.Request, a operate.Action) error {
		if a.Name != "read" && strings.Contains(string(a.ID), "refused") {
			return errors.New(string(a.ID))
		}
		return nil
	}
	v := visit(t, s, config(s), operate.PageOptions{Allow: allow, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	check := func(path string, w *httptest.ResponseRecorder) {
		t.Helper()
		body := w.Body.String()
		if strings.Contains(body, "<i data-evil") || strings.Count(body, "<script") > 1 || w.Code == http.StatusInternalServerError || len(body) > 1<<20 {
			t.Errorf("%q: %d, %d bytes: %.5000s", path, w.Code, len(body), body)
		}
		for _, r := range regexp.MustCompile(`(?s)<input id="(search|type|tag|after|correlation|since)".*?>|<input type="hidden" name="type".*?>`).ReplaceAllString(body, "") { // what was typed into a form stays as it is
			if r != '\n' && !strconv.IsPrint(r) {
				t.Fatalf("%q: the page has %q", path, r)
			}
		}
		if policy := w.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q: %v", path, w.Header())
		}
	}
	secret := v.secret(t, "sums")
	for _, text := range texts {
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // a stream ends at once
		for _, path := range views("Meter|"+text, text) {
			if strings.HasPrefix(path, "tail/events") {
				r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/"+path, nil)
				w := httptest.NewRecorder()
				v.page.ServeHTTP(w, r)
				check(path, w)
				continue
			}
			check(path, v.get(path))
		}
		for _, form := range changes()[1:] { // a pause of what has never run takes ten seconds
			form.Set("form", secret)
			form.Set("id", "Meter|refused"+text)
			form.Set("name", text)
			check("act", v.send("POST", "act", form))
			form.Del("yes")
			form.Set("id", text)
			check("act", v.send("POST", "act", form))
		}
	}
	long := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: strings.Repeat("<i data-evil>", 100), Data: []byte(`{"n":"` + strings.Repeat("<i data-evil>", 9<<17/13) + `"}`)}
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Other|long", Events: []annals.NewEvent{{Payload: long}, {Payload: long, Metadata: long}}}); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(views("Other|long", "sums"), views("Meter|a", "sums")...) {
		if !strings.HasPrefix(path, "tail/events") {
			check(path, v.get(path))
		}
	}
	for line := range strings.Lines(log.String()) {
		if !strings.HasPrefix(line, "time=") || strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 || len(line) > 5000 {
			t.Errorf("the log has %q", line)
		}
	}
	if log.Len() == 0 {
		t.Error("the log has nothing")
	}
}

// With HidePayloads the page shows no payload, state, metadata or text of an error.
func TestPageHides(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	p := annals.Payload{SerializerID: codec.JSONSerializer, Manifest: "added", Data: []byte(`{"n":987654}`)}
	parkAll(t, s, "sums", "the error with 987654")
	if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Meter|a", After: 2, Events: []annals.NewEvent{{Payload: p, Metadata: p}}}); err != nil {
		t.Fatal(err)
	}
	shows := func(w *httptest.ResponseRecorder) bool {
		return strings.Contains(w.Body.String(), "987654") || strings.Contains(w.Body.String(), "3938373635")
	}
	for _, path := range []string{"entity?id=Meter%7Ca", "entity?id=Meter%7Ca&at=3", "entity?id=Meter%7Ca&at=3&raw=1", "tail", "projection?name=sums", "trace?correlation=Meter%7Ca/3"} {
		c := config(s)
		if w := visit(t, s, c, operate.PageOptions{}).get(path); w.Code != 200 || !shows(w) {
			t.Errorf("%s does not show it: %d", path, w.Code)
		}
		c.HidePayloads = true
		if w := visit(t, s, c, operate.PageOptions{}).get(path); w.Code != 200 || shows(w) {
			t.Errorf("%s shows it: %d %s", path, w.Code, w.Body)
		}
	}
}

// The pages follow each other by keys, and the search finds ids with and without their types.
func TestPageLists(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	for i := range 250 {
		metered(t, s, fmt.Sprintf("%03d", i), 1)
	}
	limited(t, s, "007")
	metered(t, s, "many", 250)
	writes := 0
	v := visit(t, watched(s, &writes), config(s), operate.PageOptions{Prefix: "/a/b/"})
	next := regexp.MustCompile(`<a href="([^"]+)" rel="next"`)
	allPages := func(path, item string) (all []string) {
		for path != "" {
			w := v.get(path)
			if w.Code != 200 {
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
			for _, m := range regexp.MustCompile(item).FindAllStringSubmatch(w.Body.String(), -1) {
				all = append(all, m[1])
			}
			m := next.FindStringSubmatch(w.Body.String())
			if path = ""; m != nil {
				path = strings.ReplaceAll(m[1], "&amp;", "&")
			}
		}
		return all
	}
	const link = `<li><a href="entity\?id=([^"]+)"`
	for path, want := range map[string]int{"entities": 252, "entities?type=Meter": 251, "entities?type=Limit": 1, "entities?search=Meter%7C1": 100, "entities?search=Meter%7C1&all=1": 100, "entities?type=Meter&search=24": 10, "entities?search=007": 2, "entities?search=24&all=1": 13,
		"entities?search=none": 0, "entities?search=nothing&all=1": 0} {
		if got := allPages(path, link); len(got) != want {
			t.Errorf("%s has %d ids, want %d: %v", path, len(got), want, got)
		}
	}
	if got := allPages("entity?id=Meter%7Cmany", `<tr id="n(\d+)"`); len(got) != 250 || got[0] != "1" || got[249] != "250" {
		t.Errorf("%d events", len(got))
	}
	if got := allPages("entity?id=Meter%7Cmany&at=150", `<tr id="n(\d+)"`); len(got) != 150 || got[0] != "101" {
		t.Errorf("%d events", len(got))
	}
	if got := allPages("tail?after=0", `<tr data-key="(\d+) `); len(got) != 500 {
		t.Errorf("%d events", len(got))
	}
	if got := allPages("tail", `<tr data-key="(\d+) `); len(got) != 100 || got[0] != "250" || got[99] != "151" {
		t.Errorf("%d events: %v", len(got), got)
	}
	body := v.get("").Body.String()
	for _, want := range []string{"✓ Yes", "≥ 100", `Limit</a> 1<`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s: %s", want, body)
		}
	}
}

// What went wrong has a status, and the start page says that the store does not answer.
func TestPageFails(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	parkAll(t, s, "sums", "broken")
	fails := &faulty.Store{Store: s, Around: func(_ context.Context, c *faulty.Call, _ func() error) error { return faulty.Failed(c) }}
	v := visit(t, fails, config(s), operate.PageOptions{})
	for path, want := range map[string]int{"": 200, "entities": 503, "entity?id=Meter%7Ca": 503, "projection?name=sums": 503, "tail": 503, "none": 404, "entity": 400, "projection": 400, "entity?id=a&at=x": 400, "tail?after=soon": 400} {
		if w := v.get(path); w.Code != want || want == 200 && !strings.Contains(w.Body.String(), "the store does not answer") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	v = visit(t, s, config(s), operate.PageOptions{})
	if w := v.get("entity?id=Meter%7Ca&at=9"); w.Code != 200 || !strings.Contains(w.Body.String(), "above the last one") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := v.get(""); w.Code != 200 || !strings.Contains(w.Body.String(), "✗ No") || !strings.Contains(w.Body.String(), "1 parked") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := v.get("page.js"); w.Code != 200 || w.Header().Get("Content-Type") != "text/javascript; charset=utf-8" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}
