package dynamostore

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// CloudFormation returns a template in JSON with a resource for each table. The logical id of a resource is the name of its table as words
// that begin with a capital letter. CloudFormation keeps the tables when their stack is deleted, and when a change would replace them.
func (t Tables) CloudFormation() string {
	resources := map[string]any{}
	for _, in := range t {
		table := cfTable{TableName: *in.TableName, KeySchema: cfKeys(in.KeySchema), BillingMode: in.BillingMode, ProvisionedThroughput: cfThroughputOf(in.ProvisionedThroughput)}
		for _, a := range in.AttributeDefinitions {
			table.AttributeDefinitions = append(table.AttributeDefinitions, cfAttribute{aws.ToString(a.AttributeName), a.AttributeType})
		}
		for _, i := range in.GlobalSecondaryIndexes {
			table.GlobalSecondaryIndexes = append(table.GlobalSecondaryIndexes,
				cfIndex{aws.ToString(i.IndexName), cfKeys(i.KeySchema), cfProjection{i.Projection.ProjectionType}, cfThroughputOf(i.ProvisionedThroughput)})
		}
		for _, i := range in.LocalSecondaryIndexes {
			table.LocalSecondaryIndexes = append(table.LocalSecondaryIndexes,
				cfIndex{aws.ToString(i.IndexName), cfKeys(i.KeySchema), cfProjection{i.Projection.ProjectionType}, nil})
		}
		if s := in.StreamSpecification; s != nil {
			table.StreamSpecification = &cfStream{s.StreamViewType}
		}
		resources[unused(resources, capitalized(*in.TableName))] = cfResource{"AWS::DynamoDB::Table", "Retain", "Retain", table}
	}
	return indented(cfTemplate{"2010-09-09", resources})
}

// capitalized is name without what is neither a letter nor a digit; what follows that begins with a capital letter. It is Table where
// nothing is left.
func capitalized(name string) string {
	var b strings.Builder
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return !letterOrDigit(r) }) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return cmp.Or(b.String(), "Table")
}

func letterOrDigit(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// unused is name, with a number after it where resources has that name already.
func unused(resources map[string]any, name string) string {
	free := name
	for n := 2; resources[free] != nil; n++ {
		free = fmt.Sprint(name, n)
	}
	return free
}

// The parts of a template, with the names that CloudFormation has for them.
type (
	cfTemplate struct {
		AWSTemplateFormatVersion string
		Resources                map[string]any
	}
	cfResource struct {
		Type, DeletionPolicy, UpdateReplacePolicy string
		Properties                                cfTable
	}
	cfTable struct {
		TableName              string
		AttributeDefinitions   []cfAttribute
		KeySchema              []cfKey
		BillingMode            types.BillingMode
		ProvisionedThroughput  *cfThroughput `json:",omitempty"`
		GlobalSecondaryIndexes []cfIndex     `json:",omitempty"`
		LocalSecondaryIndexes  []cfIndex     `json:",omitempty"`
		StreamSpecification    *cfStream     `json:",omitempty"`
	}
	cfAttribute struct {
		AttributeName string
		AttributeType types.ScalarAttributeType
	}
	cfKey struct {
		AttributeName string
		KeyType       types.KeyType
	}
	cfThroughput struct{ ReadCapacityUnits, WriteCapacityUnits int64 }
	cfIndex      struct {
		IndexName             string
		KeySchema             []cfKey
		Projection            cfProjection
		ProvisionedThroughput *cfThroughput `json:",omitempty"`
	}
	cfProjection struct{ ProjectionType types.ProjectionType }
	cfStream     struct{ StreamViewType types.StreamViewType }
)

func cfKeys(schema []types.KeySchemaElement) (keys []cfKey) {
	for _, k := range schema {
		keys = append(keys, cfKey{aws.ToString(k.AttributeName), k.KeyType})
	}
	return keys
}

func cfThroughputOf(t *types.ProvisionedThroughput) *cfThroughput {
	if t == nil {
		return nil
	}
	return &cfThroughput{*t.ReadCapacityUnits, *t.WriteCapacityUnits}
}
