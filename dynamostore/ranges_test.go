package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// pageByPage returns the cost of a replay that is read page by page.
func pageByPage(t *testing.T, c *dynamodb.Client, table string, id annals.PersistenceID) (units float64, pages int) {
	t.Helper()
	query := dynamodb.NewQueryPaginator(c, &dynamodb.QueryInput{TableName: &table, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		KeyConditionExpression:    aws.String("pid = :id AND seq > :state"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":id": &types.AttributeValueMemberS{Value: string(id)}, ":state": &types.AttributeValueMemberN{Value: "0"}}})
	for query.HasMorePages() {
		out, err := query.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		units, pages = units+*out.ConsumedCapacity.CapacityUnits, pages+1
	}
	return units, pages
}

// A long replay is read as parallel ranges, at the cost of one that is read page by page.
func TestLongReplay(t *testing.T) {
	t.Parallel()
	ctx, seen := t.Context(), &recorder{}
	c, table := client(t), "t"+rand.Text()
	s, err := dynamostore.Open(ctx, c, commit.Layout{Table: table}, dynamostore.Options{Observer: seen, CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for name, sizes := range map[string][]struct{ events, batch, bytes int }{
		"even":                         {{3000, 20, 2048}},
		"one event a page":             {{12, 1, 390_000}},
		"small between large":          {{8, 1, 390_000}, {6000, 200, 225}, {8, 1, 390_000}},
		"large between small":          {{4000, 200, 325}, {8, 1, 390_000}, {4000, 200, 325}},
		"a commit on either side":      {{2400, 1200, 300}, {6, 1, 390_000}},
		"as much as the first page":    {{2, 1, 390_000}},
		"a little more than the first": {{3, 1, 390_000}},
	} {
		t.Run(name, func(t *testing.T) {
			id := annals.NewPersistenceID("Thing", strings.ReplaceAll(name, " ", "-"))
			var last annals.SeqNr
			for _, size := range sizes {
				last = fill(ctx, t, s, id, size.events, size.batch, size.bytes)
				if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: last, Payload: text("s").Payload}); err != nil {
					t.Fatal(err)
				}
			}
			var n annals.SeqNr
			for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
				if n++; err != nil || e.SeqNr != n || strings.TrimRight(string(e.Data), " ") != fmt.Sprint(n) {
					t.Fatalf("event %d: %d %.20q, %v", n, e.SeqNr, e.Data, err)
				}
			}
			units, pages := pageByPage(t, c, table, id)
			r := seen.last()
			t.Logf("%d requests and %v units, page by page %d and %v", r.Requests, r.ReadUnits, pages, units)
			// A request rounds up to a whole unit, and the last page may begin with the end of the first: 400 KB at most.
			if n != last || r.ReadUnits > units+float64(r.Requests)+100 || r.Requests > 3*pages {
				t.Errorf("%d events of %d for %v units in %d requests; page by page %v in %d", n, last, r.ReadUnits, r.Requests, units, pages)
			}
			for _, to := range []annals.SeqNr{last - 1, last / 2, 2} {
				if got := replay(ctx, t, s, id, 2, to); annals.SeqNr(len(got)) != to-1 {
					t.Errorf("replay from 2 to %d: %d events", to, len(got))
				}
			}
		})
	}
}

// A loop that ends early ends the reads at once; a few pages were read ahead.
func TestLongReplayBrokenOff(t *testing.T) {
	t.Parallel()
	seen, h := &recorder{}, &held{Client: client(t)}
	s := openCommit(t, h, dynamostore.Options{Observer: seen})
	id := annals.NewPersistenceID("Thing", "1")
	last := fill(t.Context(), t, s, id, 6000, 20, 2048)
	until := func(ctx context.Context, n annals.SeqNr) (failed error) {
		for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
			if err != nil {
				return err
			}
			if e.SeqNr == n {
				break
			}
		}
		return nil
	}
	for n, most := range map[annals.SeqNr]int{1: 1, 400: 1, 600: 2 + 4, 1500: 4 + 4, last: 15} {
		if err := until(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if r := seen.last(); r.Requests > most {
			t.Errorf("broken off at %d: %d requests, want at most %d", n, r.Requests, most)
		}
	}
	// The first page, the last page and the first range are answered; requests for the other ranges wait until they are broken off.
	var first atomic.Int64 // where the first range begins
	h.query = func(ctx context.Context, in *dynamodb.QueryInput) {
		from, bounded := plan.Number(in.ExpressionAttributeValues, ":from")
		switch {
		case !bounded:
		case !aws.ToBool(in.ScanIndexForward): // backward
			first.Store(from + 1)
		case from > 1 && from != first.Load():
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
				t.Errorf("the request for the range from %d goes on for a minute", from)
			}
		}
	}
	for e, err := range s.Journal().Replay(t.Context(), id, 1, annals.MaxSeqNr) {
		if err != nil {
			t.Fatal(err)
		}
		if first.Load() != 0 {
			t.Logf("broken off at %d, in the first range", e.SeqNr)
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if err := until(ctx, last); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by its context: %v", err)
	}
}

// A long replay notices events that are deleted meanwhile.
func TestLongReplayTruncated(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openCommit(t, client(t), dynamostore.Options{})
	for _, at := range []annals.SeqNr{1, 700, 3999} {
		id := annals.NewPersistenceID("Thing", fmt.Sprint(at))
		last := fill(ctx, t, s, id, 4000, 80, 2048)
		var failed error
		var n annals.SeqNr
		for e, err := range s.Journal().Replay(ctx, id, 1, annals.MaxSeqNr) {
			if failed = err; err != nil {
				break
			}
			if n++; e.SeqNr != n {
				t.Fatalf("event %d is number %d", n, e.SeqNr)
			}
			if n == at {
				if err := s.Journal().DeleteTo(ctx, id, last); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n != last && !errors.Is(failed, annals.ErrTruncated) {
			t.Errorf("deleted at %d: ended after %d with %v", at, n, failed)
		}
		if at == 1 && failed == nil {
			t.Error("a delete at the first event went unseen")
		}
	}
}
