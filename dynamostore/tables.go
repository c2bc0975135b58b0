package dynamostore

import (
	"slices"

	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/subscription"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// creations are the requests that create all tables.
func (s *Store) creations(o Options) (all []*dynamodb.CreateTableInput) {
	for _, t := range s.allTables(o) {
		all = append(all, creation(s.indexed(t), o))
	}
	return all
}

// dataTables are the tables of the layout, and then those of state types beside them.
func (s *Store) dataTables() []plan.Table {
	all := slices.Clone(s.offer.Tables)
	for _, own := range s.ownTables() {
		all = append(all, own.Table)
	}
	return all
}

// allTables are all tables of a store with the options o.
func (s *Store) allTables(o Options) []plan.Table {
	all := s.dataTables()
	if name := o.Subscriptions.Table; name != "" {
		all = append(all, subscription.Table(name))
	}
	return all
}

// creation is the request that creates t.
func creation(t plan.Table, o Options) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{TableName: &t.Name, KeySchema: keySchema(t.Hash, t.Range), BillingMode: types.BillingModePayPerRequest}
	var throughput *types.ProvisionedThroughput
	if o.ReadUnits != 0 || o.WriteUnits != 0 {
		in.BillingMode = types.BillingModeProvisioned
		throughput = &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(max(o.ReadUnits, 1)), WriteCapacityUnits: aws.Int64(max(o.WriteUnits, 1))}
	}
	in.ProvisionedThroughput = throughput
	known := map[string]bool{}
	define := func(keys ...plan.Key) {
		for _, k := range keys {
			if k.Name != "" && !known[k.Name] {
				known[k.Name] = true
				in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(k.Name), AttributeType: k.Type()})
			}
		}
	}
	define(t.Hash, t.Range)
	for _, i := range t.Indexes {
		define(i.Hash, i.Range)
		projected := types.ProjectionTypeAll
		if i.KeysOnly {
			projected = types.ProjectionTypeKeysOnly
		}
		name, keys, projection := aws.String(i.Name), keySchema(i.Hash, i.Range), &types.Projection{ProjectionType: projected}
		if i.Local {
			in.LocalSecondaryIndexes = append(in.LocalSecondaryIndexes, types.LocalSecondaryIndex{IndexName: name, KeySchema: keys, Projection: projection})
			continue
		}
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{IndexName: name, KeySchema: keys, Projection: projection, ProvisionedThroughput: throughput})
	}
	if t.Stream && (o.Streams || o.Subscriptions.Table != "") {
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewImage}
	}
	return in
}

func keySchema(hash, sort plan.Key) []types.KeySchemaElement {
	schema := []types.KeySchemaElement{{AttributeName: aws.String(hash.Name), KeyType: types.KeyTypeHash}}
	if sort.Name != "" {
		schema = append(schema, types.KeySchemaElement{AttributeName: aws.String(sort.Name), KeyType: types.KeyTypeRange})
	}
	return schema
}
