package dynamostore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// SetupURL returns the Setup of the store that OpenURL opens. Its formats of a schema are "cloudformation", "terraform" and "json", which has the
// requests of Schema. Migrate creates tables that do not exist and changes no others. Examine sends a few requests to each table and index: reads
// of items that do not exist, and writes on conditions that never hold.
func (o Options) SetupURL(ctx context.Context, u *url.URL) (ability.Setup, error) {
	var made *setup
	err := o.withClient(ctx, u, func(client *dynamodb.Client, settings settings, clients []aws.HTTPClient) error {
		s, err := newStore(client, settings.layout, settings.store)
		if err != nil {
			return &annals.Error{Op: "set up", Kind: annals.ErrInvalid, Err: err}
		}
		s.clients = clients
		made = &setup{s, client, settings.store}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// setup is the ability.Setup of a store that is not open.
type setup struct {
	store  *Store
	client *dynamodb.Client
	o      Options
}

func (s *setup) Schema(format string) (string, error) {
	tables := s.store.creations(s.o)
	switch format {
	case "", "cloudformation":
		return CloudFormation(tables), nil
	case "terraform":
		return Terraform(tables), nil
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
	return s.missing(ctx, func(plan.Table) error { return nil })
}

func (s *setup) Migrate(ctx context.Context) ([]string, error) {
	return s.missing(ctx, func(t plan.Table) error {
		_, err := s.store.ensure(ctx, t, nil, s.o)
		return err
	})
}

// missing calls do for each table that does not exist, and returns the requests that create those for which it succeeds.
func (s *setup) missing(ctx context.Context, do func(t plan.Table) error) (all []string, err error) {
	for _, t := range s.store.allTables(s.o) {
		s.store.engine.tables[t.Name] = t
		description, err := s.store.engine.describe(ctx, t.Name)
		if err == nil && description == nil {
			if err = do(t); err == nil {
				var request []byte
				request, err = json.Marshal(fields(creation(s.store.indexed(t), s.o)))
				all = append(all, "CreateTable "+string(request))
			}
		}
		if err != nil {
			return all, named("schema", err)
		}
	}
	return all, nil
}

func (s *setup) Examine(ctx context.Context) ([]ability.Finding, error) {
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
