package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Whatever a client sends, no store makes it the server's fault.
func TestOddInputs(t *testing.T) {
	t.Parallel()
	stores := profileStores(t)
	stores["mem"] = "mem:"
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			oddInputs(t, serveUsers(t, store))
		})
	}
}

func oddInputs(t *testing.T, c *client) {
	for _, odd := range []string{
		"\x00", "a\x00b", "\x01", "\x7f", "\xff", "\xed\xa0\x80", "a\xc0\x80", "|", "a|b", "%", "%00", "a\nb", " ", "\u202e", "\ufffd", "\U0010ffff", "'; --",
		"é", "e\u0301", "..", "a/b", "_0", strings.Repeat("x", 100), strings.Repeat("é", 50), strings.Repeat("x", 4000), strings.Repeat("x", 10_000),
		"9223372036854775808", "-1", "1e9",
	} {
		path, query := url.PathEscape(odd), url.QueryEscape(odd)
		for _, request := range []string{
			"POST /threads id executor name", "GET /threads/" + path + "?executor=" + query, "GET /threads/t?executor=" + query,
			"POST /threads/" + path + "/rename executor name", "POST /threads/" + path + "/delete executor",
			"POST /threads/" + path + "/members executor account role", "POST /threads/" + path + "/members/" + path + "/remove executor",
			"POST /threads/" + path + "/messages executor id text", "POST /threads/" + path + "/messages/" + path + "/edit executor text",
			"POST /threads/" + path + "/messages/" + path + "/delete executor",
			"GET /threads/" + path + "/messages?executor=" + query + "&after=" + query + "&limit=" + query,
			"GET /threads/t/messages?executor=ann&after=" + query, "GET /threads/t/messages?executor=ann&limit=" + query,
			"POST /threads/t/read executor", "GET /accounts/" + path + "/threads?after=" + query + "&limit=" + query, "GET /accounts/ann/threads?after=" + query,
			"GET /accounts/" + path + "/unread", "GET /accounts/ann/threads/" + path, "GET /accounts/ann/threads/" + path + "/members?after=" + query,
			"GET /accounts/ann/threads/t/messages?after=" + query, "GET /accounts/ann/threads/t/messages?limit=" + query,
			"PUT /users/" + path + "/profile name", "PUT /users/u/profile name", "PUT /users/" + path + "/status status", "PUT /users/u/status status",
			"GET /users/by-id/" + path, "GET /users/by-name/" + path, "DELETE /users/" + path + "/profile",
		} {
			words := strings.Fields(request)
			body := map[string]string{}
			for _, field := range words[2:] {
				body[field] = odd
			}
			var sent any
			if len(body) > 0 {
				sent = body
			}
			err := c.do(t.Context(), words[0], words[1], sent, nil)
			var r *refusal
			switch {
			case errors.As(err, &r) && (r.code < http.StatusInternalServerError || r.Code == "no-profiles" || r.Code == "no-read-model"):
			case err != nil:
				t.Errorf("%s %.40q with %.40q: %v", words[0], words[1], fmt.Sprint(body), err)
			}
		}
	}
}

// What is not JSON, or not the JSON that is wanted, is a bad request.
func TestOddBodies(t *testing.T) {
	t.Parallel()
	service := serveMemory(t)
	for _, body := range []string{"null", "1", `"x"`, "[]", "{", "{}", `{"id":1}`, `{"id":null}`, `{"id":{}}`, `{"ID":"a","id":"b"}`, "\xff", `{"id":"\xff"}`, "{} {}", strings.Repeat("[", 60_000)} {
		for _, path := range []string{"/threads", "/threads/t/rename", "/threads/t/messages", "/threads/t/members"} {
			if status, answer, _ := ask(t, service, "POST "+path, body); status < 400 || status > 499 || !json.Valid([]byte(answer)) {
				t.Errorf("%s %.40q: %d %s", path, body, status, answer)
			}
		}
	}
}
