package dynamostore

import (
	"encoding/json"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Terraform returns a configuration in Terraform's JSON syntax, for a file whose name ends in .tf.json, with an aws_dynamodb_table for each
// table. A resource is called like its table, with _ for characters that a resource must not have. Terraform refuses to destroy the
// tables.
func (t Tables) Terraform() string {
	resources := map[string]any{}
	for _, in := range t {
		table := tfTable{Name: literal(*in.TableName), BillingMode: in.BillingMode, tfKeys: tfKeysOf(in.KeySchema), tfThroughput: tfThroughputOf(in.ProvisionedThroughput)}
		for _, a := range in.AttributeDefinitions {
			table.Attributes = append(table.Attributes, tfAttribute{literal(*a.AttributeName), a.AttributeType})
		}
		for _, i := range in.GlobalSecondaryIndexes {
			table.Global = append(table.Global, tfIndex{literal(*i.IndexName), tfKeysOf(i.KeySchema), i.Projection.ProjectionType, tfThroughputOf(i.ProvisionedThroughput)})
		}
		for _, i := range in.LocalSecondaryIndexes {
			keys := tfKeysOf(i.KeySchema)
			keys.Hash = "" // it is the table's
			table.Local = append(table.Local, tfIndex{literal(*i.IndexName), keys, i.Projection.ProjectionType, tfThroughput{}})
		}
		if s := in.StreamSpecification; s != nil {
			table.Stream, table.View = true, s.StreamViewType
		}
		table.Lifecycle.PreventDestroy = true
		resources[unused(resources, identifier(*in.TableName))] = table
	}
	var config tfConfig
	config.Resource.Tables = resources
	return indented(config)
}

// identifier is name with _ for what is no letter, digit, _ or -, and in front of what is no letter.
func identifier(name string) string {
	name = strings.Map(func(r rune) rune {
		if letterOrDigit(r) || r == '-' {
			return r
		}
		return '_'
	}, name)
	if strings.IndexAny(name, "-0123456789") == 0 {
		name = "_" + name
	}
	return name
}

// literal is text as a string of Terraform, where ${ and %{ begin expressions.
func literal(text string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(text)
}

// The parts of a configuration, with the names that Terraform has for them.
type (
	tfConfig struct {
		Resource struct {
			Tables map[string]any `json:"aws_dynamodb_table"`
		} `json:"resource"`
	}
	tfTable struct {
		Name        string            `json:"name"`
		BillingMode types.BillingMode `json:"billing_mode"`
		tfThroughput
		tfKeys
		Attributes []tfAttribute        `json:"attribute"`
		Global     []tfIndex            `json:"global_secondary_index,omitempty"`
		Local      []tfIndex            `json:"local_secondary_index,omitempty"`
		Stream     bool                 `json:"stream_enabled,omitempty"`
		View       types.StreamViewType `json:"stream_view_type,omitempty"`
		Lifecycle  struct {
			PreventDestroy bool `json:"prevent_destroy"`
		} `json:"lifecycle"`
	}
	tfAttribute struct {
		Name string                    `json:"name"`
		Type types.ScalarAttributeType `json:"type"`
	}
	tfIndex struct {
		Name string `json:"name"`
		tfKeys
		Projection types.ProjectionType `json:"projection_type"`
		tfThroughput
	}
	tfKeys struct {
		Hash  string `json:"hash_key,omitempty"`
		Range string `json:"range_key,omitempty"`
	}
	tfThroughput struct {
		Read  int64 `json:"read_capacity,omitempty"`
		Write int64 `json:"write_capacity,omitempty"`
	}
)

func tfKeysOf(schema []types.KeySchemaElement) (keys tfKeys) {
	for _, k := range schema {
		if name := literal(*k.AttributeName); k.KeyType == types.KeyTypeHash {
			keys.Hash = name
		} else {
			keys.Range = name
		}
	}
	return keys
}

func tfThroughputOf(t *types.ProvisionedThroughput) (units tfThroughput) {
	if t != nil {
		units = tfThroughput{*t.ReadCapacityUnits, *t.WriteCapacityUnits}
	}
	return units
}

// indented is v in JSON.
func indented(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		panic(err) // v has strings, numbers and booleans only
	}
	return b.String()
}
