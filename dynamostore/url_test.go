package dynamostore_test

import (
	"crypto/rand"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/storeurl/urltest"
)

func TestURLParameters(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"commit", "akka", "akka0", "esa", "j5ik2o"} {
		urltest.Check(t, "../docs/stores/urls.md", layout, "dynamodb:", func(u *url.URL) (any, error) {
			return dynamostore.FromURL(dynamostore.Options{}, u)
		})
	}
}

// Parameters of the URL replace fields of Options, also those that the program has set.
func TestURLReplacesOptions(t *testing.T) {
	t.Parallel()
	for query, create := range map[string]bool{"create=true": true, "create=false": false, "attempts=3&strict=true": true} {
		s, err := dynamostore.FromURL(dynamostore.Options{CreateTables: true, Attempts: 5}, &url.URL{RawQuery: query})
		if o := dynamostore.OptionsOf(s); err != nil || o.CreateTables != create || (o.Attempts == 3) != o.Strict || o.Strict != strings.Contains(query, "strict") {
			t.Errorf("%s: %+v, %v", query, o, err)
		}
	}
}

func TestOpenURL(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	openers := annals.Openers{"dynamodb": dynamostore.Options{}.OpenURL}
	server := "&region=us-east-1&endpoint=" + dynamo.Endpoint(t)
	prefix := "u" + rand.Text()
	for _, u := range []string{
		"dynamodb:?table=" + prefix,
		"dynamodb:?index=slices&table=" + prefix + "i",
		"dynamodb:?layout=j5ik2o&shards=8&connections=4&journal=" + prefix + "j&snapshot=" + prefix + "s&state=" + prefix + "d",
		"dynamodb:?layout=akka&journal.name=orders&journal=" + prefix + "g&snapshot=" + prefix + "h",
		"dynamodb:?layout=akka0&sequence_shards=20&table=" + prefix + "hash",
		"dynamodb:?layout=esa&shards=8&format=plain&journal=" + prefix + "l&snapshot=" + prefix + "m",
		"dynamodb:?layout=esa&peer=rust5&journal=" + prefix + "t&snapshot=" + prefix + "u&head=" + prefix + "v",
		"dynamodb:?layout=j5ik2o&snapshot.off=true&state.off=true&journal.columns.message=event&journal=" + prefix + "k",
	} {
		s, err := openers.Open(t.Context(), u+"&create=true"+server)
		if err != nil {
			t.Fatal(err)
		}
		c := annals.Commit{ID: "Thing|1-1", Events: texts("a")}
		if s.Capabilities().Limits.FirstSnapshot {
			c.Snapshot = &annals.Snapshot{ID: c.ID, SeqNr: 1, Payload: c.Events[0].Payload}
		}
		if _, err := s.Journal().Append(t.Context(), c); err != nil {
			t.Error(err)
		}
		if _, err := s.Query().Newest(t.Context(), annals.Filter{}); errors.Is(err, annals.ErrUnsupported) == strings.Contains(u, "index=") {
			t.Errorf("%s: %v", u, err)
		}
		claims, without := s.Capabilities(), func(part, layouts string) bool {
			return strings.Contains(u, part+".off") || slices.ContainsFunc(strings.Fields(layouts), func(l string) bool { return strings.Contains(u, "layout="+l) })
		}
		if claims.States == without("state", "akka akka0 esa") || claims.Snapshots == without("snapshot", "akka0") {
			t.Errorf("%s: %+v", u, claims)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	// With an error there is no store, not even a nil *Store.
	u, err := url.Parse("dynamodb:?table=" + prefix + "missing" + server)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := (dynamostore.Options{}).OpenURL(t.Context(), u); s != nil || !errors.Is(err, annals.ErrInvalid) {
		t.Errorf("a table that there is not: %v, %v", s, err)
	}
}

// A closed store that has opened its client leaves no connections, nor the two goroutines that each of them has.
func TestClosedStoresLeaveNoConnections(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	const stores = 50
	var made atomic.Int64
	closed := make(chan struct{}, 10*stores)
	server := httptest.NewUnstartedServer(dynamo.NewFaultProxy(dynamo.Endpoint(t)))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			made.Add(1)
		case http.StateClosed, http.StateHijacked:
			closed <- struct{}{}
		}
	}
	server.Start()
	defer server.Close()
	openers := annals.Openers{"dynamodb": dynamostore.Options{}.OpenURL}
	u := "dynamodb:?create=true&region=us-east-1&table=u" + rand.Text() + "&endpoint=" + server.URL
	for range stores {
		s, err := openers.Open(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Journal().LastSeqNr(t.Context(), "Thing|1"); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	connections := made.Load()
	if connections < stores {
		t.Errorf("%d stores have made %d connections", stores, connections)
	}
	for n := range connections {
		select {
		case <-closed:
		case <-time.After(30 * time.Second): // an idle connection stays for 90
			t.Fatalf("%d connections of closed stores are open", connections-n)
		}
	}
}

func TestOpenURLRefuses(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	openers := annals.Openers{"dynamodb": dynamostore.Options{}.OpenURL}
	for _, u := range []string{
		"dynamodb:?layout=none", "dynamodb:?tabel=x", "dynamodb:?connections=-1", "dynamodb:?create=perhaps", "dynamodb://host/?table=x",
		"dynamodb:?table=orders;x=1", "dynamodb:?table=orders&%zz", "dynamodb:?%zz", "dynamodb:?table=a&table=b", "dynamodb:?table=",
		"dynamodb:orders", "dynamodb:///orders", "dynamodb:?shards=8", "dynamodb:?layout=j5ik2o&table=x", "dynamodb:?table=x#y",
		"dynamodb:?layout=j5ik2o&journal.sort_key=none", "dynamodb:?endpoint=localhost:8000",
		"dynamodb:", // no region
	} {
		if s, err := openers.Open(t.Context(), u); s != nil || !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v, %v", u, s, err)
		}
	}
}
