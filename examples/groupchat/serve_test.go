package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/examples/groupchat/chat"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
)

// serving runs serve until stop is called, which returns what serve returned.
func serving(t *testing.T, store string, flags ...string) (url string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	served := make(chan error, 1)
	go func() {
		err := run(ctx, append([]string{"serve", "-listen", "127.0.0.1:0", "-store", store}, flags...), in, io.Discard)
		in.Close()
		served <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		cancel()
		t.Fatalf("no line of output: %v", errors.Join(err, <-served))
	}
	return strings.TrimPrefix(strings.TrimSpace(line), "listening on "), func() error {
		cancel()
		return <-served
	}
}

// What a stopped server was told is there when it starts again, on every store that keeps something.
func TestServeAgain(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{
		"sqlite":   sqliteIn(t.TempDir()),
		"postgres": postgres.Schema(t),
		"dynamodb": dynamoDB(t),
		"esa":      esa(t),
	} {
		t.Run(name, func(t *testing.T) { serveAgain(t, store) })
	}
}

// dynamoDB is the URL of a store on new tables.
func dynamoDB(t *testing.T) string {
	t.Helper()
	return "dynamodb:?region=local&table=chat-" + rand.Text() + "&endpoint=" + dynamo.Endpoint(t)
}

// esa is the URL of a store on new tables of the event-store-adapter libraries.
func esa(t *testing.T) string {
	t.Helper()
	name := rand.Text()
	return "dynamodb:?layout=esa&shards=4&region=local&journal=journal-" + name + "&snapshot=snapshot-" + name +
		"&subscriptions=subscriptions-" + name + "&subscription_lease=300ms&endpoint=" + dynamo.Endpoint(t)
}

func serveAgain(t *testing.T, store string) {
	url, stop := serving(t, store)
	c := newClient(url, 1)
	if err := c.create(t.Context(), "t", "ann", "go"); err != nil {
		t.Error(err)
	}
	if err := c.post(t.Context(), "t", chat.Post{Executor: "ann", ID: "m-1", Text: "hi"}); err != nil {
		t.Error(err)
	}
	c.close()
	if err := stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}

	url, stop = serving(t, store)
	c = newClient(url, 1)
	messages, err := c.messages(t.Context(), "t", "ann")
	if err != nil || len(messages) != 1 || messages[0].Text != "hi" {
		t.Errorf("messages %+v, %v", messages, err)
	}
	c.close()
	if err := stop(); err != nil {
		t.Errorf("stopping again: %v", err)
	}
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	busy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, args := range map[string][]string{
		"a store it does not know": {"-store", "paper:chat"},
		"a URL that is none":       {"-store", "%zz"},
		"an address in use":        {"-store", "mem:", "-listen", busy.Addr().String()},
	} {
		var out strings.Builder
		if err := run(t.Context(), append([]string{"serve"}, args...), &out, io.Discard); err == nil || out.Len() > 0 {
			t.Errorf("%s: error %v, output %q", name, err, out.String())
		}
	}
	err = run(t.Context(), []string{"serve", "-store", "paper:chat"}, io.Discard, io.Discard)
	if !errors.Is(err, annals.ErrUnsupported) || !strings.Contains(err.Error(), "sqlite") {
		t.Errorf("an unknown store is %v", err)
	}
}
