package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"

	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/readmodel"
)

// asker is the part of a host that the service uses. entity.Runtime and aggregate.Repository implement it.
type asker interface {
	Ask(ctx context.Context, thread string, c chat.Command) (chat.View, error)
}

// api serves threads and users as JSON over HTTP.
type api struct {
	threads asker
	users   *users           // nil: the store cannot keep profiles
	reads   *readmodel.Model // nil: the store cannot be queried
	log     *slog.Logger
	routes  *http.ServeMux
}

func newAPI(threads asker, users *users, reads *readmodel.Model, log *slog.Logger) *api {
	a := &api{threads: threads, users: users, reads: reads, log: log, routes: http.NewServeMux()}
	a.routes.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, struct{}{}) })
	a.routes.HandleFunc("POST /threads", a.create)
	a.routes.HandleFunc("GET /threads/{thread}", a.show)
	a.routes.HandleFunc("GET /threads/{thread}/messages", a.list)

	type by struct{ Executor string }
	a.routes.HandleFunc("POST /threads/{thread}/rename", command(a, http.StatusOK,
		func(r *http.Request, b struct{ Executor, Name string }) chat.Command { return chat.Rename(b) }))
	a.routes.HandleFunc("POST /threads/{thread}/delete", command(a, http.StatusOK,
		func(r *http.Request, b by) chat.Command { return chat.Delete(b) }))
	a.routes.HandleFunc("POST /threads/{thread}/members", command(a, http.StatusCreated,
		func(r *http.Request, b chat.AddMember) chat.Command { return b }))
	a.routes.HandleFunc("POST /threads/{thread}/members/{account}/remove", command(a, http.StatusOK,
		func(r *http.Request, b by) chat.Command {
			return chat.RemoveMember{Executor: b.Executor, Account: r.PathValue("account")}
		}))
	a.routes.HandleFunc("POST /threads/{thread}/messages", command(a, http.StatusCreated,
		func(r *http.Request, b chat.Post) chat.Command { return b }))
	a.routes.HandleFunc("POST /threads/{thread}/messages/{message}/edit", command(a, http.StatusOK,
		func(r *http.Request, b struct{ Executor, Text string }) chat.Command {
			return chat.Edit{Executor: b.Executor, ID: r.PathValue("message"), Text: b.Text}
		}))
	a.routes.HandleFunc("POST /threads/{thread}/messages/{message}/delete", command(a, http.StatusOK,
		func(r *http.Request, b by) chat.Command {
			return chat.DeleteMessage{Executor: b.Executor, ID: r.PathValue("message")}
		}))
	a.routes.HandleFunc("POST /threads/{thread}/read", command(a, http.StatusOK,
		func(r *http.Request, b chat.MarkRead) chat.Command { return b }))
	a.userRoutes()
	a.readRoutes()
	return a
}

// ServeHTTP answers with JSON, also when no route matches.
func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	route, pattern := a.routes.Handler(r)
	if pattern != "" {
		a.routes.ServeHTTP(w, r)
		return
	}
	plain := plainAnswer{header: http.Header{}}
	route.ServeHTTP(&plain, r)
	for _, name := range []string{"Allow", "Location"} {
		if value := plain.header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	answer(w, plain.status, problem{"no-route", http.StatusText(plain.status)})
}

// plainAnswer takes the status and the header of an answer and drops its text.
type plainAnswer struct {
	header http.Header
	status int
}

func (p *plainAnswer) Header() http.Header            { return p.header }
func (p *plainAnswer) WriteHeader(status int)         { p.status = status }
func (p *plainAnswer) Write(text []byte) (int, error) { return len(text), nil }

// summary is the answer to a request that changes a thread.
type summary struct {
	Thread   string `json:"thread"`
	Name     string `json:"name"`
	Members  int    `json:"members"`
	Messages int    `json:"messages"`
}

func summarize(thread string, v chat.View) summary {
	return summary{thread, v.Name, v.Members, v.Messages}
}

// create uses the id that the caller gives, who can then repeat the request. Without an id it chooses one.
func (a *api) create(w http.ResponseWriter, r *http.Request) {
	var b struct{ ID, Executor, Name string }
	if err := decode(w, r, &b); err != nil {
		a.refuse(w, r, err)
		return
	}
	if b.ID == "" {
		b.ID = rand.Text()
	}
	v, err := a.ask(r, b.ID, chat.Create{Executor: b.Executor, Name: b.Name})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", "/threads/"+url.PathEscape(b.ID))
	answer(w, http.StatusCreated, summarize(b.ID, v))
}

func (a *api) show(w http.ResponseWriter, r *http.Request) {
	thread := r.PathValue("thread")
	v, err := a.ask(r, thread, chat.Show{Executor: r.FormValue("executor")})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	answer(w, http.StatusOK, struct {
		summary
		Roster []chat.Membership `json:"roster"`
	}{summarize(thread, v), v.Roster})
}

func (a *api) list(w http.ResponseWriter, r *http.Request) {
	after, errAfter := number(r, "after", 0)
	limit, errLimit := number(r, "limit", 100)
	if err := errors.Join(errAfter, errLimit); err != nil {
		a.refuse(w, r, err)
		return
	}
	v, err := a.ask(r, r.PathValue("thread"), chat.List{Executor: r.FormValue("executor"), After: after, Limit: limit})
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	answer(w, http.StatusOK, page{append([]chat.Listed{}, v.Page...), v.More})
}

// page is a page of messages.
type page struct {
	Messages []chat.Listed `json:"messages"`
	More     int           `json:"more,omitempty"` // the after of the next page
}

// command is the handler of a command whose body is a B.
func command[B any](a *api, status int, of func(r *http.Request, b B) chat.Command) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var b B
		if err := decode(w, r, &b); err != nil {
			a.refuse(w, r, err)
			return
		}
		thread := r.PathValue("thread")
		v, err := a.ask(r, thread, of(r, b))
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		answer(w, status, summarize(thread, v))
	}
}

// ask refuses a command that no thread could accept before an entity is loaded.
func (a *api) ask(r *http.Request, thread string, c chat.Command) (chat.View, error) {
	if !chat.ValidID(thread) {
		return chat.View{}, chat.ErrBadID
	}
	if err := chat.Check(c); err != nil {
		return chat.View{}, err
	}
	return a.threads.Ask(r.Context(), thread, c)
}

// maxBody is more bytes than the longest message needs, also if every character is escaped.
const maxBody = 64 << 10

// decode reads a body, which must be one JSON object with the Content-Type of JSON. A browser sends text/plain and forms for a page of
// any other site, so these are refused.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return errNotJSON
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &badRequest{err}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &badRequest{errors.New("something follows the JSON object")}
	}
	return nil
}

func number(r *http.Request, name string, otherwise int) (int, error) {
	text := r.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, &badRequest{errors.New(name + " is not a number")}
	}
	return n, nil
}

// answer writes v as JSON. An error is one of the connection, which the client notices.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
