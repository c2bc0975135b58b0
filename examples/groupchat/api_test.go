package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/memstore"
)

// threadsFunc is an asker made of a function.
type threadsFunc func(ctx context.Context, thread string, c chat.Command) (chat.View, error)

func (f threadsFunc) Ask(ctx context.Context, thread string, c chat.Command) (chat.View, error) {
	return f(ctx, thread, c)
}

func serveThreads(t *testing.T, threads asker) *httptest.Server {
	t.Helper()
	service := httptest.NewServer(newAPI(threads, nil, nil, slog.New(slog.DiscardHandler)))
	t.Cleanup(service.Close)
	return service
}

func serveMemory(t *testing.T) *httptest.Server {
	t.Helper()
	threads, err := entity.New(memstore.New(), chat.Behavior, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := threads.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return serveThreads(t, threads)
}

// blocking is a store whose writes to one thread block until release is closed.
type blocking struct {
	*memstore.Store
	thread           annals.PersistenceID
	blocked, release chan struct{}
}

func (b blocking) Journal() annals.Journal { return blockingJournal{b.Store.Journal(), b} }

type blockingJournal struct {
	annals.Journal
	in blocking
}

func (j blockingJournal) Append(ctx context.Context, c annals.Commit) (annals.Receipt, error) {
	if c.ID == j.in.thread {
		close(j.in.blocked)
		<-j.in.release
	}
	return j.Journal.Append(ctx, c)
}

// A thread whose write takes long does not stop other threads: there is no lock for all of them.
func TestThreadsDoNotWait(t *testing.T) {
	t.Parallel()
	store := blocking{memstore.New(), chat.Behavior.ID("slow"), make(chan struct{}), make(chan struct{})}
	threads, err := entity.New(store, chat.Behavior, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	service := serveThreads(t, threads)
	c := newClient(service.URL, 2)
	slow := make(chan error, 1)
	go func() { slow <- c.create(t.Context(), "slow", "ann", "slow") }()
	<-store.blocked
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := c.create(ctx, "fast", "ann", "fast"); err != nil {
		t.Error(err)
	}
	select {
	case err := <-slow:
		t.Errorf("the slow thread has answered: %v", err)
	default:
	}
	close(store.release)
	if err := errors.Join(<-slow, threads.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
}

// ask sends "METHOD path" with a body and returns the status and the text of the answer.
func ask(t *testing.T, service *httptest.Server, request, body string) (int, string, http.Header) {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequestWithContext(t.Context(), method, service.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	answer, err := service.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := answer.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("%s: Content-Type %q", request, got)
	}
	return answer.StatusCode, strings.TrimSpace(string(text)), answer.Header
}

// A thread's life, request by request.
func TestAPI(t *testing.T) {
	t.Parallel()
	service := serveMemory(t)
	for _, c := range []struct {
		request, body string
		status        int
		answer        string
	}{
		{"GET /health", ``, 200, `{}`},
		{"POST /threads", `{"id":"t","executor":"ann","name":"go"}`, 201, `{"thread":"t","name":"go","members":1,"messages":0}`},
		{"POST /threads", `{"id":"t","executor":"ann","name":"go"}`, 409, `{"error":"thread-exists","message":"the thread exists already"}`},
		{"POST /threads/t/rename", `{"executor":"ann","name":"golang"}`, 200, `{"thread":"t","name":"golang","members":1,"messages":0}`},
		{"POST /threads/t/rename", `{"executor":"ann","name":"golang"}`, 409, `{"error":"same-name","message":"the thread has that name already"}`},
		{"POST /threads/t/members", `{"executor":"ann","account":"bob","role":"member"}`, 201, `{"thread":"t","name":"golang","members":2,"messages":0}`},
		{"POST /threads/t/rename", `{"executor":"bob","name":"x"}`, 422, `{"error":"not-admin","message":"the executor is no administrator of the thread"}`},
		{"POST /threads/t/messages", `{"executor":"bob","id":"m-1","text":"hi"}`, 201, `{"thread":"t","name":"golang","members":2,"messages":1}`},
		{"POST /threads/t/messages", `{"executor":"bob","id":"m-1","text":"hi"}`, 201, `{"thread":"t","name":"golang","members":2,"messages":1}`},
		{"POST /threads/t/messages", `{"executor":"ann","id":"m/2","text":"hello"}`, 201, `{"thread":"t","name":"golang","members":2,"messages":2}`},
		{"POST /threads/t/messages/m%2F2/edit", `{"executor":"ann","text":"hello bob"}`, 200, `{"thread":"t","name":"golang","members":2,"messages":2}`},
		{"GET /threads/t?executor=bob", ``, 200, `{"thread":"t","name":"golang","members":2,"messages":2,"roster":[{"account":"ann","role":"admin"},{"account":"bob","role":"member"}]}`},
		{"GET /threads/t/messages?executor=bob&limit=1", ``, 200, `{"messages":[{"position":1,"id":"m-1","sender":"bob","text":"hi"}],"more":1}`},
		{"GET /threads/t/messages?executor=bob&after=1", ``, 200, `{"messages":[{"position":2,"id":"m/2","sender":"ann","text":"hello bob","edited":true}]}`},
		{"GET /threads/t/messages?executor=bob&after=2", ``, 200, `{"messages":[]}`},
		{"POST /threads/t/messages/m-1/delete", `{"executor":"bob"}`, 200, `{"thread":"t","name":"golang","members":2,"messages":2}`},
		{"POST /threads/t/messages/m-1/edit", `{"executor":"bob","text":"x"}`, 404, `{"error":"no-message","message":"there is no such message"}`},
		{"POST /threads/t/members/bob/remove", `{"executor":"ann"}`, 200, `{"thread":"t","name":"golang","members":1,"messages":2}`},
		{"POST /threads/t/delete", `{"executor":"ann"}`, 200, `{"thread":"t","name":"golang","members":1,"messages":2}`},
		{"GET /threads/t?executor=ann", ``, 404, `{"error":"thread-deleted","message":"the thread has been deleted"}`},
	} {
		status, answer, _ := ask(t, service, c.request, c.body)
		if status != c.status || answer != c.answer {
			t.Errorf("%s %s\n got %d %s\nwant %d %s", c.request, c.body, status, answer, c.status, c.answer)
		}
	}
}

func TestAPIChoosesThreadID(t *testing.T) {
	t.Parallel()
	service := serveMemory(t)
	status, _, header := ask(t, service, "POST /threads", `{"executor":"ann","name":"go"}`)
	where := header.Get("Location")
	if status != 201 || !strings.HasPrefix(where, "/threads/") || len(where) < 20 {
		t.Fatalf("status %d, Location %q", status, where)
	}
	if status, answer, _ := ask(t, service, "GET "+where+"?executor=ann", ""); status != 200 {
		t.Errorf("%s: %d %s", where, status, answer)
	}
}

func TestAPIRefusesBadRequests(t *testing.T) {
	t.Parallel()
	unasked := threadsFunc(func(_ context.Context, thread string, c chat.Command) (chat.View, error) {
		t.Errorf("thread %q was asked %#v", thread, c)
		return chat.View{}, nil
	})
	service := serveThreads(t, unasked)
	for _, c := range []struct {
		request, body string
		status        int
		code          string
	}{
		{"POST /threads", ``, 415, "no-json"},
		{"POST /threads", `{`, 400, "bad-request"},
		{"POST /threads", `[]`, 400, "bad-request"},
		{"POST /threads", `{"executor":"ann","name":"go"} {}`, 400, "bad-request"},
		{"POST /threads", `{"executor":"ann","name":"go","colour":"red"}`, 400, "bad-request"},
		{"POST /threads", `{"executor":"ann","name":7}`, 400, "bad-request"},
		{"POST /threads", `{"executor":"ann"}`, 400, "bad-name"},
		{"POST /threads", `{"name":"go"}`, 400, "bad-id"},
		{"POST /threads", `{"id":"a\nb","executor":"ann","name":"go"}`, 400, "bad-id"},
		{"POST /threads", `{"name":"` + strings.Repeat("x", maxBody) + `"}`, 413, "too-large"},
		{"POST /threads/%00/rename", `{"executor":"ann","name":"go"}`, 400, "bad-id"},
		{"POST /threads/t/members", `{"executor":"ann","account":"bob"}`, 400, "bad-role"},
		{"POST /threads/t/messages", `{"executor":"ann","id":"m","text":""}`, 400, "bad-text"},
		{"GET /threads/t", ``, 400, "bad-id"},
		{"GET /threads/t/messages?executor=ann&limit=many", ``, 400, "bad-request"},
		{"GET /threads/t/messages?executor=ann&after=-1", ``, 400, "bad-page"},
		{"POST /threads/t/messages", `{"executor":"ann","id":"m","text":"a\u0000b"}`, 400, "bad-text"},
		{"GET /", ``, 404, "no-route"},
		{"GET /threads", ``, 405, "no-route"},
		{"DELETE /threads/t", ``, 405, "no-route"},
	} {
		status, answer, header := ask(t, service, c.request, c.body)
		if status != c.status || !strings.Contains(answer, `"error":"`+c.code+`"`) {
			t.Errorf("%s %.60s: got %d %s, want %d %s", c.request, c.body, status, answer, c.status, c.code)
		}
		if status == 405 && header.Get("Allow") == "" {
			t.Errorf("%s: no Allow header", c.request)
		}
	}
}

// A browser sends these for a page of any site, without asking.
func TestAPIWantsJSON(t *testing.T) {
	t.Parallel()
	service := serveMemory(t)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json-seq", "/"} {
		if got := postAs(t, service, kind); got != http.StatusUnsupportedMediaType {
			t.Errorf("%q: %d", kind, got)
		}
	}
	for _, step := range []struct {
		kind   string
		status int
	}{{"application/json", 201}, {"Application/JSON; charset=utf-8", 409}} {
		if got := postAs(t, service, step.kind); got != step.status {
			t.Errorf("%q: %d, want %d", step.kind, got, step.status)
		}
	}
}

// postAs creates a thread with a body of the kind, and returns the status.
func postAs(t *testing.T, service *httptest.Server, kind string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, service.URL+"/threads", strings.NewReader(`{"id":"t","executor":"ann","name":"go"}`))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	answer, err := service.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

func TestAPIExplainsFailures(t *testing.T) {
	t.Parallel()
	driver := errors.New("dial tcp 10.0.0.1: password is hunter2")
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{&annals.Error{Op: "append", Kind: annals.ErrConflict}, 503, "unavailable"},
		{&annals.Error{Op: "append", Kind: annals.ErrUnknown, Err: driver}, 503, "unknown"},
		{&annals.Error{Op: "append", Kind: annals.ErrUnavailable, Err: driver}, 503, "unavailable"},
		{&annals.Error{Op: "ask", Kind: annals.ErrClosed}, 503, "unavailable"},
		{&annals.Error{Op: "ask", Kind: annals.ErrOverloaded}, 503, "unavailable"},
		{&annals.Error{Op: "recover", Kind: annals.ErrCorrupt, Err: driver}, 500, "internal"},
		{driver, 500, "internal"},
	} {
		var log bytes.Buffer
		service := httptest.NewServer(newAPI(threadsFunc(func(context.Context, string, chat.Command) (chat.View, error) {
			return chat.View{}, c.err
		}), nil, nil, slog.New(slog.NewTextHandler(&log, nil))))
		status, answer, header := ask(t, service, "POST /threads/t/delete", `{"executor":"ann"}`)
		service.Close()
		if status != c.status || !strings.Contains(answer, c.code) || strings.Contains(answer, "hunter2") {
			t.Errorf("%v: got %d %s, want %d %s", c.err, status, answer, c.status, c.code)
		}
		if again := header.Get("Retry-After") != ""; again != (status == 503) {
			t.Errorf("%v: Retry-After is %v", c.err, again)
		}
		if logged := log.Len() > 0; logged != (status >= 500) {
			t.Errorf("%v: log is %q", c.err, log.String())
		}
	}
}

// Every rejection of the domain has an answer of its own, and none is the server's fault.
func TestAPIExplainsRejections(t *testing.T) {
	t.Parallel()
	for rejection, status := range statuses {
		got, p := explain(rejection)
		if got != status || p.Code != rejection.Code || p.Text == "" {
			t.Errorf("%s: %d %+v", rejection.Code, got, p)
		}
	}
	for _, rule := range []*chat.Rejection{chat.ErrNotMember, chat.ErrNotAdmin, chat.ErrNotSender, chat.ErrLastAdmin} {
		if got, p := explain(rule); got != http.StatusUnprocessableEntity || p.Code != rule.Code {
			t.Errorf("%s: %d %+v", rule.Code, got, p)
		}
	}
}
