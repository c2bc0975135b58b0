package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// newProxy starts a fault proxy in front of the shared server.
func newProxy(t *testing.T) *dynamo.FaultProxy {
	t.Helper()
	p := dynamo.NewFaultProxy(dynamo.Endpoint(t))
	t.Cleanup(p.Close)
	return p
}

// clientBehindProxy returns a client of a new fault proxy.
func clientBehindProxy(t *testing.T) (*dynamodb.Client, *dynamo.FaultProxy) {
	t.Helper()
	p := newProxy(t)
	c, err := connect(t.Context(), p.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return c, p
}

// behindProxy opens a store of the commit layout behind a fault proxy.
func behindProxy(t *testing.T, o dynamostore.Options) (*dynamostore.Store, *dynamo.FaultProxy) {
	t.Helper()
	c, p := clientBehindProxy(t)
	return openCommit(t, c, o), p
}

// badWeather makes three of fourteen writes fail: one loses its answer, one is answered by a 500 after it was executed, and one meets
// refused before it reaches the server.
func badWeather(refused dynamo.Fault) func(dynamo.Request) dynamo.Fault {
	var n atomic.Int64
	return func(r dynamo.Request) dynamo.Fault {
		if !r.Writes() {
			return dynamo.Fault{}
		}
		switch n.Add(1) % 14 {
		case 3:
			return dynamo.Fault{LoseAnswer: true}
		case 7:
			return dynamo.Fault{StatusLate: http.StatusInternalServerError}
		case 11:
			return refused
		}
		return dynamo.Fault{}
	}
}

// A writer that takes every failed condition for a conflict reports 6 to 7 % false conflicts with these faults.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p := behindProxy(t, dynamostore.Options{})
	p.SetRule(badWeather(dynamo.Fault{Status: http.StatusServiceUnavailable}))
	var writers sync.WaitGroup
	for w := range 4 {
		id := annals.NewPersistenceID("Thing", fmt.Sprint(w))
		writers.Go(func() {
			for i := range annals.SeqNr(50) {
				if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: 2 * i, Events: texts(fmt.Sprint(2*i+1), fmt.Sprint(2*i+2))}); err != nil {
					t.Errorf("append after %d: %v", 2*i, err)
					return
				}
				if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, After: i, Payload: text(fmt.Sprint(i)).Payload}); err != nil {
					t.Errorf("put after %d: %v", i, err)
					return
				}
			}
			for i, got := range replay(ctx, t, s, id, 1, annals.MaxSeqNr) {
				if got != fmt.Sprint(i+1) {
					t.Errorf("event %d is %q", i+1, got)
				}
			}
			if st, ok, err := s.States().Get(ctx, id); !ok || err != nil || st.Revision != 50 || string(st.Data) != "49" {
				t.Error(st, ok, err)
			}
		})
	}
	writers.Wait()
}

func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p := behindProxy(t, dynamostore.Options{Attempts: 3})
	id := annals.NewPersistenceID("Thing", "1")
	p.SetRule(func(r dynamo.Request) dynamo.Fault { return dynamo.Fault{LoseAnswer: r.Writes()} })
	c := annals.Commit{ID: id, Events: texts("a"), WriteID: annals.NewWriteID()}
	before := p.Counts()["PutItem"]
	_, err := s.Journal().Append(ctx, c)
	if !errors.Is(err, annals.ErrUnknown) || p.Counts()["PutItem"] != before+3 {
		t.Fatal(err, p.Counts())
	}
	p.SetRule(func(dynamo.Request) dynamo.Fault { return dynamo.Fault{Status: http.StatusInternalServerError} })
	if _, err := s.Journal().LastSeqNr(ctx, id); !errors.Is(err, annals.ErrUnavailable) {
		t.Error(err)
	}
	p.SetRule(nil)
	if r, err := s.Journal().Append(ctx, c); err != nil || !r.Repeated {
		t.Error(r, err)
	}
}

// All ways in which the service throttles: a single request, a transaction, and unprocessed parts of a batch.
func TestThrottling(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	told := &recorder{}
	s, p := behindProxy(t, dynamostore.Options{Observer: told})
	id := annals.NewPersistenceID("Thing", "1")
	var seen sync.Map
	var throttled atomic.Int64
	p.SetRule(func(r dynamo.Request) dynamo.Fault {
		_, again := seen.LoadOrStore(r.Operation+fmt.Sprint(r.Number%3), true)
		if !again && r.Operation != "BatchWriteItem" { // which does a part, and returns the other keys
			throttled.Add(1)
		}
		return dynamo.Fault{Throttle: !again}
	})
	large := make([]byte, 3<<20) // incompressible: parts
	_, _ = rand.Read(large)
	snapshot := &annals.Snapshot{ID: id, SeqNr: 2, Payload: annals.Payload{SerializerID: 4, Data: large}}
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: texts("a", "b"), Snapshot: snapshot}); err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshots().Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}); err != nil {
		t.Fatal(err)
	}
	if got := replay(ctx, t, s, id, 1, annals.MaxSeqNr); len(got) != 2 {
		t.Error(got)
	}
	counted := 0
	for _, r := range told.results() {
		counted += r.Throttles
	}
	if n := throttled.Load(); n == 0 || counted != int(n) {
		t.Errorf("of %d throttled requests the Observer was told of %d", n, counted)
	}
	for _, operation := range []string{"PutItem", "TransactWriteItems", "BatchWriteItem", "UpdateItem", "Query"} {
		if p.Counts()[operation] < 2 {
			t.Errorf("%s was not sent again: %v", operation, p.Counts())
		}
	}
}

func TestThrottlingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	s, p := behindProxy(t, dynamostore.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	p.SetRule(func(r dynamo.Request) dynamo.Fault {
		if r.Number == 3 && r.Operation == "Query" {
			cancel()
		}
		return dynamo.Fault{Throttle: true}
	})
	_, err := s.Journal().LastSeqNr(ctx, "Thing|1")
	if !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestMaxInFlight(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p := behindProxy(t, dynamostore.Options{MaxInFlight: 2})
	var mu sync.Mutex
	most, now := 0, 0
	p.SetRule(func(dynamo.Request) dynamo.Fault {
		mu.Lock()
		defer mu.Unlock()
		now++
		most = max(most, now)
		return dynamo.Fault{Delay: time.Millisecond, After: func() { mu.Lock(); defer mu.Unlock(); now-- }}
	})
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			for range 5 {
				if _, err := s.Journal().LastSeqNr(ctx, "Thing|1"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	if most > 2 || most == 0 {
		t.Errorf("%d requests in flight, at most 2 are allowed", most)
	}
}

const secret = "hunter2-payload"

// Errors may be printed anywhere, so they must not contain what was to be stored or what is stored.
func TestErrorsCarryNoPayloads(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	seen := &recorder{}
	s, p := behindProxy(t, dynamostore.Options{Observer: seen, Attempts: 2})
	id := annals.NewPersistenceID("Thing", "1")
	hidden := []annals.NewEvent{text(secret)}
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: hidden}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, Payload: text(secret).Payload}); err != nil {
		t.Fatal(err)
	}
	snapshot := &annals.Snapshot{ID: id, SeqNr: 1, Payload: text(secret).Payload}
	var errs []error
	note := func(err error) {
		if err == nil {
			t.Error("no error")
		}
		errs = append(errs, err)
	}
	try := func() {
		_, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: hidden})
		note(err)
		_, err = s.Journal().Append(ctx, annals.Commit{ID: id, Events: hidden, Snapshot: snapshot})
		note(err)
		_, err = s.States().Put(ctx, annals.StateWrite{ID: id, Payload: text(secret).Payload})
		note(err)
	}
	try()
	_, err := s.Journal().Append(ctx, annals.Commit{ID: id, After: 1, Events: []annals.NewEvent{text(strings.Repeat(secret, 30_000))}})
	note(err)
	p.SetRule(func(dynamo.Request) dynamo.Fault { return dynamo.Fault{LoseAnswer: true} })
	try()
	p.SetRule(func(dynamo.Request) dynamo.Fault { return dynamo.Fault{Garble: true} })
	for _, err := range s.Journal().Replay(ctx, id, 1, 1) {
		note(err)
	}
	for _, r := range seen.results() {
		errs = append(errs, r.Err)
	}
	for _, err := range errs {
		for e := range chain(err) {
			if printed := fmt.Sprintf("%v %+v %#v", e, e, e); strings.Contains(printed, secret) || strings.Contains(printed, fmt.Sprintf("%x", secret)) ||
				strings.Contains(printed, "104 117 110 116 101 114") || strings.Contains(printed, "0x68, 0x75, 0x6e, 0x74") {
				t.Errorf("the payload is in %s", printed)
			}
		}
	}
}

func chain(err error) func(yield func(error) bool) {
	return func(yield func(error) bool) {
		for open := []error{err}; len(open) > 0; open = open[1:] {
			e := open[0]
			if e == nil || !yield(e) {
				continue
			}
			switch e := e.(type) {
			case interface{ Unwrap() error }:
				open = append(open, e.Unwrap())
			case interface{ Unwrap() []error }:
				open = append(open, e.Unwrap()...)
			}
		}
	}
}

// recorder is an Observer that keeps all results.
type recorder struct {
	mu    sync.Mutex
	ended []observed
}

type observed struct {
	annals.Call
	annals.Result
}

func (r *recorder) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }
func (r *recorder) End(_ context.Context, c annals.Call, result annals.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, observed{c, result})
}

func (r *recorder) results() []observed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]observed(nil), r.ended...)
}

// last returns the result of the last call.
func (r *recorder) last() observed {
	all := r.results()
	return all[len(all)-1]
}
