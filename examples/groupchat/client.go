package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/examples/groupchat/readmodel"
)

// client sends requests to the service.
type client struct {
	url  string
	http *http.Client
}

// newClient returns a client for that many concurrent callers.
func newClient(url string, callers int) *client {
	return &client{url, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}, Timeout: time.Minute}}
}

func (c *client) close() { c.http.CloseIdleConnections() }

func (c *client) create(ctx context.Context, id, executor, name string) error {
	return c.do(ctx, http.MethodPost, "/threads", map[string]string{"id": id, "executor": executor, "name": name}, nil)
}

func (c *client) addMember(ctx context.Context, thread, executor, account string) error {
	body := chat.AddMember{Executor: executor, Account: account, Role: chat.Member}
	return c.do(ctx, http.MethodPost, "/threads/"+url.PathEscape(thread)+"/members", body, nil)
}

func (c *client) post(ctx context.Context, thread string, m chat.Post) error {
	return c.do(ctx, http.MethodPost, "/threads/"+url.PathEscape(thread)+"/messages", m, nil)
}

// show returns the state of a thread.
func (c *client) show(ctx context.Context, thread, executor string) (s summary, err error) {
	query := url.Values{"executor": {executor}}
	err = c.do(ctx, http.MethodGet, "/threads/"+url.PathEscape(thread)+"?"+query.Encode(), nil, &s)
	return s, err
}

// messages returns every message of a thread, reading page by page.
func (c *client) messages(ctx context.Context, thread, executor string) (all []chat.Listed, err error) {
	query := url.Values{"executor": {executor}, "limit": {strconv.Itoa(chat.MaxPage)}}
	for {
		var p page
		if err := c.do(ctx, http.MethodGet, "/threads/"+url.PathEscape(thread)+"/messages?"+query.Encode(), nil, &p); err != nil {
			return nil, err
		}
		all = append(all, p.Messages...)
		if p.More == 0 {
			return all, nil
		}
		query.Set("after", strconv.Itoa(p.More))
	}
}

// threads returns every thread of an account in the read model, reading page by page.
func (c *client) threads(ctx context.Context, account string) (all []readmodel.Thread, err error) {
	query := url.Values{}
	for {
		var p struct {
			Threads []readmodel.Thread
			More    string
		}
		if err := c.do(ctx, http.MethodGet, "/accounts/"+url.PathEscape(account)+"/threads?"+query.Encode(), nil, &p); err != nil {
			return nil, err
		}
		all = append(all, p.Threads...)
		if p.More == "" {
			return all, nil
		}
		query.Set("after", p.More)
	}
}

func (c *client) setName(ctx context.Context, user, name string) error {
	return c.do(ctx, http.MethodPut, "/users/"+url.PathEscape(user)+"/profile", map[string]string{"name": name}, nil)
}

func (c *client) setStatus(ctx context.Context, user string, status profile.Status) error {
	return c.do(ctx, http.MethodPut, "/users/"+url.PathEscape(user)+"/status", map[string]profile.Status{"status": status}, nil)
}

func (c *client) removeProfile(ctx context.Context, user string) error {
	return c.do(ctx, http.MethodDelete, "/users/"+url.PathEscape(user)+"/profile", nil, nil)
}

func (c *client) profile(ctx context.Context, user string) (a userAnswer, err error) {
	err = c.do(ctx, http.MethodGet, "/users/by-id/"+url.PathEscape(user), nil, &a)
	return a, err
}

func (c *client) byName(ctx context.Context, name string) (a userAnswer, err error) {
	err = c.do(ctx, http.MethodGet, "/users/by-name/"+url.PathEscape(name), nil, &a)
	return a, err
}

func (c *client) counts(ctx context.Context) (n map[profile.Status]int, err error) {
	err = c.do(ctx, http.MethodGet, "/users/counts", nil, &n)
	return n, err
}

// refusal is the error of an answer that is not a success.
type refusal struct {
	code int // of HTTP
	problem
}

func (r *refusal) Error() string { return fmt.Sprintf("the server answers %d: %s", r.code, r.Text) }

// do sends one request. An answer that is not a success is a refusal.
func (c *client) do(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		r := &refusal{code: answer.StatusCode}
		_ = json.NewDecoder(answer.Body).Decode(&r.problem) // without a problem the status has to suffice
		return r
	}
	if into == nil {
		_, err = io.Copy(io.Discard, answer.Body) // so that the connection can be used again
		return err
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
