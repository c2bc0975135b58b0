package dynamostore_test

import (
	"context"
	"crypto/rand"
	"os"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

func TestMain(m *testing.M) {
	if args := os.Getenv(playChild); args != "" {
		if err := playTasks(context.Background(), args); err != nil {
			panic(err)
		}
		return
	}
	if args := os.Getenv(playSubscriber); args != "" {
		if err := playTheSubscriber(context.Background(), args); err != nil {
			panic(err)
		}
		return
	}
	// For stores that are opened by a URL.
	_ = os.Setenv("AWS_ACCESS_KEY_ID", "test")
	_ = os.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	dynamo.Main(m)
}

// connect returns a client for a test server.
func connect(ctx context.Context, endpoint string) (*dynamodb.Client, error) {
	return dynamostore.NewClient(ctx, dynamostore.ClientOptions{Endpoint: endpoint, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
}

func client(t testing.TB) *dynamodb.Client {
	t.Helper()
	c, err := connect(t.Context(), dynamo.Endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// openCommit opens a store on a new table of the commit layout.
func openCommit(t testing.TB, c dynamostore.Client, o dynamostore.Options) *dynamostore.Store {
	t.Helper()
	o.CreateTables = true
	s, err := dynamostore.Open(t.Context(), c, commit.Layout{Table: "t" + rand.Text()}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func text(s string) annals.NewEvent {
	return annals.NewEvent{Payload: annals.Payload{SerializerID: 31, Manifest: "thing.happened", Data: []byte(s)}}
}

func texts(all ...string) (events []annals.NewEvent) {
	for _, s := range all {
		events = append(events, text(s))
	}
	return events
}

func replay(ctx context.Context, t testing.TB, s annals.Store, id annals.PersistenceID, from, to annals.SeqNr) (all []string) {
	t.Helper()
	for e, err := range s.Journal().Replay(ctx, id, from, to) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(e.Data))
	}
	return all
}
