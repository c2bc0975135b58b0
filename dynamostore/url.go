package dynamostore

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/storeurl"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// OpenURL opens a URL such as dynamodb:?layout=commit&table=annals; it is a function for annals.Openers. The parameters are fields of
// Options, ClientOptions and the layout, and replace those of o. docs/stores/urls.md lists them. Credentials come from the
// SDK's default chain.
func (o Options) OpenURL(ctx context.Context, u *url.URL) (annals.Store, error) {
	var s *Store
	err := o.withClient(ctx, u, func(client *dynamodb.Client, settings settings, clients []aws.HTTPClient) (err error) {
		if s, err = Open(ctx, client, settings.layout, settings.store); err == nil {
			s.clients = clients
		}
		return err
	})
	if err != nil {
		return nil, err // a nil *Store would not be a nil annals.Store
	}
	return s, nil
}

// withClient calls fn with the settings of u and a client for them. The connections of clients are closed where fn fails.
func (o Options) withClient(ctx context.Context, u *url.URL, fn func(client *dynamodb.Client, settings settings, clients []aws.HTTPClient) error) error {
	settings, err := o.fromURL(u)
	if err != nil {
		return &annals.Error{Op: "open", Kind: annals.ErrInvalid, Err: err}
	}
	client, err := NewClient(ctx, settings.client)
	if err != nil {
		return err
	}
	clients := []aws.HTTPClient{client.Options().HTTPClient}
	if o := &settings.store.Subscriptions; o.Table != "" && o.Streams == nil {
		streams, err := NewStreamsClient(ctx, settings.client)
		if err != nil {
			return err
		}
		o.Streams, clients = streams, append(clients, streams.Options().HTTPClient)
	}
	if err = fn(client, settings, clients); err != nil {
		closeIdle(clients)
	}
	return err
}

// closeIdle closes the connections of clients.
func closeIdle(clients []aws.HTTPClient) {
	for _, c := range clients {
		steady{c}.CloseIdleConnections()
	}
}

// settings are the parameters of a URL.
type settings struct {
	client ClientOptions
	layout Layout
	store  Options
}

// fromURL returns the settings of u, with the fields of o where u has no parameter.
func (o Options) fromURL(u *url.URL) (s settings, err error) {
	p := storeurl.Parse(u)
	p.Text("region", &s.client.Region)
	p.Text("endpoint", &s.client.Endpoint)
	if at := s.client.Endpoint; at != "" && !strings.HasPrefix(at, "http://") && !strings.HasPrefix(at, "https://") {
		p.Fault("endpoint", "does not begin with http:// or https://")
	}
	storeurl.Number(p, "connections", &s.client.MaxConnections)
	if o.MaxInFlight == 0 {
		o.MaxInFlight = s.client.MaxConnections
	}
	p.Flag("create", &o.CreateTables)
	storeurl.Number(p, "read_units", &o.ReadUnits)
	storeurl.Number(p, "write_units", &o.WriteUnits)
	p.Flag("streams", &o.Streams)
	p.Text("subscriptions", &o.Subscriptions.Table)
	p.Duration("subscription_lease", &o.Subscriptions.Lease)
	storeurl.Number(p, "max_in_flight", &o.MaxInFlight)
	storeurl.Number(p, "attempts", &o.Attempts)
	p.Flag("strict", &o.Strict)
	p.Flag("lean", &o.Lean)
	p.Flag("read_only", &o.ReadOnly)
	s.store = o
	fields := layoutFields(&commit.Layout{})
	storeurl.Choice(p, "layout", &fields, map[string]func(*storeurl.Parameters) Layout{"commit": fields, "j5ik2o": layoutFields(&j5ik2o.Layout{}), "akka": layoutFields(&akka.Layout{}),
		"akka0": layoutFields(&akka0.Layout{}), "esa": layoutFields(&esa.Layout{})})
	s.layout = fields(p)
	if err = p.Err(); u.User != nil || u.Host != "" || u.Path != "" || u.Opaque != "" {
		err = errors.Join(err, errors.New("there is text between dynamodb: and the ?"))
	}
	return s, err
}

// layoutFields returns a function that reads the parameters of a layout into l.
func layoutFields[L Layout](l *L) func(*storeurl.Parameters) Layout {
	return func(p *storeurl.Parameters) Layout {
		p.Fields(l, choice)
		return *l
	}
}

// choice reads the fields of layouts that have one of several values.
func choice(p *storeurl.Parameters, name string, field any) bool {
	switch to := field.(type) {
	case *j5ik2o.PartitionKey:
		storeurl.Choice(p, name, to, map[string]j5ik2o.PartitionKey{"persistence_id": {}, "sequence_number": j5ik2o.SequenceNumberBased})
	case *j5ik2o.SortKey:
		storeurl.Choice(p, name, to, map[string]j5ik2o.SortKey{"persistence_id_with_seq_nr": {}, "seq_nr": j5ik2o.BySeqNr,
			"seq_nr_padded": j5ik2o.BySeqNrPadded, "number": j5ik2o.ByNumber})
	case *esa.Peer:
		storeurl.Choice(p, name, to, map[string]esa.Peer{"go": esa.Go, "js": esa.JS, "js3": esa.JS3, "rust": esa.Rust, "rust3": esa.Rust3, "java": esa.Java, "rust5": esa.Rust5})
	case *esa.Format:
		storeurl.Choice(p, name, to, map[string]esa.Format{"plain": esa.Plain()})
	default:
		return false
	}
	return true
}
