package dynamostore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/valid"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// NewSetup returns the Setup of the store that Open opens. The client may be nil when Schema alone is called. The error is ErrInvalid when the
// settings are wrong.
//
// Schema has the tables that Open creates with Options.CreateTables in an account that has none of them: those of the layout, those of
// Options.StateTypes, then that of Options.Subscriptions. The format is that of a tool that manages an account: "cloudformation", also for "",
// "terraform" for a file whose name ends in .tf.json, or "json", a list of the requests (dynamodb.CreateTableInput). The tools keep the tables
// when a change would remove them. Add tags, encryption and backups to the text.
//
// Migrate creates tables that do not exist; to others it adds indexes, and streams that the options ask for, which on a large table takes time
// and write units. It waits until they can be used. Examine sends a few requests to each table and index: reads of items that do not exist, and
// writes on conditions that never hold.
func NewSetup(client *dynamodb.Client, layout Layout, o Options) (ability.Setup, error) {
	var c Client
	if client != nil {
		c = client
	}
	s, err := newStore(c, layout, o)
	if err != nil {
		return nil, &annals.Error{Op: "set up", Kind: annals.ErrInvalid, Err: err}
	}
	return &setup{s, client, o}, nil
}

// SetupURL returns the Setup of the store that OpenURL opens: see NewSetup.
func (o Options) SetupURL(ctx context.Context, u *url.URL) (made ability.Setup, err error) {
	err = o.withClient(ctx, u, func(client *dynamodb.Client, settings settings, clients []aws.HTTPClient) (err error) {
		if made, err = NewSetup(client, settings.layout, settings.store); err == nil {
			made.(*setup).store.clients = clients
		}
		return err
	})
	return made, err
}

// setup is the ability.Setup of a store that is not open.
type setup struct {
	store  *Store
	client *dynamodb.Client // nil: only Schema can be called
	o      Options
}

func (s *setup) Schema(format string) (string, error) {
	tables := s.store.creations(s.o)
	switch format {
	case "", "cloudformation":
		return cloudFormation(tables), nil
	case "terraform":
		return terraform(tables), nil
	case "json":
		requests := []any{}
		for _, in := range tables {
			requests = append(requests, fields(in))
		}
		return indented(requests), nil
	}
	return "", &annals.Error{Op: "schema", Kind: annals.ErrUnsupported, Err: fmt.Errorf("the formats are cloudformation, terraform and json, not %q", format)}
}

func (s *setup) Pending(ctx context.Context) ([]string, error) {
	return s.missing(ctx, false)
}

func (s *setup) Migrate(ctx context.Context) ([]string, error) {
	if s.o.ReadOnly {
		return nil, named("migrate", valid.ErrReadOnly)
	}
	return s.missing(ctx, true)
}

// missing returns the requests for what does not exist. With send it sends them, and returns those that have succeeded.
func (s *setup) missing(ctx context.Context, send bool) (all []string, err error) {
	if s.client == nil {
		return nil, named("schema", errNoClient)
	}
	note := func(operation string, request any) {
		text, _ := json.Marshal(fields(request)) // which fields has read from JSON
		all = append(all, operation+" "+string(text))
	}
	for _, t := range s.store.allTables(s.o) {
		s.store.engine.tables[t.Name] = t
		description, err := s.store.engine.describe(ctx, t.Name)
		whole := creation(s.store.indexed(t), s.o)
		switch {
		case err != nil:
		case description == nil:
			if send {
				_, err = s.store.ensure(ctx, t, nil, s.o)
			}
			if err == nil {
				note("CreateTable", whole)
			}
		default:
			if send { // an update of another process, or of a run that was interrupted, may be in progress
				err = s.ready(ctx, t, description)
			}
			if err != nil {
				break
			}
			for _, update := range updates(whole, description) {
				if send {
					err = s.update(ctx, t, update)
				}
				if err != nil {
					break
				}
				note("UpdateTable", update)
			}
		}
		if err != nil {
			return all, named("schema", err)
		}
	}
	return all, nil
}

// updates are the requests that add to a table the indexes and the stream that it would have been created with, one in each: the service takes no more.
func updates(whole *dynamodb.CreateTableInput, have *types.TableDescription) (all []*dynamodb.UpdateTableInput) {
	var throughput *types.ProvisionedThroughput
	if p := have.ProvisionedThroughput; p != nil && aws.ToInt64(p.WriteCapacityUnits) > 0 { // of a table on demand it is 0
		throughput = &types.ProvisionedThroughput{ReadCapacityUnits: p.ReadCapacityUnits, WriteCapacityUnits: p.WriteCapacityUnits}
	}
	for _, i := range whole.GlobalSecondaryIndexes {
		if slices.ContainsFunc(have.GlobalSecondaryIndexes, func(h types.GlobalSecondaryIndexDescription) bool {
			finds := strings.HasPrefix(*i.IndexName, findIndex) && *h.KeySchema[0].AttributeName == *i.KeySchema[0].AttributeName // its name does not matter
			return *h.IndexName == *i.IndexName || finds
		}) {
			continue // Open refuses it if it does not fit
		}
		update := &dynamodb.UpdateTableInput{TableName: whole.TableName, GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{
			Create: &types.CreateGlobalSecondaryIndexAction{IndexName: i.IndexName, KeySchema: i.KeySchema, Projection: i.Projection, ProvisionedThroughput: throughput}}}}
		for _, d := range whole.AttributeDefinitions {
			if slices.ContainsFunc(i.KeySchema, func(k types.KeySchemaElement) bool { return *k.AttributeName == *d.AttributeName }) {
				update.AttributeDefinitions = append(update.AttributeDefinitions, d)
			}
		}
		all = append(all, update)
	}
	if whole.StreamSpecification != nil && (have.StreamSpecification == nil || !aws.ToBool(have.StreamSpecification.StreamEnabled)) {
		all = append(all, &dynamodb.UpdateTableInput{TableName: whole.TableName, StreamSpecification: whole.StreamSpecification})
	}
	return all
}

// update sends a request and waits until the table can be used with what it adds.
func (s *setup) update(ctx context.Context, t plan.Table, in *dynamodb.UpdateTableInput) error {
	_, _, err := s.store.engine.run(ctx, request{
		keys: func() []string { return []string{partition("d", t.Name, "")} },
		send: func(ctx context.Context) error { _, err := s.client.UpdateTable(ctx, in, once); return err },
	})
	if err != nil {
		return err
	}
	description, err := s.store.engine.describe(ctx, t.Name)
	if err != nil {
		return err
	}
	return s.ready(ctx, t, description)
}

// ready waits until nothing about a table is being changed; description is the newest that is known.
func (s *setup) ready(ctx context.Context, t plan.Table, description *types.TableDescription) error {
	description, err := s.store.wait(ctx, t, description, func(d *types.TableDescription) bool {
		return d == nil || active(d) && d.TableStatus == types.TableStatusActive
	})
	if err == nil && description == nil {
		return noTable(t)
	}
	return err
}

func (s *setup) Examine(ctx context.Context) ([]ability.Finding, error) {
	if s.client == nil {
		return nil, named("examine", errNoClient)
	}
	found, err := s.examine(ctx)
	return found, named("examine", err)
}

func (s *setup) Close() error {
	closeIdle(s.store.clients)
	return nil
}

// named is err, an error of the engine or of a check, with the name of an operation; nil for nil.
func named(op string, err error) error {
	if err == nil {
		return nil
	}
	e := annals.Error{Kind: annals.ErrInvalid, Err: err}
	if known, ok := err.(*annals.Error); ok { //nolint:errorlint // all errors of the engine and of layouts are
		e = *known
	}
	e.Op = op
	return &e
}
