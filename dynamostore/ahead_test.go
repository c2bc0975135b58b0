package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// bare is a layout that offers nothing but its tables: tests use the executor.
type bare []plan.Table

func (bare) Name() string { return "bare" }

func (b bare) Plan() (plan.Offer, error) {
	return plan.Offer{Tables: b, On: func(x plan.Executor) plan.Contracts { return plan.Contracts{Journal: &bareJournal{x: x}} }}, nil
}

// bareJournal gives functions the executor. The contract of a journal is not served.
type bareJournal struct {
	annals.Journal
	x plan.Executor
}

// numbered is a table of test items: text in pid, a number in seq.
var numbered = plan.Table{Name: "numbered", Hash: plan.Key{Name: "pid"}, Range: plan.Key{Name: "seq", Number: true}}

// answering is a client without a server. It answers each request after 5 ms: a query from as many pages of one item as pages says, a get with
// the items whose number is odd.
type answering struct {
	dynamostore.Client
	pages func(hash string) int
	fails string // queries of this partition fail
	few   bool   // answers to gets leave half of the keys out, as unprocessed

	mu               sync.Mutex
	requests         int
	underway, atOnce int
	size             []int // keys of the gets
}

const answersAfter = 5 * time.Millisecond

// answer counts a request.
func (a *answering) answer(ctx context.Context) error {
	a.mu.Lock()
	a.requests++
	a.underway++
	a.atOnce = max(a.atOnce, a.underway)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.underway--
		a.mu.Unlock()
	}()
	select {
	case <-time.After(answersAfter):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*answering) DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	return &dynamodb.DescribeTableOutput{Table: &types.TableDescription{TableStatus: types.TableStatusActive,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pid"), AttributeType: types.ScalarAttributeTypeS}, {AttributeName: aws.String("seq"), AttributeType: types.ScalarAttributeTypeN}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pid"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("seq"), KeyType: types.KeyTypeRange}}}}, nil
}

func (a *answering) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if err := a.answer(ctx); err != nil {
		return nil, err
	}
	hash := in.ExpressionAttributeValues[":hash"]
	if plan.KeyText(hash) == a.fails {
		return nil, &types.ResourceNotFoundException{}
	}
	n, _ := plan.Number(in.ExclusiveStartKey, "seq")
	if n++; int(n) > a.pages(plan.KeyText(hash)) {
		return &dynamodb.QueryOutput{}, nil
	}
	out := &dynamodb.QueryOutput{Items: []plan.Item{{"pid": hash, "seq": plan.N(n)}}}
	if int(n) < a.pages(plan.KeyText(hash)) {
		out.LastEvaluatedKey = out.Items[0]
	}
	return out, nil
}

func (a *answering) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	if err := a.answer(ctx); err != nil {
		return nil, err
	}
	keys := in.RequestItems[numbered.Name].Keys
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]plan.Item{}, UnprocessedKeys: map[string]types.KeysAndAttributes{}}
	a.mu.Lock()
	a.size = append(a.size, len(keys))
	a.mu.Unlock()
	if a.few && len(keys) > 1 {
		out.UnprocessedKeys[numbered.Name] = types.KeysAndAttributes{Keys: keys[len(keys)/2:]}
		keys = keys[:len(keys)/2]
	}
	for _, key := range slices.Backward(keys) { // answers have no order
		if n, _ := plan.Number(key, "seq"); n%2 == 1 {
			out.Responses[numbered.Name] = append(out.Responses[numbered.Name], key)
		}
	}
	return out, nil
}

// within calls do with the executor of a store that has the client, in a synctest bubble: it fails when goroutines remain.
func within(t *testing.T, client *answering, do func(t *testing.T, x plan.Executor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := dynamostore.Open(t.Context(), client, bare{numbered}, dynamostore.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Execute(t.Context(), plan.Function{Op: "test", Run: func(_ context.Context, _ plan.Contracts, x plan.Executor) error {
			do(t, x)
			return nil
		}})
		if err != nil {
			t.Error(err)
		}
	})
}

// partitions yields queries of the partitions 0, 1, …, n-1, and counts those that began.
func partitions(n int, begun *int) iter.Seq[plan.Query] {
	return func(yield func(plan.Query) bool) {
		for i := range n {
			if *begun++; !yield(plan.Query{Table: numbered.Name, Hash: strconv.Itoa(i)}) {
				return
			}
		}
	}
}

// A series yields all pages of its queries in order, an empty one where there is nothing, and reads a bounded number of pages ahead.
func TestSeries(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ahead, atOnce int
		took          time.Duration // in answers
	}{ // the second page of a query is read when the first has been yielded
		{0, 1, 30}, {1, 2, 20}, {4, 5, 8}, {100, 20, 7},
	} {
		c := &answering{pages: func(hash string) int { n, _ := strconv.Atoi(hash); return n % 3 }}
		within(t, c, func(t *testing.T, x plan.Executor) {
			var got, want []string
			for i := range 20 {
				for n := range max(i%3, 1) {
					want = append(want, fmt.Sprint(i, min(i%3, 1), n == max(i%3, 1)-1))
				}
			}
			begin, begun := time.Now(), 0
			for p, err := range x.Series(t.Context(), partitions(20, &begun), test.ahead) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprint(p.Query, len(p.Items), p.Last))
			}
			if !slices.Equal(got, want) {
				t.Errorf("ahead %d: pages %q, want %q", test.ahead, got, want)
			}
			if took := time.Since(begin) / answersAfter; c.atOnce > test.atOnce || took > test.took {
				t.Errorf("ahead %d: %d requests at once and the time of %d, want %d and %d", test.ahead, c.atOnce, took, test.atOnce, test.took)
			}
		})
	}
}

// A caller that waits, or leaves, leaves at most one page of each query unread.
func TestSeriesReadsAheadNoFurther(t *testing.T) {
	t.Parallel()
	for ahead, most := range map[int]int{0: 1, 4: 6} { // the first query has one more page than was yielded
		c := &answering{pages: func(string) int { return 10 }}
		within(t, c, func(t *testing.T, x plan.Executor) {
			begun := 0
			for _, err := range x.Series(t.Context(), partitions(20, &begun), ahead) {
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				break
			}
			if begun != ahead+1 || c.requests != most {
				t.Errorf("ahead %d: %d queries begun and %d requests, want %d and %d", ahead, begun, c.requests, ahead+1, most)
			}
		})
	}
}

// The error of a query comes after the pages of the queries before it. The end of the context is an error too.
func TestSeriesFails(t *testing.T) {
	t.Parallel()
	for _, ahead := range []int{0, 4} {
		c := &answering{fails: "3", pages: func(string) int { return 2 }}
		within(t, c, func(t *testing.T, x plan.Executor) {
			pages, begun := 0, 0
			var failed error
			for _, err := range x.Series(t.Context(), partitions(20, &begun), ahead) {
				if failed = err; err == nil {
					pages++
				}
			}
			if pages != 6 || !errors.Is(failed, annals.ErrInvalid) {
				t.Errorf("ahead %d: %d pages and the error %v, want 6 and ErrInvalid", ahead, pages, failed)
			}
			c.fails = ""
			ctx, cancel := context.WithTimeout(t.Context(), answersAfter*5/2)
			defer cancel()
			for _, failed = range x.Series(ctx, partitions(20, &begun), ahead) {
			}
			if !errors.Is(failed, annals.ErrUnavailable) || !errors.Is(failed, context.DeadlineExceeded) {
				t.Errorf("ahead %d: error %v, want that of the context", ahead, failed)
			}
		})
	}
}

// Before the first item is yielded a merge of many queries holds one page of each, and afterwards at most two.
func TestMergeHoldsFewPages(t *testing.T) {
	t.Parallel()
	const queries, pages = 64, 4
	c := &answering{pages: func(hash string) int {
		if hash == strconv.Itoa(queries-1) {
			time.Sleep(time.Second) // meanwhile the others could read ahead
		}
		return pages
	}}
	within(t, c, func(t *testing.T, x plan.Executor) {
		begun, yielded := 0, 0
		for _, err := range x.Merge(t.Context(), slices.Collect(partitions(queries, &begun)), "seq") {
			if err != nil {
				t.Fatal(err)
			}
			most := 2 * queries
			if yielded++; yielded == 1 {
				most = queries
			}
			synctest.Wait()
			if held := c.requests - yielded; held > most {
				t.Fatalf("%d pages in memory after %d items, want at most %d", held, yielded, most)
			}
		}
		if yielded != queries*pages {
			t.Errorf("%d items, want %d", yielded, queries*pages)
		}
	})
}

// keys yields the keys of n items of one partition, and counts them.
func keys(n int, begun *int) iter.Seq[plan.Item] {
	return func(yield func(plan.Item) bool) {
		for i := range n {
			if *begun++; !yield(plan.Item{"pid": plan.S("x"), "seq": plan.N(i)}) {
				return
			}
		}
	}
}

// GetEach yields an item, or nil, for each key, in their order, also when the service leaves keys unprocessed.
func TestGetEach(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ahead, atOnce int
		few           bool
		took          time.Duration
	}{{0, 1, false, 11}, {4, 5, false, 3}, {4, 5, true, 24}} {
		c := &answering{few: test.few}
		within(t, c, func(t *testing.T, x plan.Executor) {
			begin, begun, at := time.Now(), 0, 0
			for it, err := range x.GetEach(t.Context(), numbered.Name, keys(1050, &begun), test.ahead) {
				n, ok := plan.Number(it, "seq")
				if err != nil || ok != (at%2 == 1) || ok && int(n) != at {
					t.Fatalf("item %d: %v, %v", at, it, err)
				}
				at++
			}
			if at != 1050 || slices.Max(c.size) > 100 || c.atOnce > test.atOnce || time.Since(begin)/answersAfter > test.took {
				t.Errorf("%+v: %d items in the time of %d answers, %d at once", test, at, time.Since(begin)/answersAfter, c.atOnce)
			}
			begun, c.requests = 0, 0
			for _, err := range x.GetEach(t.Context(), numbered.Name, keys(1050, &begun), test.ahead) {
				if err != nil {
					t.Error(err)
				}
				break
			}
			if begun != 100*(test.ahead+1) || !test.few && c.requests > test.ahead+1 {
				t.Errorf("%+v: left at the first item, %d keys asked for and %d requests", test, begun, c.requests)
			}
			ctx, cancel := context.WithTimeout(t.Context(), answersAfter/2)
			defer cancel()
			for _, err := range x.GetEach(ctx, numbered.Name, keys(1050, &begun), test.ahead) {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%+v: %v, want the error of the context", test, err)
				}
			}
		})
	}
}

// GetAll sends ten requests at a time.
func TestGetAllInParallel(t *testing.T) {
	t.Parallel()
	c := &answering{few: true}
	within(t, c, func(t *testing.T, x plan.Executor) {
		for n, atOnce := range map[int]int{0: 0, 1: 1, 100: 1, 101: 2, 2000: 10} {
			begun := 0
			c.atOnce = 0
			items, err := x.GetAll(t.Context(), numbered.Name, slices.Collect(keys(n, &begun)))
			if err != nil || len(items) != n/2 || c.atOnce != atOnce {
				t.Errorf("%d keys: %d items, %v, %d requests at once, want %d", n, len(items), err, c.atOnce, atOnce)
			}
		}
	})
}
