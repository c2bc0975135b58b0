package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// clocked is a service whose clock is ahead of this machine's, and which refuses signatures of another time.
type clocked struct {
	ahead time.Duration
	code  string // of its refusals
	sent  atomic.Int64
}

func (c *clocked) Do(r *http.Request) (*http.Response, error) {
	c.sent.Add(1)
	now := time.Now().Add(c.ahead)
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	a := opening(operation)
	if a.status = http.StatusOK; err != nil || now.Sub(at).Abs() > 5*time.Minute {
		a = refusal(c.code)
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{"Date": {now.UTC().Format(http.TimeFormat)}}, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

// The SDK takes the time of the service from a refusal. The next request succeeds, and the call with it.
func TestClockThatIsWrong(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"com.amazon.coral.service#InvalidSignatureException", "SignatureDoesNotMatch", "RequestTimeTooSkewed", "RequestExpired"} {
		for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
			service := &clocked{ahead: ahead, code: code}
			c := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String("http://service"), HTTPClient: service,
				Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
			s, err := dynamostore.Open(t.Context(), c, commit.Layout{}, dynamostore.Options{})
			if err != nil {
				t.Fatalf("%s, %v ahead: %v", code, ahead, err)
			}
			if n := service.sent.Load(); n != 3 { // one more than with the right clock
				t.Errorf("%s, %v ahead: %d requests", code, ahead, n)
			}
			service.ahead *= -2 // the clock is set while the store is open
			if _, _, err := s.States().Get(t.Context(), "Thing|1"); errors.Is(err, annals.ErrInvalid) || errors.Is(err, annals.ErrUnavailable) {
				t.Errorf("%s: after the clock was set: %v", code, err)
			}
		}
	}
}

// A store does not send more requests at a time than its client has connections: the others would wait for one with the time already in them.
func TestConnectionsBoundRequests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		connections, most int
		refused           bool
	}{{2, 3, true}, {2, 2, false}, {2, 0, false}, {0, 51, true}, {100, 100, false}} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			_, _ = io.WriteString(w, opening(operation).body)
		}))
		defer service.Close()
		client, err := dynamostore.NewClient(t.Context(), dynamostore.ClientOptions{Endpoint: service.URL, Region: "us-east-1", MaxConnections: c.connections,
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
		if err != nil {
			t.Fatal(err)
		}
		_, err = dynamostore.Open(t.Context(), client, commit.Layout{}, dynamostore.Options{MaxInFlight: c.most})
		if errors.Is(err, annals.ErrInvalid) != c.refused || (err != nil) != c.refused {
			t.Errorf("%d requests over %d connections: %v", c.most, c.connections, err)
		}
	}
}

// A store that was opened by a URL has connections of its own, and closes them.
func TestCloseOfAURLClosesConnections(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	closed := make(chan struct{}, 10)
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		_, _ = io.WriteString(w, opening(operation).body)
	}))
	var opened atomic.Int64
	service.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed <- struct{}{}
		}
	}
	service.Start()
	defer service.Close()
	u, err := url.Parse(fmt.Sprintf("dynamodb:?region=us-east-1&endpoint=%s", url.QueryEscape(service.URL)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := dynamostore.Options{}.OpenURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // less than the client keeps connections that are not used
	defer cancel()
	for range opened.Load() {
		select {
		case <-closed:
		case <-ctx.Done():
			t.Fatal("a connection is still open")
		}
	}
}
