package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
)

// openPipes opens a store whose service is a pipes.
func openPipes(t *testing.T, change func(*dynamodb.Options)) (*dynamostore.Store, *pipes) {
	t.Helper()
	p := &pipes{rule: opening}
	s, err := dynamostore.Open(t.Context(), p.client(change), commit.Layout{}, dynamostore.Options{Attempts: 3})
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

// A call waits for a bounded time for an answer that stops in the middle of its body. Then the request is sent again.
func TestBodyThatStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, p := openPipes(t, nil)
		stall := func(answers int) {
			p.set(func(string) answer {
				answers--
				return answer{body: `{"Items":[],"Count":0,"ScannedCount":0}`, cut: answers >= 0}
			})
		}
		for range 2 {
			begun := time.Now()
			stall(2)
			if _, err := s.Journal().LastSeqNr(t.Context(), "Thing|1"); err != nil || p.requests() != 3 {
				t.Errorf("%v, %d requests", err, p.requests())
			}
			if waited := time.Since(begun); waited < 20*time.Second || waited > 21*time.Second {
				t.Errorf("two answers that stalled took %v", waited)
			}
		}
		stall(1000)
		if _, err := s.Journal().LastSeqNr(t.Context(), "Thing|1"); !errors.Is(err, annals.ErrUnavailable) || !strings.Contains(err.Error(), "stopped coming for 10s") {
			t.Errorf("three answers that stalled: %v", err)
		}
		_, err := s.Journal().Append(t.Context(), annals.Commit{ID: "Thing|1", Events: texts("a")})
		if !errors.Is(err, annals.ErrUnknown) || !strings.Contains(err.Error(), "stopped coming for 10s") {
			t.Errorf("three answers to a write that stalled: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Journal().LastSeqNr(ctx, "Thing|1"); !errors.Is(err, annals.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ended meanwhile: %v", err)
		}
	})
}

// calls returns one call for each kind of request.
func calls(ctx context.Context, s *dynamostore.Store) map[string]func() error {
	return map[string]func() error{
		"read": func() error { _, err := s.Journal().LastSeqNr(ctx, "Thing|1"); return err },
		"get":  func() error { _, _, err := s.States().Get(ctx, "Thing|1"); return err },
		"append": func() error {
			_, err := s.Journal().Append(ctx, annals.Commit{ID: "Thing|1", Events: texts("a")})
			return err
		},
		"transaction": func() error {
			_, err := s.Journal().Append(ctx, annals.Commit{ID: "Thing|1", Events: texts("a"), Snapshot: &annals.Snapshot{ID: "Thing|1", SeqNr: 1, Payload: text("s").Payload}})
			return err
		},
		"check health": func() error { return s.Unwrap().(ability.HealthChecker).CheckHealth(ctx) },
		"put": func() error {
			_, err := s.States().Put(ctx, annals.StateWrite{ID: "Thing|1", Payload: text("a").Payload})
			return err
		},
	}
}

// An error that lasts until the program, its rights or its tables are changed is returned at once and not retried.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"AccessDeniedException", "ResourceNotFoundException", "UnrecognizedClientException", "ValidationException",
		"InvalidSignatureException", "MissingAuthenticationTokenException"} {
		synctest.Test(t, func(t *testing.T) {
			s, p := openPipes(t, nil)
			for name, call := range calls(t.Context(), s) {
				p.set(func(string) answer { return refusal("com.amazon#" + code) })
				err := call()
				if !errors.Is(err, annals.ErrInvalid) || annals.SafeToRetry(err) || !strings.Contains(fmt.Sprint(err), code) || p.requests() != 1 {
					t.Errorf("%s: %s after %d requests: %v", code, name, p.requests(), err)
				}
			}
			p.set(func(string) answer { return refusal("com.amazon#" + code) })
			if s, err := dynamostore.Open(t.Context(), p.client(nil), commit.Layout{}, dynamostore.Options{}); s != nil || !errors.Is(err, annals.ErrInvalid) || p.requests() != 1 {
				t.Errorf("%s: open: %v after %d requests", code, err, p.requests())
			}
		})
	}
}

// Without credentials, or without a connection, nothing was sent: no write is of unknown outcome.
func TestNothingWasSent(t *testing.T) {
	t.Parallel()
	missing := errors.New("no credentials here")
	denied := &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRole", Err: &smithy.GenericAPIError{Code: "AccessDenied"}}
	late := &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRole", Err: &smithy.GenericAPIError{Code: "InternalFailure", Fault: smithy.FaultServer}}
	unreachable := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for _, c := range []struct {
		credentials, dial error
		kind              error
		dials             int
	}{
		{credentials: missing, kind: annals.ErrUnavailable},
		{credentials: denied, kind: annals.ErrInvalid},
		{credentials: late, kind: annals.ErrUnavailable},
		{dial: unreachable, kind: annals.ErrUnavailable, dials: 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			var failing bool
			dials := 0
			s, _ := openPipes(t, func(o *dynamodb.Options) {
				known := o.Credentials
				o.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
					if failing && c.credentials != nil {
						return aws.Credentials{}, c.credentials
					}
					return known.Retrieve(ctx)
				})
				transport := o.HTTPClient.(*http.Client).Transport.(*http.Transport)
				connect := transport.DialContext
				transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					if failing && c.dial != nil {
						dials++
						return nil, c.dial
					}
					return connect(ctx, network, address)
				}
			})
			failing = true
			for name, call := range calls(t.Context(), s) {
				dials = 0
				err := call()
				if cause := errors.Join(c.credentials, c.dial); !errors.Is(err, c.kind) || !strings.Contains(err.Error(), cause.Error()) || dials != c.dials {
					t.Errorf("%v: %s after %d dials: %v, want %v", cause, name, dials, err, c.kind)
				}
			}
		})
	}
}

// oddAnswers are answers with missing or unexpected content.
var oddAnswers = []string{
	`{}`, `null`, `{"Items":[{}],"Item":{}}`, `{"Items":[null]}`, `{"Items":[{"seq":{"S":"x"},"pid":{"N":"1"}}]}`,
	`{"Item":{"seq":{"N":"x"},"rev":{"B":"AA=="}}}`, `{"LastEvaluatedKey":{},"Items":[]}`, `{"Responses":{"annals":[{}]},"UnprocessedKeys":{"annals":{}}}`,
	`{"UnprocessedItems":{"annals":[{}]}}`, `{"UnprocessedItems":{"annals":[{"PutRequest":{}}]}}`, `{"Table":{}}`, `{"Table":{"TableStatus":"ACTIVE","KeySchema":[{}],"GlobalSecondaryIndexes":[{}]}}`,
	`{"ConsumedCapacity":{}}`, `{"__type":"TransactionCanceledException","CancellationReasons":[]}`,
	`{"__type":"TransactionCanceledException","CancellationReasons":[{"Code":"ConditionalCheckFailed","Item":{}},{},{},{},{"Code":"ConditionalCheckFailed"}]}`,
	`{"Items":[:{}]}`, `{"ItemCollectionMetrics":{"t":[:{}]},"ConsumedCapacity":[:{}]}`, // the SDK panics
	`{"__type":"TransactionCanceledException"}`, `{"__type":"ConditionalCheckFailedException","Item":{"w":{"S":"x"}}}`, `{"__type":"ConditionalCheckFailedException"}`,
}

// Answers with missing or unexpected content result in errors at worst.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	for _, body := range oddAnswers {
		status := http.StatusOK
		if strings.Contains(body, "__type") {
			status = http.StatusBadRequest
		}
		synctest.Test(t, func(t *testing.T) {
			s, p := openPipes(t, nil)
			p.set(func(string) answer { return answer{status: status, body: body} })
			askEverything(t.Context(), s)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if s, err := dynamostore.Open(ctx, p.client(nil), commit.Layout{}, dynamostore.Options{}); err == nil {
				t.Errorf("%s was taken for a table: %v", body, s)
			}
		})
	}
}

// A panic of the program's own code comes to the caller.
func TestPanicsOfTheCaller(t *testing.T) {
	t.Parallel()
	own, opened := errors.New("own"), false
	s, _ := openPipes(t, func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(*middleware.Stack) error {
			if opened {
				panic(own)
			}
			return nil
		})
	})
	opened = true
	defer func() {
		if p := recover(); p != any(own) {
			t.Errorf("got %v, want the panic", p)
		}
	}()
	_, err := s.Journal().LastSeqNr(t.Context(), "Thing|1")
	t.Error(err)
}

// With CreateTables, existing tables need no right to create tables.
func TestCreateTablesThatExist(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{rule: func(operation string) answer {
			if operation == "CreateTable" {
				return refusal("com.amazon#AccessDeniedException")
			}
			return opening(operation)
		}}
		if _, err := dynamostore.Open(t.Context(), p.client(nil), commit.Layout{}, dynamostore.Options{CreateTables: true}); err != nil {
			t.Error(err)
		}
		p.set(func(operation string) answer {
			if operation == "CreateTable" {
				return refusal("com.amazon#AccessDeniedException")
			}
			return refusal("com.amazonaws.dynamodb.v20120810#ResourceNotFoundException")
		})
		_, err := dynamostore.Open(t.Context(), p.client(nil), commit.Layout{}, dynamostore.Options{CreateTables: true})
		if !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), "CreateTable") || p.requests() != 2 {
			t.Errorf("%v after %d requests", err, p.requests())
		}
	})
}

// An error that a function of the caller's returns is not changed, because the caller may share it, and is returned as it is where the
// contract says so.
func TestErrorsOfTheCaller(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	shared := &annals.Error{Kind: annals.ErrInvalid}
	seen := &recorder{}
	s := openCommit(t, client(t), dynamostore.Options{Observer: seen, StateTypes: map[string]annals.StateType[*dynamostore.Tx]{
		"Thing": {OnChange: func(context.Context, *dynamostore.Tx, annals.State) error { return shared }},
		"Bound": {Columns: []string{"c"}, Bind: func(annals.State) (annals.Columns, error) { return nil, shared }},
	}})
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: "Thing|1", Events: texts("a")}); err != nil {
		t.Fatal(err)
	}
	_, err := ability.Recover(ctx, s, "Thing|1", func(annals.Snapshot) error { return nil }, func(annals.Event) error { return shared })
	errs := []error{err}
	_, err = s.States().Put(ctx, annals.StateWrite{ID: "Thing|1", Payload: text("a").Payload})
	errs = append(errs, err)
	_, err = s.States().Put(ctx, annals.StateWrite{ID: "Bound|1", Payload: text("a").Payload})
	errs = append(errs, err)
	errs = append(errs, s.InTx(ctx, func(context.Context, *dynamostore.Tx, annals.Store) error { return shared }))
	for i, err := range errs {
		found := false
		for e := range chain(err) {
			found = found || e == error(shared)
		}
		if !found {
			t.Errorf("call %d returned %v", i, err)
		}
	}
	if shared.Op != "" || shared.ID != "" {
		t.Errorf("the caller's error was changed: %+v", shared)
	}
}
