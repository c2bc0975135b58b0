package dynamostore_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/projection"
)

// outside sends the requests of a synctest bubble on goroutines outside of it. A goroutine of the bubble that waits for an answer waits for
// something outside of the bubble, so the time of the bubble stands still meanwhile.
type outside struct{ lines chan line }

// line carries one request at a time.
type line struct {
	request chan *http.Request
	reply   chan reply
}

type reply struct {
	response *http.Response
	err      error
}

// newOutside must be called outside of the bubble. It has n lines, which end with ctx.
func newOutside(ctx context.Context, n int) outside {
	o := outside{make(chan line, n)}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}}
	for range n {
		l := line{make(chan *http.Request), make(chan reply)}
		o.lines <- l
		go func() {
			for {
				select {
				case r := <-l.request:
					l.reply <- send(client, r)
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return o
}

func send(client *http.Client, r *http.Request) reply {
	response, err := client.Do(r)
	if err != nil {
		return reply{nil, err}
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(body))
	return reply{response, err}
}

// Do sends r, without its context, which belongs to the bubble.
func (o outside) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(context.Background())
	r.Body = io.NopCloser(bytes.NewReader(body))
	l := <-o.lines
	l.request <- r
	a := <-l.reply
	o.lines <- l
	return a.response, a.err
}

// spent adds up the capacity of all calls.
type spent struct {
	mu          sync.Mutex
	read, write float64
}

func (*spent) Start(ctx context.Context, _ annals.Call) context.Context { return ctx }

func (s *spent) End(_ context.Context, _ annals.Call, r annals.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read += r.ReadUnits
	s.write += r.WriteUnits
}

// take returns what was spent since the last call.
func (s *spent) take() (read, write float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	read, write = s.read, s.write
	s.read, s.write = 0, 0
	return read, write
}

// documentedRows are the numbers in the rows of the table of docs/stores/dynamodb.md that begins with head.
func documentedRows(t *testing.T, head string) (rows [][]float64) {
	t.Helper()
	text, err := os.ReadFile("../docs/stores/dynamodb.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), head)
	table, _, _ = strings.Cut(table, "\n\n")
	for line := range strings.Lines(table) {
		var numbers []float64
		for _, text := range regexp.MustCompile(`\| ([\d,.]+) `).FindAllStringSubmatch(line, -1) {
			n, err := strconv.ParseFloat(strings.ReplaceAll(text[1], ",", ""), 64)
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, n)
		}
		if len(numbers) > 0 {
			rows = append(rows, numbers)
		}
	}
	return rows
}

// open opens a new table in a bubble.
func (o outside) open(t *testing.T, endpoint string, observer annals.Observer) *dynamostore.Store {
	t.Helper()
	client := dynamodb.New(dynamodb.Options{HTTPClient: o, BaseEndpoint: &endpoint, Region: "us-east-1", Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	store, err := dynamostore.Open(t.Context(), client, commit.Layout{Table: "t" + rand.Text(), Index: "slices"}, dynamostore.Options{CreateTables: true, Observer: observer})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// With an event a second, a projection costs at most two read units for each, and handles it in time.
func TestSlowProjectionCosts(t *testing.T) {
	t.Parallel()
	out := newOutside(t.Context(), 50)
	endpoint := dynamo.Endpoint(t)
	synctest.Test(t, func(t *testing.T) {
		o := &spent{}
		store := out.open(t, endpoint, o)
		defer func() { _ = store.Close() }()
		var handled atomic.Int64
		source := projection.Source[[]byte]{Store: store, Type: "Thing", Codec: codec.Codec[[]byte](bytesAsStored{})}
		r, err := projection.AtLeastOnce("slow", source, store, func(_ context.Context, e projection.Envelope[[]byte]) error {
			handled.Add(1)
			if age := time.Since(e.Time); age > 8*time.Second {
				t.Errorf("event %d of %s is handled after %v", e.SeqNr, e.ID, age)
			}
			return nil
		}, projection.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		const begun, counted, entities = 60, 180, 50
		for n := range begun + counted {
			if n == begun {
				o.take()
				handled.Store(0)
			}
			id := annals.NewPersistenceID("Thing", fmt.Sprint(n%entities))
			event := annals.Commit{ID: id, After: annals.SeqNr(n / entities), Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 4}}}}
			if _, err := store.Journal().Append(t.Context(), event); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		read, _ := o.take()
		t.Logf("%.2f read units an event", read/counted)
		if n := handled.Load(); read > 2*counted || n < counted-8 || n > counted+8 {
			t.Errorf("%.2f read units for each of %d events, of which %d were handled", read/counted, counted, n)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A projection without new events costs what docs/stores/dynamodb.md says.
func TestIdleProjectionCosts(t *testing.T) {
	t.Parallel()
	out := newOutside(t.Context(), 50)
	endpoint := dynamo.Endpoint(t)
	documented := documentedRows(t, "| the projection follows |")
	for i, c := range []struct {
		follows string // entity type; "" = all
		types   int    // of entities in the table
	}{{"Type0", 1}, {"", 1}, {"", 3}, {"", 10}} {
		t.Run(fmt.Sprintf("%q of %d types", c.follows, c.types), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := &spent{}
				store := out.open(t, endpoint, o)
				defer func() { _ = store.Close() }()
				for n := range c.types {
					event := annals.Commit{ID: annals.NewPersistenceID(fmt.Sprint("Type", n), "1"), Events: []annals.NewEvent{{Payload: annals.Payload{SerializerID: 4}}}}
					if _, err := store.Journal().Append(t.Context(), event); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				source := projection.Source[[]byte]{Store: store, Type: c.follows, Codec: codec.Codec[[]byte](bytesAsStored{})}
				r, err := projection.AtLeastOnce("idle", source, store, func(context.Context, projection.Envelope[[]byte]) error { return nil }, projection.Options{From: annals.Offset{Time: time.Now()}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				time.Sleep(10 * time.Second)
				o.take()
				const counted = 2 * time.Minute
				time.Sleep(counted)
				read, write := o.take()
				read, write = read/counted.Hours(), write/counted.Hours()
				dollars := 24 * 365 / 12 * (read*0.125e-6 + write*0.625e-6) // US East, on demand
				t.Logf("in an hour: %.0f read units, %.0f write units; in a month %.2f dollars", read, write, dollars)
				for k, n := range []float64{read, write, dollars} {
					if want := documented[i][k]; math.Abs(n-want) > want/10 {
						t.Errorf("counted %.2f, documented is %.2f", n, want)
					}
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

type bytesAsStored struct{}

func (bytesAsStored) Encode(b []byte) (annals.Payload, error) {
	return annals.Payload{SerializerID: 4, Data: b}, nil
}
func (bytesAsStored) Decode(p annals.Payload) ([]byte, error) { return p.Data, nil }
