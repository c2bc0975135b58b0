package dynamostore_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
)

func streamsClient(t testing.TB, endpoint string) *dynamodbstreams.Client {
	t.Helper()
	c, err := dynamostore.NewStreamsClient(t.Context(), dynamostore.ClientOptions{Endpoint: endpoint, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A read model is one item for each entity: the number of its last event, and what its events say. A handler changes it on condition that the
// event is the next one.
type readModel struct {
	*dynamodb.Client
	table string
}

// handle reports an error when e is not the next event of its entity, unless it was handled before.
func (m readModel) handle(ctx context.Context, e annals.Event) error {
	key := map[string]types.AttributeValue{"pid": &types.AttributeValueMemberS{Value: string(e.ID)}}
	before := &types.AttributeValueMemberN{Value: fmt.Sprint(e.SeqNr - 1)}
	in := &dynamodb.UpdateItemInput{TableName: &m.table, Key: key,
		UpdateExpression:         aws.String("SET #last = :n, #said = list_append(if_not_exists(#said, :none), :said)"),
		ConditionExpression:      aws.String("#last = :before"),
		ExpressionAttributeNames: map[string]string{"#last": "last", "#said": "said"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":n": &types.AttributeValueMemberN{Value: fmt.Sprint(e.SeqNr)}, ":before": before,
			":none": &types.AttributeValueMemberL{}, ":said": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberS{Value: string(e.Data)}}}},
	}
	if e.SeqNr == 1 {
		in.ConditionExpression = aws.String("attribute_not_exists(#last)")
		delete(in.ExpressionAttributeValues, ":before")
	}
	_, err := m.UpdateItem(ctx, in)
	if failed := (*types.ConditionalCheckFailedException)(nil); !errors.As(err, &failed) {
		return err
	}
	if _, last, err := m.read(ctx, e.ID); err != nil || last < e.SeqNr {
		return fmt.Errorf("number %d of %q after %d: %w", e.SeqNr, e.ID, last, err)
	}
	return nil
}

func (m readModel) read(ctx context.Context, id annals.PersistenceID) (said []string, last annals.SeqNr, err error) {
	out, err := m.GetItem(ctx, &dynamodb.GetItemInput{TableName: &m.table, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{"pid": &types.AttributeValueMemberS{Value: string(id)}}})
	if err != nil || out.Item == nil {
		return nil, 0, err
	}
	for _, v := range out.Item["said"].(*types.AttributeValueMemberL).Value {
		said = append(said, v.(*types.AttributeValueMemberS).Value)
	}
	n, err := strconv.Atoi(out.Item["last"].(*types.AttributeValueMemberN).Value)
	return said, annals.SeqNr(n), err
}

// subscriber is what a process that subscribes is told.
type subscriber struct{ endpoint, streams, layout, prefix string }

// tables returns the layout, with tables whose names begin with the prefix.
func (s subscriber) tables() dynamostore.Layout {
	switch s.layout {
	case "esa":
		return esa.Layout{Shards: 3, WriteIDs: true, Format: esa.Plain(), Journal: esa.Journal{Table: s.prefix + "-journal"}, Snapshot: esa.Snapshot{Table: s.prefix + "-snapshot"}}
	case "rust5":
		return esa.Layout{Peer: esa.Rust5, Journal: esa.Journal{Table: s.prefix + "-journal"}, Snapshot: esa.Snapshot{Table: s.prefix + "-snapshot"}, Head: s.prefix + "-head"}
	default:
		return commit.Layout{Table: s.prefix}
	}
}

// subscriptions is the name of the table of subscriptions.
func (s subscriber) subscriptions() string { return s.prefix + "-subscriptions" }

const playSubscriber = "DYNAMOSTORE_TEST_SUBSCRIBER"

func (s subscriber) open(ctx context.Context) (*dynamostore.Store, readModel, error) {
	c, err := connect(ctx, s.endpoint)
	if err != nil {
		return nil, readModel{}, err
	}
	streams, err := dynamostore.NewStreamsClient(ctx, dynamostore.ClientOptions{Endpoint: s.streams, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err != nil {
		return nil, readModel{}, err
	}
	store, err := dynamostore.Open(ctx, c, s.tables(), dynamostore.Options{CreateTables: true,
		Subscriptions: dynamostore.Subscriptions{Table: s.subscriptions(), Lease: 1500 * time.Millisecond, Streams: streams}})
	return store, readModel{c, s.prefix + "-model"}, err
}

// playTheSubscriber is the main function of a process that makes the read model. It says which events it has handled.
func playTheSubscriber(ctx context.Context, args string) error {
	var s subscriber
	if _, err := fmt.Sscan(args, &s.endpoint, &s.streams, &s.layout, &s.prefix); err != nil {
		return err
	}
	store, model, err := s.open(ctx)
	if err != nil {
		return err
	}
	for d, err := range store.Unwrap().(ability.Subscriber).Subscribe(ctx, "model", annals.Filter{}) {
		if err != nil {
			return err
		}
		for _, e := range d.Events {
			if err := model.handle(ctx, e); err != nil {
				return err
			}
			fmt.Println("handled")
		}
		if err := d.Ack(ctx); err != nil && !errors.Is(err, annals.ErrFenced) {
			return err
		}
	}
	return nil
}

var restarts = flag.Int("restarts", 2, "how often a subscriber is killed and restarted")

// Two processes make a read model of the events that are written meanwhile. They are killed and started again, while shards are split, records
// change their order, and the stream removes records that no process has read. In the end the read model is that of a replay.
func TestSubscribersUnderKill(t *testing.T) {
	t.Parallel()
	for _, layout := range []string{"commit", "esa", "rust5"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			subscribersUnderKill(t, layout)
		})
	}
}

func subscribersUnderKill(t *testing.T, layout string) {
	ctx := t.Context()
	endpoint := dynamo.NewEndpoint(t)
	proxy := dynamo.NewStreamsProxy(endpoint, dynamo.Streams{Shards: 3, Page: 2, Records: 20, Reorder: true, Throttle: 13, Empty: 7, Repeat: 5})
	t.Cleanup(proxy.Close)
	s := subscriber{endpoint, proxy.Endpoint, layout, "t" + rand.Text()}
	store, model, err := s.open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := model.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: &model.table, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pid"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pid"), AttributeType: types.ScalarAttributeTypeS}}}); err != nil {
		t.Fatal(err)
	}
	last, stopWriting := s.write(t, store)

	handled := make(chan struct{}, 100)
	first, second := s.start(t, handled), s.start(t, handled)
	for round := range *restarts {
		read := proxy.Answered() + 50 // the processes have caught up
		for n := 0; n < 100 || proxy.Answered() < read; n++ {
			select {
			case <-handled:
			case <-time.After(time.Minute):
				t.Fatalf("round %d: no event is handled within a minute, after %d events and %d records", round, n, proxy.Answered())
			}
		}
		children := 1 // as when the service closes a shard after some hours
		if round%12 == 0 {
			children = 2
		}
		if err := proxy.Split(ctx, children); err != nil {
			t.Fatal(err)
		}
		first.kill(t)
		if round%4 == 1 { // no process reads for more than a day
			second.kill(t)
			s.age(t, model.Client)
			if err := proxy.Trim(ctx, 3); err != nil {
				t.Fatal(err)
			}
			second = s.start(t, handled)
		}
		proxy.Expire()
		first, second = second, s.start(t, handled)
	}
	stopWriting()

	look, limit := time.NewTicker(50*time.Millisecond), time.After(time.Minute)
	defer look.Stop()
	for id, n := range last {
		for late := false; !late; {
			if _, handled, err := model.read(ctx, id); err != nil || handled == n {
				break
			}
			select {
			case <-look.C:
			case <-limit:
				late = true
			}
		}
		said, handled, err := model.read(ctx, id)
		if replayed := replay(ctx, t, store, id, 1, annals.MaxSeqNr); err != nil || handled != n || !slices.Equal(said, replayed) {
			t.Errorf("%q: %d events in the read model, last %d, %v; a replay has %d, last %d", id, len(said), handled, err, len(replayed), n)
		}
	}
	first.kill(t)
	second.kill(t)
	t.Logf("%d records were read", proxy.Answered())
}

// age moves what is stored of the subscription by a day.
func (s subscriber) age(t *testing.T, c *dynamodb.Client) {
	t.Helper()
	table := s.subscriptions()
	out, err := c.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range out.Items {
		for _, attribute := range []string{"listed", "since"} {
			if v, ok := it[attribute].(*types.AttributeValueMemberN); ok {
				n, _ := strconv.ParseInt(v.Value, 10, 64)
				it[attribute] = &types.AttributeValueMemberN{Value: fmt.Sprint(time.UnixMicro(n).Add(-24 * time.Hour).UnixMicro())}
				if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// write appends events until stop is called; last are then the last numbers.
func (s subscriber) write(t *testing.T, store *dynamostore.Store) (last map[annals.PersistenceID]annals.SeqNr, stop func()) {
	last = map[annals.PersistenceID]annals.SeqNr{}
	stopped, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for n := 0; ; n++ {
			id := annals.NewPersistenceID("Thread", fmt.Sprint(n*7%40))
			c := annals.Commit{ID: id, After: last[id], Events: texts(fmt.Sprint(n), fmt.Sprint(n, " again"))[:1+n%2]}
			if c.After == 0 && store.Capabilities().Limits.FirstSnapshot {
				c.Snapshot = &annals.Snapshot{ID: id, SeqNr: annals.SeqNr(len(c.Events)), Payload: c.Events[0].Payload}
			}
			r, err := store.Journal().Append(context.WithoutCancel(t.Context()), c)
			if err != nil {
				t.Error(err)
				return
			}
			last[id] = r.SeqNr
			select {
			case <-pace.C:
			case <-stopped:
				return
			}
		}
	}()
	return last, sync.OnceFunc(func() {
		close(stopped)
		<-done
	})
}

// subscribing is a process that subscribes.
type subscribing struct {
	cmd  *exec.Cmd
	read chan struct{} // closed when the output has been read
}

// start starts a process, which sends to handled for each event.
func (s subscriber) start(t *testing.T, handled chan<- struct{}) *subscribing {
	t.Helper()
	p := &subscribing{exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0]), make(chan struct{})}
	p.cmd.Env = append(os.Environ(), playSubscriber+"="+strings.Join([]string{s.endpoint, s.streams, s.layout, s.prefix}, " "), "GOMAXPROCS=2")
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case handled <- struct{}{}:
			default: // enough are waiting
			}
		}
	}()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.kill(t)
		}
	})
	return p
}

// kill ends the process as a crash does.
func (p *subscribing) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.read
	if err := p.cmd.Wait(); err == nil {
		t.Fatal("a subscriber has ended by itself")
	}
}
