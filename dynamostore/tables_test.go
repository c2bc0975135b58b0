package dynamostore_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The tables that the texts of a schema describe are the same, and a store opens on them.
func TestSchema(t *testing.T) {
	t.Parallel()
	bind := func(annals.State) (annals.Columns, error) { return nil, nil }
	own := func(o dynamostore.Options) dynamostore.Options {
		o.StateTypes = map[string]annals.StateType[*dynamostore.Tx]{
			"A": {Table: "own" + rand.Text(), Columns: []string{"color", "age"}, Bind: bind},
			"B": {Columns: []string{"color"}, Bind: bind},
		}
		o.Findable = map[string][]dynamostore.Findable{"A": {{Column: "color"}}, "B": {{Column: "color"}}}
		return o
	}
	provisioned := dynamostore.Options{Streams: true, ReadUnits: 7, WriteUnits: 5}
	journal := func(j j5ik2o.Journal) j5ik2o.Layout {
		j.Table = "s" + rand.Text()
		return j5ik2o.Layout{Journal: j, Snapshot: j5ik2o.Snapshot{Off: true}, State: j5ik2o.State{Off: true}}
	}
	unsorted := j5ik2o.Layout{Journal: j5ik2o.Journal{Off: true}, Snapshot: j5ik2o.Snapshot{Table: "s" + rand.Text(), Legacy: true},
		State: j5ik2o.State{Table: "s" + rand.Text(), NoSortKey: true}}
	for name, c := range map[string]struct {
		layout dynamostore.Layout
		o      dynamostore.Options
		tables int
	}{
		"commit":                      {newCommit(), dynamostore.Options{}, 1},
		"commit with an index":        {newIndexed(), dynamostore.Options{Streams: true}, 1},
		"commit with types":           {newIndexed(), own(provisioned), 2},
		"j5ik2o":                      {newJ5ik2o(j5ik2o.Journal{}, false)(), own(dynamostore.Options{Streams: true}), 4},
		"j5ik2o, provisioned":         {newJ5ik2o(j5ik2o.Journal{}, false)(), provisioned, 3},
		"j5ik2o by numbers":           {journal(j5ik2o.Journal{SortKey: j5ik2o.BySeqNr, Columns: j5ik2o.JournalColumns{SequenceNr: "%{number} <&>"}}), dynamostore.Options{}, 1},
		"j5ik2o with names of others": {journal(j5ik2o.Journal{Columns: j5ik2o.JournalColumns{PartitionKey: "${key}"}}), dynamostore.Options{}, 1},
		"j5ik2o, older tables":        {unsorted, dynamostore.Options{}, 2},
		"akka":                        {akkaTables(""), dynamostore.Options{Streams: true}, 2},
		"akka0":                       {akka0.Layout{Table: "h" + rand.Text()}, dynamostore.Options{Streams: true}, 1},
		"esa":                         {newESA(esa.Layout{Peer: esa.JS3, Shards: 3})(), dynamostore.Options{Streams: true}, 2},
		"esa, rust 5":                 {newRust5(0, false)(), dynamostore.Options{Streams: true}, 3},
		"akka, provisioned":           {akkaTables("persistence-ids-idx"), provisioned, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := func(format string) string {
				s, err := dynamostore.NewSetup(nil, c.layout, c.o)
				if err != nil {
					t.Fatal(err)
				}
				text, err := s.Schema(format)
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			var tables []*dynamodb.CreateTableInput
			if decode(t, schema("json"), &tables); len(tables) != c.tables {
				t.Fatalf("%d tables, want %d", len(tables), c.tables)
			}
			for text, parsed := range map[string][]*dynamodb.CreateTableInput{"CloudFormation": fromCloudFormation(t, schema("")), "Terraform": fromTerraform(t, schema("terraform"))} {
				if !slices.EqualFunc(parsed, sorted(tables), func(a, b *dynamodb.CreateTableInput) bool { return reflect.DeepEqual(a, b) }) {
					t.Errorf("%s has\n%s\nwant\n%s", text, shown(t, parsed), shown(t, tables))
				}
				for _, in := range parsed {
					if _, err := client(t).CreateTable(t.Context(), in); err != nil {
						t.Fatalf("%s: create %s: %v", text, *in.TableName, err)
					}
				}
				s, err := dynamostore.Open(t.Context(), client(t), c.layout, c.o)
				if err != nil {
					t.Fatalf("%s: open: %v", text, err)
				}
				_ = s.Close()
				for _, in := range parsed {
					if _, err := client(t).DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: in.TableName}); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

func akkaTables(index string) akka.Layout {
	prefix := "g" + rand.Text()
	return akka.Layout{Journal: akka.Journal{Table: prefix + "j", IDIndex: index}, Snapshot: akka.Snapshot{Table: prefix + "s"}}
}

// Names of resources have no characters that a tool refuses, and are different.
func TestNamesOfResources(t *testing.T) {
	t.Parallel()
	var tables []*dynamodb.CreateTableInput
	for _, name := range []string{"akka-persistence.snapshot", "akka.persistence-snapshot", "2024", "-_.", "._-"} {
		tables = append(tables, &dynamodb.CreateTableInput{TableName: &name})
	}
	for _, c := range []struct {
		text string
		want []string
	}{
		{dynamostore.CloudFormationOf(tables), []string{"2024", "AkkaPersistenceSnapshot", "AkkaPersistenceSnapshot2", "Table", "Table2"}},
		{dynamostore.TerraformOf(tables), []string{"_-__", "_2024", "__-", "akka-persistence_snapshot", "akka_persistence-snapshot"}},
	} {
		var got struct {
			Resources map[string]any
			Resource  map[string]map[string]any
		}
		if err := json.Unmarshal([]byte(c.text), &got); err != nil {
			t.Fatal(err)
		}
		names := slices.Sorted(maps.Keys(got.Resources))
		if got.Resource != nil {
			names = slices.Sorted(maps.Keys(got.Resource["aws_dynamodb_table"]))
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%q, want %q", names, c.want)
		}
	}
}

func TestSetupWithWrongSettings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layout dynamostore.Layout
		o      dynamostore.Options
	}{
		"no layout":    {nil, dynamostore.Options{}},
		"a layout":     {commit.Layout{FillIndex: true}, dynamostore.Options{}},
		"a state type": {commit.Layout{}, dynamostore.Options{Findable: map[string][]dynamostore.Findable{"A": {{Column: "color"}}}}},
	} {
		if _, err := dynamostore.NewSetup(nil, c.layout, c.o); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := dynamostore.NewSetup(nil, commit.Layout{}, dynamostore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, pending := s.Pending(t.Context())
	_, migrate := s.Migrate(t.Context())
	_, examine := s.Examine(t.Context())
	for _, err := range []error{pending, migrate, examine} {
		if !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("without a client: %v", err)
		}
	}
}

// fromCloudFormation are the tables of a template: its properties are named like the fields of the request.
func fromCloudFormation(t *testing.T, text string) (tables []*dynamodb.CreateTableInput) {
	t.Helper()
	var template struct {
		AWSTemplateFormatVersion string
		Resources                map[string]struct {
			Type, DeletionPolicy, UpdateReplacePolicy string
			Properties                                *dynamodb.CreateTableInput
		}
	}
	decode(t, text, &template)
	for name, r := range template.Resources {
		if r.Type != "AWS::DynamoDB::Table" || r.DeletionPolicy != "Retain" || r.UpdateReplacePolicy != "Retain" || strings.ContainsAny(name, "-_.") {
			t.Errorf("resource %s: %+v", name, r)
		}
		if s := r.Properties.StreamSpecification; s != nil {
			s.StreamEnabled = aws.Bool(true) // a template has no property for it
		}
		tables = append(tables, r.Properties)
	}
	return sorted(tables)
}

// fromTerraform are the tables of a configuration, as the AWS provider makes requests of its arguments.
func fromTerraform(t *testing.T, text string) (tables []*dynamodb.CreateTableInput) {
	t.Helper()
	type index struct {
		Name       string
		Hash       string               `json:"hash_key"`
		Range      string               `json:"range_key"`
		Projection types.ProjectionType `json:"projection_type"`
		Read       *int64               `json:"read_capacity"`
		Write      *int64               `json:"write_capacity"`
	}
	var config struct {
		Resource struct {
			Tables map[string]struct {
				index
				BillingMode types.BillingMode `json:"billing_mode"`
				Attribute   []struct{ Name, Type string }
				Global      []index              `json:"global_secondary_index"`
				Local       []index              `json:"local_secondary_index"`
				Stream      *bool                `json:"stream_enabled"`
				View        types.StreamViewType `json:"stream_view_type"`
				Lifecycle   struct {
					PreventDestroy bool `json:"prevent_destroy"`
				}
			} `json:"aws_dynamodb_table"`
		}
	}
	decode(t, text, &config)
	literal := func(s string) *string {
		if rest := strings.NewReplacer("$${", "", "%%{", "").Replace(s); strings.Contains(rest, "${") || strings.Contains(rest, "%{") {
			t.Errorf("%q has an expression", s)
		}
		s = strings.NewReplacer("$${", "${", "%%{", "%{").Replace(s)
		return &s
	}
	keys := func(hash, sort string) (schema []types.KeySchemaElement) {
		schema = append(schema, types.KeySchemaElement{AttributeName: literal(hash), KeyType: types.KeyTypeHash})
		if sort != "" {
			schema = append(schema, types.KeySchemaElement{AttributeName: literal(sort), KeyType: types.KeyTypeRange})
		}
		return schema
	}
	units := func(i index) *types.ProvisionedThroughput {
		if i.Read == nil && i.Write == nil {
			return nil
		}
		return &types.ProvisionedThroughput{ReadCapacityUnits: i.Read, WriteCapacityUnits: i.Write}
	}
	for _, r := range config.Resource.Tables {
		in := &dynamodb.CreateTableInput{TableName: &r.Name, BillingMode: r.BillingMode, KeySchema: keys(r.Hash, r.Range), ProvisionedThroughput: units(r.index)}
		for _, a := range r.Attribute {
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: literal(a.Name), AttributeType: types.ScalarAttributeType(a.Type)})
		}
		for _, i := range r.Global {
			in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{IndexName: &i.Name, KeySchema: keys(i.Hash, i.Range),
				Projection: &types.Projection{ProjectionType: i.Projection}, ProvisionedThroughput: units(i)})
		}
		for _, i := range r.Local {
			in.LocalSecondaryIndexes = append(in.LocalSecondaryIndexes, types.LocalSecondaryIndex{IndexName: &i.Name, KeySchema: keys(r.Hash, i.Range),
				Projection: &types.Projection{ProjectionType: i.Projection}})
		}
		if r.Stream != nil {
			in.StreamSpecification = &types.StreamSpecification{StreamEnabled: r.Stream, StreamViewType: r.View}
		}
		if !r.Lifecycle.PreventDestroy {
			t.Errorf("%s may be destroyed", r.Name)
		}
		tables = append(tables, in)
	}
	return sorted(tables)
}

// decode refuses what is not in v.
func decode(t *testing.T, text string, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

func sorted(tables []*dynamodb.CreateTableInput) []*dynamodb.CreateTableInput {
	return slices.SortedFunc(slices.Values(tables), func(a, b *dynamodb.CreateTableInput) int { return strings.Compare(*a.TableName, *b.TableName) })
}

func shown(t *testing.T, tables []*dynamodb.CreateTableInput) string {
	t.Helper()
	text, err := json.MarshalIndent(sorted(tables), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
