package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/annals-go/annals/examples/groupchat/profile"
	"github.com/annals-go/annals/internal/random"
	"github.com/annals-go/annals/internal/servers/postgres"
)

func sqliteIn(dir string) string { return sqliteURL(filepath.Join(dir, "chat.db")) }

// serveUsers serves from a store until the test ends.
func serveUsers(t *testing.T, store string) *client {
	t.Helper()
	url, stop := serving(t, store)
	c := newClient(url, 16)
	t.Cleanup(func() {
		c.close()
		if err := stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return c
}

// A profile's life, request by request.
func TestUsers(t *testing.T) {
	t.Parallel()
	for name, store := range profileStores(t) {
		t.Run(name, func(t *testing.T) { profileLife(t, serveUsers(t, store)) })
	}
}

// profileStores are the URLs of empty stores that keep profiles.
func profileStores(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{"sqlite": sqliteIn(t.TempDir()), "postgres": postgres.Schema(t), "dynamodb": dynamoDB(t)}
}

func profileLife(t *testing.T, c *client) {
	do := func(method, path string, body any) func() error {
		return func() error { return c.do(t.Context(), method, path, body, nil) }
	}
	name := func(name string) any { return map[string]string{"name": name} }
	status := func(status string) any { return map[string]string{"status": status} }
	for i, step := range []struct {
		do   func() error
		code int // 0 is success
		why  string
	}{
		{do("PUT", "/users/u1/status", status("away")), 404, "no-profile"},
		{do("GET", "/users/by-id/u1", nil), 404, "no-profile"},
		{do("GET", "/users/by-name/ann", nil), 404, "no-profile"},
		{do("DELETE", "/users/u1/profile", nil), 404, "no-profile"},
		{do("PUT", "/users/u1/profile", name("")), 400, "bad-name"},
		{do("PUT", "/users/u1/profile", name(strings.Repeat("x", 101))), 400, "bad-name"},
		{do("PUT", "/users/%00/profile", name("ann")), 400, "bad-id"},
		{do("PUT", "/users/u1/profile", map[string]int{"age": 7}), 400, "bad-request"},
		{do("PUT", "/users/u1/profile", name("ann")), 0, ""},
		{do("PUT", "/users/u1/profile", name("ann")), 0, ""},
		{do("PUT", "/users/u2/profile", name("ann")), 409, "name-taken"},
		{do("PUT", "/users/u2/profile", name("bob")), 0, ""},
		{do("PUT", "/users/u2/profile", name("ann")), 409, "name-taken"},
		{do("PUT", "/users/u2/status", status("asleep")), 400, "bad-status"},
		{do("PUT", "/users/u2/status", status("away")), 0, ""},
		{do("DELETE", "/users/u1/profile", nil), 0, ""},
		{do("GET", "/users/by-name/ann", nil), 404, "no-profile"},
		{do("PUT", "/users/u2/profile", name("ann")), 0, ""}, // it is free again
		{do("GET", "/users/by-name/bob", nil), 404, "no-profile"},
		{do("PUT", "/users/counts/profile", name("with space/and slash")), 0, ""},
	} {
		err := step.do()
		r := (*refusal)(nil)
		if errors.As(err, &r) != (step.code != 0) || r == nil && err != nil || r != nil && (r.code != step.code || r.Code != step.why) {
			t.Errorf("step %d: %v, want %d %s", i+1, err, step.code, step.why)
		}
	}
	if found, err := c.byName(t.Context(), "with space/and slash"); err != nil || found.User != "counts" {
		t.Errorf("found %+v, %v", found, err)
	}
	if got, err := c.byName(t.Context(), "ann"); err != nil || got != (userAnswer{"u2", profile.Profile{Name: "ann", Status: profile.Away}}) {
		t.Errorf("ann is %+v, %v", got, err)
	}
	wantCounts(t, c, map[profile.Status]int{profile.Active: 1, profile.Away: 1, profile.Left: 0})
}

func wantCounts(t *testing.T, c *client, want map[profile.Status]int) {
	t.Helper()
	if got, err := c.counts(t.Context()); err != nil || !maps.Equal(got, want) {
		t.Errorf("counts %v, %v, want %v", got, err, want)
	}
}

// A store that cannot hold names unique says so, and serves everything else.
func TestUsersUnsupported(t *testing.T) {
	t.Parallel()
	service := serveMemory(t)
	for _, request := range []string{"PUT /users/u/profile", "PUT /users/u/status", "DELETE /users/u/profile", "GET /users/by-id/u",
		"GET /users/by-name/n", "GET /users/counts"} {
		status, text, header := ask(t, service, request, `{"name":"ann"}`)
		if status != http.StatusNotImplemented || !strings.Contains(text, `"no-profiles"`) || header.Get("Retry-After") != "" {
			t.Errorf("%s: %d %s", request, status, text)
		}
	}
}

// Of many users who want a name at the same time one gets it.
func TestUniqueName(t *testing.T) {
	t.Parallel()
	for name, store := range profileStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			uniqueName(t, serveUsers(t, store))
		})
	}
}

func uniqueName(t *testing.T, c *client) {
	for round := range 10 {
		name := fmt.Sprintf("name-%d", round)
		var winners, losers atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				switch err := c.setName(t.Context(), fmt.Sprintf("user-%d-%d", round, i), name); {
				case err == nil:
					winners.Add(1)
				case answered(err, http.StatusConflict):
					losers.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if winners.Load() != 1 || losers.Load() != 7 {
			t.Errorf("%s: %d have it, %d were refused", name, winners.Load(), losers.Load())
		}
	}
	wantCounts(t, c, map[profile.Status]int{profile.Active: 10, profile.Away: 0, profile.Left: 0})
}

// Two servers change the same profiles, some names are wanted by all, and both are killed in the middle: every change is
// counted exactly once.
func TestCountsSurviveKill(t *testing.T) {
	t.Setenv(asProgram, "1")
	for name, store := range profileStores(t) {
		t.Run(name, func(t *testing.T) { countsSurviveKill(t, store) })
	}
}

func countsSurviveKill(t *testing.T, store string) {
	const workers, enough = 8, 350 // per life; there are two
	var accepted, refused int
	var owners []*owner
	r := random.New(t)
	for i := range workers {
		owners = append(owners, &owner{random: r, user: fmt.Sprintf("own-%d", i)})
	}
	for range 2 {
		var servers []*child
		var clients []*client
		for range 2 {
			server, err := start(t.Context(), store, "")
			if err != nil {
				t.Fatal(err)
			}
			defer server.end()
			servers, clients = append(servers, server), append(clients, newClient(server.url, workers))
		}
		for _, o := range owners {
			o.look(t, clients[0])
		}
		a, r := change(t, clients, owners, enough, func() error { return errors.Join(servers[0].kill(), servers[1].kill()) })
		accepted, refused = accepted+a, refused+r
	}
	if accepted < 2*enough || refused == 0 {
		t.Fatalf("%d changes were accepted, %d refused: that is no test", accepted, refused)
	}

	server, err := start(t.Context(), store, "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.end()
	c := newClient(server.url, 1)
	want := map[profile.Status]int{profile.Active: 0, profile.Away: 0, profile.Left: 0}
	names := map[string]string{}
	all := slices.Clone(shared)
	for _, o := range owners {
		o.look(t, c)
		all = append(all, o.user)
	}
	for _, user := range all {
		got, err := c.profile(t.Context(), user)
		if err != nil && !missing(err) {
			t.Fatal(err)
		}
		if got.Name == "" {
			continue
		}
		want[got.Status]++
		if other := names[got.Name]; other != "" {
			t.Errorf("%s and %s have the name %s", user, other, got.Name)
		}
		names[got.Name] = user
		if found, err := c.byName(t.Context(), got.Name); err != nil || found.User != user {
			t.Errorf("%s is found as the name of %q, %v, want %s", got.Name, found.User, err, user)
		}
	}
	wantCounts(t, c, want)
	c.close()
	if err := server.stop(); err != nil {
		t.Error(err)
	}
	t.Logf("%d changes accepted, %d refused, %v", accepted, refused, want)
}

// shared are users whom all workers change.
var shared = []string{"shared-1", "shared-2", "shared-3"}

// owner is a user whom one worker changes, always through one server, and what it knows.
type owner struct {
	random  *random.Source
	user    string
	is      profile.Profile // acknowledged
	would   profile.Profile // what the change without an answer would make it
	pending bool
}

// look demands that the profile is as acknowledged, or as the change without an answer would make it.
func (o *owner) look(t *testing.T, c *client) {
	t.Helper()
	got, err := c.profile(t.Context(), o.user)
	if err != nil && !missing(err) {
		t.Fatal(err)
	}
	if got.Profile != o.is && (!o.pending || got.Profile != o.would) {
		t.Errorf("%s has %+v; acknowledged was %+v, on its way %v %+v", o.user, got.Profile, o.is, o.pending, o.would)
	}
	o.is, o.pending = got.Profile, false
}

// change lets one worker per owner change its own user and the shared ones, until the servers are killed, which happens once enough changes were accepted.
func change(t *testing.T, clients []*client, owners []*owner, enough int, kill func() error) (accepted, refused int) {
	t.Helper()
	var yes, no atomic.Int64
	full := make(chan struct{})
	fill := sync.OnceFunc(func() { close(full) })
	var wg sync.WaitGroup
	for n, o := range owners {
		wg.Go(func() {
			for i := 0; ; i++ {
				err := o.change(t.Context(), clients[n%len(clients)], i)
				switch r := (*refusal)(nil); {
				case err == nil:
					if yes.Add(1) >= int64(enough) {
						fill()
					}
				case errors.As(err, &r) && r.code < 500:
					no.Add(1)
				case errors.As(err, &r):
					t.Errorf("%s: %v", o.user, err)
					fill()
					return
				default: // the server was killed
					fill()
					return
				}
			}
		})
	}
	<-full
	if err := kill(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	for _, c := range clients {
		c.close()
	}
	return int(yes.Load()), int(no.Load())
}

// change makes one change: every third is of a shared user.
func (o *owner) change(ctx context.Context, c *client, i int) error {
	if i%3 == 2 {
		user := random.OneOf(o.random, shared...)
		switch o.random.IntN(3) {
		case 0:
			return c.setName(ctx, user, fmt.Sprintf("name-%d", o.random.IntN(3)))
		case 1:
			return c.removeProfile(ctx, user)
		}
		return c.setStatus(ctx, user, random.OneOf(o.random, profile.Statuses...))
	}
	next, do := o.is, func() error { return c.removeProfile(ctx, o.user) }
	switch status := random.OneOf(o.random, profile.Statuses...); {
	case o.is.Name == "":
		next = profile.Profile{Name: o.user, Status: profile.Active}
		do = func() error { return c.setName(ctx, o.user, next.Name) }
	case o.random.OneIn(5):
		next = profile.Profile{}
	default:
		next.Status = status
		do = func() error { return c.setStatus(ctx, o.user, status) }
	}
	o.pending, o.would = true, next
	err := do()
	if err == nil {
		o.is, o.pending = next, false
	}
	return err
}
