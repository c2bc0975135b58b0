package dynamostore

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// terraform returns a configuration with an aws_dynamodb_table for each of the tables. A resource is called like its table, with _ for characters that a
// resource must not have. Terraform refuses to destroy the tables.
func terraform(tables []*dynamodb.CreateTableInput) string {
	resources := block{}
	for _, in := range tables {
		table := tfBlock(in.TableName, in.KeySchema, in.ProvisionedThroughput)
		table["billing_mode"], table["lifecycle"] = in.BillingMode, block{"prevent_destroy": true}
		var attributes, global, local []block
		for _, a := range in.AttributeDefinitions {
			attributes = append(attributes, block{"name": literal(*a.AttributeName), "type": a.AttributeType})
		}
		for _, i := range in.GlobalSecondaryIndexes {
			index := tfBlock(i.IndexName, i.KeySchema, i.ProvisionedThroughput)
			index["projection_type"] = i.Projection.ProjectionType
			global = append(global, index)
		}
		for _, i := range in.LocalSecondaryIndexes {
			index := tfBlock(i.IndexName, i.KeySchema, nil)
			index["projection_type"] = i.Projection.ProjectionType
			delete(index, "hash_key") // it is the table's
			local = append(local, index)
		}
		for name, list := range map[string][]block{"attribute": attributes, "global_secondary_index": global, "local_secondary_index": local} {
			if list != nil {
				table[name] = list
			}
		}
		if s := in.StreamSpecification; s != nil {
			table["stream_enabled"], table["stream_view_type"] = true, s.StreamViewType
		}
		resources[unused(resources, identifier(*in.TableName))] = table
	}
	return indented(block{"resource": block{"aws_dynamodb_table": resources}})
}

// tfBlock is the block of a table or index: its name, keys and provisioned capacity.
func tfBlock(name *string, schema []types.KeySchemaElement, t *types.ProvisionedThroughput) block {
	b := block{"name": literal(*name)}
	for _, k := range schema {
		b[strings.ToLower(string(k.KeyType))+"_key"] = literal(*k.AttributeName)
	}
	if t != nil {
		b["read_capacity"], b["write_capacity"] = *t.ReadCapacityUnits, *t.WriteCapacityUnits
	}
	return b
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
