package operate_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals/internal/faulty"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/operate"
	"github.com/annals-go/annals/projection"
)

// piped is an http.ResponseWriter whose body is read while it is written.
type piped struct {
	*io.PipeWriter
	header http.Header
}

func (p piped) Header() http.Header { return p.header }

func (piped) WriteHeader(int) {}

func (piped) Flush() {}

// sent is a server-sent event.
type sent struct{ kind, id, data string }

// openStream asks for a stream, which it returns event by event, and "" when it has ended.
func openStream(ctx context.Context, t *testing.T, page http.Handler, path string, header map[string]string) (next func() sent) {
	t.Helper()
	r, w := io.Pipe()
	request := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/"+path, nil)
	request.RemoteAddr = "127.0.0.1:4"
	request.Header.Set("Accept", "text/event-stream")
	for name, value := range header {
		request.Header.Set(name, value)
	}
	go func() {
		page.ServeHTTP(piped{w, http.Header{}}, request)
		_ = w.Close()
	}()
	lines := bufio.NewReader(r)
	return func() (e sent) {
		for {
			text, err := lines.ReadString('\n')
			field, value, _ := strings.Cut(strings.TrimSuffix(text, "\n"), ": ")
			switch {
			case err != nil, field == "" && e.kind != "":
				return e
			case field == "event":
				e.kind = value
			case field == "id":
				e.id = value
			case field == "data":
				if err := json.Unmarshal([]byte(value), &e.data); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// New events come as rows, and a browser that asks again gets those that it has missed.
func TestPageFollowsEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		metered(t, s, "a", 2)
		v := visit(t, s, config(s), operate.PageOptions{})
		body := v.get("tail").Body.String()
		_, stream, _ := strings.Cut(body, `data-stream="`)
		stream, _, _ = strings.Cut(stream, `"`)
		stream = strings.ReplaceAll(stream, "&amp;", "&")
		began := time.Now()
		next := openStream(t.Context(), t, v.page, stream, nil)
		metered(t, s, "<b>", 1)
		e := next()
		for e.data == "" { // the place has moved
			e = next()
		}
		if e.kind != "rows" || !strings.Contains(e.data, "Meter|&lt;b&gt;") || strings.Contains(e.data, "Meter|a") || strings.Count(e.data, "<tr") != 1 {
			t.Errorf("%+v", e)
		}
		last := e.id
		for e.kind != "" { // no browser is followed for longer than half a minute
			if e.id != "" {
				last = e.id
			}
			e = next()
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("the stream ended after %s", took)
		}
		metered(t, s, "later", 1)
		ctx, stop := context.WithCancel(t.Context())
		next = openStream(ctx, t, v.page, stream, map[string]string{"Last-Event-ID": last})
		if e := next(); !strings.Contains(e.data, "Meter|later") || strings.Contains(e.data, "&lt;b") {
			t.Errorf("%+v", e)
		}
		stop()
		for e := next(); e.kind != ""; {
			e = next()
		}
	})
}

// A page is sent again when it has changed, and not when it has not.
func TestPageRefreshes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		parkAll(t, s, "sums", "broken")
		v := visit(t, s, config(s), operate.PageOptions{})
		next := openStream(t.Context(), t, v.page, "projection?name=sums", nil)
		if e := next(); e.kind != "page" || !strings.Contains(e.data, "broken") || strings.Contains(e.data, "<html") || strings.Contains(e.data, "is paused") {
			t.Errorf("%+v", e)
		}
		time.Sleep(12 * time.Second)
		if err := projection.NewControl(s, "sums").Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := next(); e.kind != "page" || !strings.Contains(e.data, "is paused") {
			t.Errorf("%+v", e)
		}
		for e := next(); e.kind != ""; e = next() {
			if e.kind == "page" {
				t.Errorf("nothing has changed: %+v", e)
			}
		}
	})
}

// A stream that ends while the store is asked does not say that the store does not answer.
func TestStreamEndsWithoutAlarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &faulty.Store{Store: memstore.New(), Around: func(ctx context.Context, _ *faulty.Call, run func() error) error {
			select {
			case <-time.After(7 * time.Second):
				return run()
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		v := visit(t, slow, config(slow), operate.PageOptions{})
		next := openStream(t.Context(), t, v.page, "", nil)
		for e := next(); e.kind != ""; e = next() {
			if strings.Contains(e.data, "does not answer") {
				t.Errorf("%+v", e)
			}
		}
	})
}

// pipes are connections to a server.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

// connect serves page, and returns a client of it and the times after which requests were answered. Both are part of a bubble.
func connect(t *testing.T, page http.Handler, set func(*http.Protocols, bool)) (client *http.Client, took chan time.Duration) {
	listener, protocols, took := pipes(make(chan net.Conn)), new(http.Protocols), make(chan time.Duration, 10)
	set(protocols, true)
	server := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		page.ServeHTTP(w, r)
		took <- time.Since(began)
	})}
	go func() { _ = server.Serve(listener) }()
	transport := &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		listener <- theirs
		return ours, nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return &http.Client{Transport: transport}, took
}

// stream asks for a stream of the page.
func stream(t *testing.T, client *http.Client, path string) io.ReadCloser {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://page/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response.Body
}

// A stream in which nothing happens for a long time ends as it should, with each version of HTTP, and at once when the browser leaves. A browser that does
// not read holds it up for ten seconds.
func TestPageStreamsEnd(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*http.Protocols, bool){"HTTP/1.1": (*http.Protocols).SetHTTP1, "HTTP/2": (*http.Protocols).SetUnencryptedHTTP2} {
		synctest.Test(t, func(t *testing.T) {
			s := memstore.New()
			parkAll(t, s, "sums", "broken")
			page, err := operate.Handler(s, config(s), operate.PageOptions{Token: token, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			client, took := connect(t, page, set)
			quiet := stream(t, client, "projection?name=sums")
			body, err := io.ReadAll(quiet)
			if d := <-took; err != nil || d != 30*time.Second || strings.Count(string(body), "event: page") != 1 {
				t.Errorf("%s: after %s: %v: %.200s", name, d, err, body)
			}
			left := stream(t, client, "projection?name=sums")
			time.Sleep(3 * time.Second)
			left.Close()
			if d := <-took; d != 3*time.Second && d != 3050*time.Millisecond { // since Go 1.27 a client reads for 50 ms more
				t.Errorf("%s: a browser that leaves is followed for %s", name, d)
			}
			if name == "HTTP/2" {
				return // its client keeps some megabytes
			}
			metered(t, s, "many", 250)
			unread := stream(t, client, "tail/events?from=0")
			if d := <-took; d != 10*time.Second {
				t.Errorf("%s: a browser that does not read is followed for %s", name, d)
			}
			unread.Close()
		})
	}
}

// Only so many browsers are followed.
func TestPageStreamsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := visit(t, memstore.New(), config(nil), operate.PageOptions{})
		ctx, stop := context.WithCancel(t.Context())
		var all []func() sent
		for range 100 {
			all = append(all, openStream(ctx, t, v.page, "", nil))
		}
		for _, next := range all {
			if next().kind != "page" {
				t.Error("a stream has no page")
			}
		}
		v.header.Set("Accept", "text/event-stream")
		if w := v.get(""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		stop()
		for _, next := range all {
			for e := next(); e.kind != ""; {
				e = next()
			}
		}
	})
}

// serve prints the address, which works in a browser, until it is interrupted.
func TestServe(t *testing.T) {
	t.Parallel()
	s := memstore.New()
	parkAll(t, s, "sums", "broken")
	for _, args := range [][]string{nil, {"--allow-changes", "--prefix", "ops"}, {"--user-header", "X-User"}, {"--user-header", "X-User", "--allow-changes"}} {
		ctx, interrupt := context.WithCancel(t.Context())
		r, w := io.Pipe()
		ended := make(chan int)
		var log bytes.Buffer
		go func() {
			c := operate.Command(config(s))
			c.SetOut(w)
			c.SetErr(&log)
			c.SetArgs(append([]string{"--store", "mem:", "serve"}, args...))
			ended <- operate.ExitStatus(c.ExecuteContext(ctx))
			_ = w.Close()
		}()
		line, err := bufio.NewReader(r).ReadString('\n')
		if err != nil {
			t.Fatal(err, &log)
		}
		address, token, hasToken := strings.Cut(strings.TrimSpace(line), "#token=")
		if !strings.HasPrefix(address, "http://127.0.0.1:") || hasToken != (len(args) < 2 || args[0] != "--user-header") || args != nil && args[0] == "--allow-changes" && !strings.HasSuffix(address, "/ops/") {
			t.Errorf("%q prints %s", args, line)
		}
		open := func(path, header, value string) *http.Response {
			t.Helper()
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set(header, value)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			return response
		}
		get := func(path, header, value string) (int, string) {
			t.Helper()
			response := open(path, header, value)
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, string(body)
		}
		header, value := "Authorization", "Bearer "+token
		if !hasToken {
			header, value = "X-User", "eve"
		}
		if status, body := get("", "X-None", ""); status == 200 || strings.Contains(body, "sums") {
			t.Errorf("%q: everybody may look: %d", args, status)
		}
		status, body := get("projection?name=sums", header, value)
		if may := strings.Contains(body, "Retry all"); status != 200 || !strings.Contains(body, "broken") || may != (slices.Contains(args, "--allow-changes")) {
			t.Errorf("%q: %d, acts: %v: %s", args, status, may, body)
		}
		secret := strings.Repeat("s", 32)
		act, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"act", strings.NewReader(url.Values{"do": {"retry"}, "name": {"sums"}, "form": {secret}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		act.Header = http.Header{header: {value}, "Content-Type": {"application/x-www-form-urlencoded"}, "Cookie": {"annals-form=" + secret}}
		response, err := http.DefaultClient.Do(act)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		stream := open("tail/events?from=0", header, value)
		interrupt() // which ends streams, too: it waits ten seconds at most
		status = <-ended
		stream.Body.Close()
		if status != 0 {
			t.Errorf("%q ends with %d: %s", args, status, &log)
		}
		// Who acts, or tries to, is in the log.
		level, who := "WARN", ""
		if slices.Contains(args, "--allow-changes") {
			level = "INFO"
		}
		if !hasToken {
			who = " user=eve"
		}
		if !regexp.MustCompile(`level=` + level + `.* action=retry projection=sums id="" from=[0-9.:]+` + who + `( error|\n)`).MatchString(log.String()) {
			t.Errorf("%q logs %s", args, &log)
		}
	}
	for _, args := range [][]string{{"serve", "x"}, {"serve", "--listen", "nowhere.invalid:http"}, {"serve", "--prefix", "a b"}} {
		if o := run(t, config(s), args...); o.status != 3 {
			t.Errorf("%q: %+v", args, o)
		}
	}
}
