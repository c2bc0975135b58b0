package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// openSubscriber opens a store that keeps its subscriptions in a table.
func openSubscriber(ctx context.Context, client *dynamodb.Client, layout dynamostore.Layout, table string, o dynamostore.ClientOptions) (*dynamostore.Store, error) {
	streams, err := dynamostore.NewStreamsClient(ctx, o)
	if err != nil {
		return nil, err
	}
	return dynamostore.Open(ctx, client, layout, dynamostore.Options{
		CreateTables:  true,
		Subscriptions: dynamostore.Subscriptions{Table: table, Streams: streams},
	})
}

// sendMail sends mail for each event of a thread until ctx ends. A mail may be sent again after a crash.
func sendMail(ctx context.Context, store ability.Subscriber, mail func(annals.Event) error) error {
	for delivery, err := range store.Subscribe(ctx, "mail", annals.Filter{Type: "Thread"}) {
		if err != nil {
			return err
		}
		for _, event := range delivery.Events {
			if err := mail(event); err != nil {
				return err
			}
		}
		if err := delivery.Ack(ctx); err != nil {
			return err
		}
	}
	return nil
}

func TestMail(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := dynamostore.ClientOptions{Endpoint: dynamo.Endpoint(t), Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
	store, err := openSubscriber(ctx, client(t), commit.Layout{Table: "t" + rand.Text()}, "s"+rand.Text(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if _, err := store.Journal().Append(ctx, annals.Commit{ID: "Thread|1", Events: texts("one", "two")}); err != nil {
		t.Fatal(err)
	}
	var sent []string
	err = sendMail(ctx, store.Unwrap().(ability.Subscriber), func(e annals.Event) error {
		if sent = append(sent, string(e.Data)); len(sent) == 2 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || len(sent) != 2 || sent[0] != "one" {
		t.Errorf("sent %q, %v", sent, err)
	}
}
