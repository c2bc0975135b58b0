package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/annals-go/annals/internal/findings"
	"github.com/annals-go/annals/internal/quote"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	activeSoon = 100 * time.Millisecond // first wait for a table that is being created
	activeMost = 2 * time.Second
)

// prepareTables creates missing tables when o says so, waits until each table can be used, and verifies it. created reports that all
// tables are new.
func (s *Store) prepareTables(ctx context.Context, tables []plan.Table, o Options) (created bool, err error) {
	created = len(tables) > 0
	e := s.engine
	for _, t := range tables {
		e.tables[t.Name] = t
		description, err := e.describe(ctx, t.Name)
		if err != nil {
			return false, err
		}
		created = created && description == nil
		if description == nil && (!o.CreateTables || o.ReadOnly) {
			return false, noTable(t)
		}
		if description, err = s.ensure(ctx, t, description, o); err == nil {
			err = verify(t, description)
		}
		if err != nil {
			return false, err
		}
		e.described[t.Name] = description
	}
	return created, nil
}

func noTable(t plan.Table) error {
	return &findings.Fault{Code: "table", Schema: true, Found: fmt.Sprintf("table %q does not exist", t.Name)}
}

// ensure creates t if its description is nil, and waits until it can be used.
func (s *Store) ensure(ctx context.Context, t plan.Table, description *types.TableDescription, o Options) (*types.TableDescription, error) {
	if description == nil {
		if err := s.engine.create(ctx, s.indexed(t), o); err != nil {
			return nil, err
		}
	}
	return s.wait(ctx, t, description, active)
}

// wait returns the description of t when it is ready; description is the newest that is known.
func (s *Store) wait(ctx context.Context, t plan.Table, description *types.TableDescription, ready func(*types.TableDescription) bool) (_ *types.TableDescription, err error) {
	for wait := time.Duration(0); !ready(description); wait = min(max(2*wait, activeSoon), activeMost) {
		if err := backoff.Sleep(ctx, wait); err != nil {
			return nil, stopped(fmt.Errorf("table %q cannot be used yet: %w", t.Name, err))
		}
		if description, err = s.engine.describe(ctx, t.Name); err != nil {
			return nil, err
		}
	}
	return description, nil
}

// describe returns the description of a table; nil when the table does not exist.
func (e *engine) describe(ctx context.Context, name string) (*types.TableDescription, error) {
	out, err := read(ctx, e, func() []string { return []string{partition("d", name, "")} }, e.client.DescribeTable, &dynamodb.DescribeTableInput{TableName: &name})
	if missing := (*types.ResourceNotFoundException)(nil); errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out.Table, nil
}

func active(t *types.TableDescription) bool {
	if t == nil || t.TableStatus != types.TableStatusActive && t.TableStatus != types.TableStatusUpdating {
		return false
	}
	for _, i := range t.GlobalSecondaryIndexes {
		if i.IndexStatus == types.IndexStatusCreating {
			return false
		}
	}
	return true
}

// create creates t. It is no error when another process has created it meanwhile.
func (e *engine) create(ctx context.Context, t plan.Table, o Options) error {
	in := creation(t, o)
	_, _, err := e.run(ctx, request{
		keys: func() []string { return []string{partition("d", t.Name, "")} },
		send: func(context.Context) error { _, err := e.client.CreateTable(ctx, in, once); return err },
	})
	if exists := (*types.ResourceInUseException)(nil); errors.As(err, &exists) {
		return nil
	}
	return err
}

// verify returns an error that names every difference between a table and what the layout needs.
func verify(want plan.Table, have *types.TableDescription) error {
	attribute := map[string]types.ScalarAttributeType{}
	for _, d := range have.AttributeDefinitions {
		attribute[aws.ToString(d.AttributeName)] = d.AttributeType
	}
	faults := []error{keyFault(fmt.Sprintf("table %q", want.Name), want.Hash, want.Range, have.KeySchema, attribute)}
	for _, i := range want.Indexes {
		name := fmt.Sprintf("index %q of table %q", i.Name, want.Name)
		if i.Local {
			name = "local " + name
		}
		h, ok := theIndex(have, i)
		if !ok {
			faults = append(faults, misfit("index", name+" does not exist", addIndex(want, i)))
			continue
		}
		sort := i.Range
		for _, k := range []plan.Key{want.Hash, want.Range} {
			if i.Range.Name == "" && hasRange(h.KeySchema, k) {
				sort = k
			}
		}
		faults = append(faults, keyFault(name, i.Hash, sort, h.KeySchema, attribute))
		if whole := h.Projection != nil && h.Projection.ProjectionType == types.ProjectionTypeAll; !whole && !i.KeysOnly && !i.Local {
			faults = append(faults, misfit("index", name+" does not project all attributes", "delete the index and create it again with all attributes"))
		}
	}
	return errors.Join(faults...)
}

// misfit is a difference between a table and what the layout needs.
func misfit(code, found, do string) error {
	return &findings.Fault{Code: code, Schema: true, Found: found, Do: do}
}

// addIndex is how an index is added to a table that exists.
func addIndex(t plan.Table, i plan.Index) string {
	if i.Local {
		return "a local index is made with its table only: copy the items to a new table"
	}
	return fmt.Sprintf("schema apply adds it, or aws dynamodb update-table --table-name %s, with --attribute-definitions and --global-secondary-index-updates as the schema has them", quote.Text(t.Name))
}

// theIndex returns the index of a table with the name of i that is local or global as i is.
func theIndex(table *types.TableDescription, i plan.Index) (types.GlobalSecondaryIndexDescription, bool) {
	all := table.GlobalSecondaryIndexes
	if i.Local {
		all = nil
		for _, h := range table.LocalSecondaryIndexes {
			all = append(all, types.GlobalSecondaryIndexDescription{IndexName: h.IndexName, KeySchema: h.KeySchema, Projection: h.Projection})
		}
	}
	for _, h := range all {
		if aws.ToString(h.IndexName) == i.Name {
			return h, true
		}
	}
	return types.GlobalSecondaryIndexDescription{}, false
}

// hasRange reports whether k is the range key of a schema.
func hasRange(schema []types.KeySchemaElement, k plan.Key) bool {
	return slices.ContainsFunc(schema, func(e types.KeySchemaElement) bool {
		return e.KeyType == types.KeyTypeRange && aws.ToString(e.AttributeName) == k.Name
	})
}

func keyFault(what string, hash, sort plan.Key, have []types.KeySchemaElement, attribute map[string]types.ScalarAttributeType) error {
	var keys [2]string
	for _, k := range have {
		place := 0
		if k.KeyType == types.KeyTypeRange {
			place = 1
		}
		keys[place] = fmt.Sprintf("%s (%s)", aws.ToString(k.AttributeName), attribute[aws.ToString(k.AttributeName)])
	}
	var faults []error
	for place, want := range []plan.Key{hash, sort} {
		role, expected := [2]string{"hash", "range"}[place], ""
		if want.Name != "" {
			expected = fmt.Sprintf("%s (%s)", want.Name, want.Type())
		}
		if keys[place] != expected {
			faults = append(faults, misfit("key", fmt.Sprintf("%s has the %s key %q, not %q", what, role, keys[place], expected), ""))
		}
	}
	return errors.Join(faults...)
}
