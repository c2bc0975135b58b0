package projection

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/servers/dynamo"
)

// units is an Observer that counts what states cost. Everything else is a save of the works.
type units struct {
	mu           sync.Mutex
	reads, write float64
}

func (u *units) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (u *units) End(_ context.Context, c annals.Call, r annals.Result) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c.ID.Type() == "annals.projection" {
		u.reads += r.ReadUnits
		u.write += r.WriteUnits
	}
}

// What a sign of life costs on DynamoDB, as ADR 0023 has it: alone, and among four runners.
func TestCostOfLeasesOnDynamoDB(t *testing.T) {
	t.Parallel()
	client, err := dynamostore.NewClient(t.Context(), dynamostore.ClientOptions{Endpoint: dynamo.Endpoint(t), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name          string
		index         string
		runners       int
		reads, writes float64 // of a sign of life
	}{
		{"alone", "", 1, 0, 1},
		{"alone, with an index", "slices", 1, 0, 3},
		{"of four, with an index", "slices", 4, 1, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var count units
			s, err := dynamostore.Open(t.Context(), client, commit.Layout{Table: "t" + rand.Text(), Index: c.index},
				dynamostore.Options{CreateTables: true, Observer: &count})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			now := time.Unix(0, 0)
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			var all []*member
			for range c.runners {
				m := newMember(&group{
					store: s, projection: "account-threads", source: source{Type: "account"}, ranges: 4, lease: 10 * time.Second,
					log: slog.New(slog.DiscardHandler), now: func() time.Time { return now }, steps: func(annals.SliceRange) int64 { return 0 },
				}, func(ctx context.Context, _ annals.SliceRange, _ int64) error {
					<-ctx.Done()
					return nil
				})
				all = append(all, m)
				t.Cleanup(m.wait.Wait)
			}
			t.Cleanup(cancel)
			look := func() {
				t.Helper()
				now = now.Add(3333 * time.Millisecond)
				for _, m := range all {
					err := m.look(ctx)
					if errors.Is(err, annals.ErrConflict) { // it was alone
						err = m.look(ctx)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			look()
			for end := 0; end < c.runners-1; { // the first one hands ranges over
				look()
				select {
				case e := <-all[0].ended:
					delete(all[0].running, e.slices)
					end++
				default:
				}
			}
			look()
			look()
			count.mu.Lock()
			count.reads, count.write = 0, 0
			count.mu.Unlock()
			const beats = 10
			for range beats {
				look()
			}
			count.mu.Lock()
			defer count.mu.Unlock()
			signs := float64(beats * c.runners)
			if reads, writes := count.reads/signs, count.write/signs; reads != c.reads || writes != c.writes {
				t.Errorf("a sign of life costs %v read units and %v write units, want %v and %v", reads, writes, c.reads, c.writes)
			}
		})
	}
}
