package dynamostore_test

import (
	"context"
	"io"
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
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// script is a service that lets a store open a table and then answers each request with the same answer.
type script struct {
	opened bool
	answer answer
}

func (s *script) Do(r *http.Request) (*http.Response, error) {
	time.Sleep(time.Millisecond) // so that a context ends what would go on for ever
	a := s.answer
	if !s.opened {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		a = opening(operation)
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return &http.Response{StatusCode: a.status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

// Whatever the service answers, each call ends, and none panics.
func FuzzAnswers(f *testing.F) {
	for _, body := range oddAnswers {
		f.Add(body, !strings.Contains(body, "__type"))
	}
	f.Fuzz(func(t *testing.T, body string, good bool) {
		if len(body) > 4096 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			service := &script{answer: answer{body: body}}
			if !good {
				service.answer.status = http.StatusBadRequest
			}
			client := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String("http://service"), HTTPClient: service,
				Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
			s, err := dynamostore.Open(t.Context(), client, commit.Layout{}, dynamostore.Options{Attempts: 2})
			if err != nil {
				t.Fatal(err)
			}
			service.opened = true
			askEverything(t.Context(), s)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if again, err := dynamostore.Open(ctx, client, commit.Layout{}, dynamostore.Options{Attempts: 2}); err == nil {
				_ = again.Close()
			}
		})
	})
}

// askEverything makes one call of each kind, each for at most a tenth of a second.
func askEverything(ctx context.Context, s *dynamostore.Store) {
	bounded := func(call func(ctx context.Context)) {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		call(ctx)
	}
	for name := range calls(ctx, s) {
		bounded(func(ctx context.Context) { _ = calls(ctx, s)[name]() })
	}
	bounded(func(ctx context.Context) {
		for _, err := range s.Journal().Replay(ctx, "Thing|1", 1, annals.MaxSeqNr) {
			_ = err
		}
	})
	bounded(func(ctx context.Context) {
		_, _ = ability.Recover(ctx, s, "Thing|1", func(annals.Snapshot) error { return nil }, func(annals.Event) error { return nil })
	})
	bounded(func(ctx context.Context) { _, _, _ = s.Snapshots().Latest(ctx, "Thing|1", annals.SnapshotCriteria{}) })
	bounded(func(ctx context.Context) {
		_ = s.Snapshots().Delete(ctx, "Thing|1", annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr})
	})
	bounded(func(ctx context.Context) { _ = s.Journal().DeleteTo(ctx, "Thing|1", 1) })
	bounded(func(ctx context.Context) { _, _ = s.Offsets().Load(ctx, "p", annals.SliceRange{From: 0, To: 1024}) })
}
