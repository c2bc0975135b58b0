package dynamostore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/akka"
	"github.com/annals-go/annals/dynamostore/akka0"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// ownPartition has the events of an id in two partitions, ten after ten.
var ownPartition = j5ik2o.PartitionKey{
	Key: func(id annals.PersistenceID, n annals.SeqNr, _ j5ik2o.Sharding) (string, error) {
		return fmt.Sprintf("%s/%d", id, n/10%2), nil
	},
	Keys: func(id annals.PersistenceID, _ j5ik2o.Sharding) ([]string, error) {
		return []string{string(id) + "/0", string(id) + "/1"}, nil
	},
}

// ownSort has keys that do not sort like the numbers.
var ownSort = j5ik2o.SortKey{Key: func(id annals.PersistenceID, n annals.SeqNr, _ j5ik2o.Sharding) (string, error) {
	return fmt.Sprintf("%03d/%d", n*7919%1009, n), nil
}}

// ownKeys is as ownSort for tables of esa.
var ownKeys = esa.KeyResolver{
	PartitionKey: func(entityType, value string, shards int) string {
		return fmt.Sprintf("%s/%d/%d", entityType, len(value)%shards, shards)
	},
	SortKey: func(entityType, value string, n annals.SeqNr) string {
		return fmt.Sprintf("%s/%s/%03d/%d", entityType, value, n*7919%1009, n)
	},
}

// scheduled are the layouts with every option.
func scheduled() map[string]plan.Layout {
	layouts := map[string]plan.Layout{
		"commit": commit.Layout{Table: "t"}, "commit, index": commit.Layout{Table: "t", Index: "slices"},
		"akka":             akka.Layout{},
		"akka, old format": akka.Layout{Journal: akka.Journal{Old: true}, Snapshot: akka.Snapshot{Old: true}},
		"akka, gaps":       akka.Layout{Journal: akka.Journal{Gaps: true}},
		"akka, by time":    akka.Layout{Journal: akka.Journal{Name: "other", OtherNames: []string{"third"}}, Snapshot: akka.Snapshot{ByTime: true}},
		"akka, id index":   akka.Layout{Journal: akka.Journal{IDIndex: "ids"}},
		"akka, few ahead":  akka.Layout{Journal: akka.Journal{ReplayAhead: 1, SequenceShards: 2}},
		"akka0":            akka0.Layout{Table: "t", SequenceShards: 3}, "akka0, permanent": akka0.Layout{Table: "t", SequenceShards: 3, Permanent: true},
	}
	for peer, of := range map[string]esa.Layout{"go": {}, "js": {Peer: esa.JS}, "js 3": {Peer: esa.JS3}, "rust": {Peer: esa.Rust}, "rust 3": {Peer: esa.Rust3}, "rust 5": {Peer: esa.Rust5}, "java": {Peer: esa.Java}, "seed": {Peer: esa.Seed}} {
		for option, change := range map[string]func(l *esa.Layout){
			"":                  func(*esa.Layout) {},
			", write ids":       func(l *esa.Layout) { l.WriteIDs = true },
			", copies":          func(l *esa.Layout) { l.Snapshot.Keep = 2 },
			", expiring copies": func(l *esa.Layout) { l.Snapshot.Keep, l.Snapshot.Expire = 1, time.Hour },
			", gaps":            func(l *esa.Layout) { l.Journal.Gaps = true },
			", all":             func(l *esa.Layout) { l.WriteIDs, l.Journal.Gaps, l.Snapshot.Keep = true, true, 2 },
			", plain":           func(l *esa.Layout) { l.Format = esa.Plain() },
			", value":           func(l *esa.Layout) { l.BareAID = true },
			", micros":          func(l *esa.Layout) { l.Journal.OccurredAt, l.Types = time.Microsecond, []string{"Other-Thing"} },
			", own keys":        func(l *esa.Layout) { l.Keys = ownKeys },
		} {
			l := of
			if l.Peer != esa.Rust5 {
				l.Shards = 3
			}
			change(&l)
			if l.Peer == esa.Rust5 && (l.Format.Event != nil || l.BareAID || l.Keys.SortKey != nil || l.Types != nil) || l.Peer == esa.Seed && l.Snapshot.Keep > 0 {
				continue // the tables of these libraries have no such settings
			}
			layouts["esa, "+peer+option] = l
		}
	}
	number := j5ik2o.SequenceNumberBased
	for option, j := range map[string]j5ik2o.Journal{
		"":                    {},
		", number":            {PartitionKey: number, ShardCount: 3},
		", number and number": {PartitionKey: number, SortKey: j5ik2o.ByNumber, ShardCount: 3},
		", number and plain":  {PartitionKey: number, SortKey: j5ik2o.BySeqNr, ShardCount: 3},
		", plain":             {SortKey: j5ik2o.BySeqNr},
		", padded":            {SortKey: j5ik2o.BySeqNrPadded},
		", own":               {PartitionKey: ownPartition, SortKey: j5ik2o.BySeqNrPadded},
		", own, unordered":    {PartitionKey: j5ik2o.PartitionKey{Key: ownPartition.Key}, SortKey: ownSort},
	} {
		for _, hard := range []bool{false, true} {
			if j.HardDelete = hard; hard {
				option += ", hard delete"
			}
			l := j5ik2o.Layout{ShardCount: 1 << 20, Journal: j, Snapshot: j5ik2o.Snapshot{PartitionKey: j.PartitionKey, SortKey: j.SortKey, ShardCount: j.ShardCount}}
			layouts["j5ik2o"+option] = l
			l.State = j5ik2o.State{SameRevision: true, Prefixes: []string{"State"}, NoSortKey: true}
			layouts["j5ik2o, states"+option] = l
			l.State = j5ik2o.State{}
			l.ByIndex, l.State.Tombstones = true, true
			layouts["j5ik2o, index"+option] = l
			l.ByIndex, l.Snapshot = false, j5ik2o.Snapshot{Legacy: true}
			layouts["j5ik2o, legacy"+option] = l
			if l.NoIndex = true; (j.SortKey.Key == nil || j.SortKey.Ordered) && (j.PartitionKey.Key == nil || j.PartitionKey.Keys != nil) {
				layouts["j5ik2o, no index"+option] = l
			}
		}
	}
	return layouts
}

// Reads are complete in random schedules, with every option of every layout.
func TestSchedules(t *testing.T) {
	t.Parallel()
	plantest.RandomSchedules(t, scheduled(), func(x plan.Executor, tables []plan.Table, s plantest.Service) plan.Executor {
		e := &engine{client: service{service: s}, clock: s.Clock, tables: map[string]plan.Table{}, slots: make(chan struct{}, 1), attempts: defaultAttempts}
		for _, table := range tables {
			e.tables[table.Name] = table
		}
		return retrying{x, e}
	})
}

// retrying is an Executor whose writes the engine sends.
type retrying struct {
	plan.Executor
	engine *engine
}

func (x retrying) Now() time.Time { return x.engine.Now() }

func (x retrying) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	return x.engine.Write(ctx, w)
}

func (x retrying) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, x)
}

// service is a Client that only writes.
type service struct {
	Client
	service plantest.Service
}

func (s service) write(ctx context.Context, op plan.Op) error {
	switch a := s.service.Send(ctx, []plan.Op{op}, ""); {
	case a.Err != nil:
		return a.Err
	case a.Code != "":
		return &smithy.GenericAPIError{Code: a.Code}
	case a.Reasons != nil:
		return &types.ConditionalCheckFailedException{Item: a.Old[0]}
	}
	return nil
}

func (s service) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return &dynamodb.PutItemOutput{}, s.write(ctx, plan.Op{Table: *in.TableName, Put: in.Item, Condition: aws.ToString(in.ConditionExpression), Names: in.ExpressionAttributeNames, Values: in.ExpressionAttributeValues})
}

func (s service) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return &dynamodb.UpdateItemOutput{}, s.write(ctx, plan.Op{Table: *in.TableName, Key: in.Key, Update: *in.UpdateExpression, Condition: aws.ToString(in.ConditionExpression), Names: in.ExpressionAttributeNames, Values: in.ExpressionAttributeValues})
}

func (s service) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return &dynamodb.DeleteItemOutput{}, s.write(ctx, plan.Op{Table: *in.TableName, Key: in.Key, Delete: true, Condition: aws.ToString(in.ConditionExpression), Names: in.ExpressionAttributeNames, Values: in.ExpressionAttributeValues})
}

func (s service) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	ops := make([]plan.Op, len(in.TransactItems))
	for i, item := range in.TransactItems {
		switch {
		case item.Put != nil:
			ops[i] = plan.Op{Table: *item.Put.TableName, Put: item.Put.Item, Condition: aws.ToString(item.Put.ConditionExpression), Names: item.Put.ExpressionAttributeNames, Values: item.Put.ExpressionAttributeValues}
		case item.Update != nil:
			ops[i] = plan.Op{Table: *item.Update.TableName, Key: item.Update.Key, Update: *item.Update.UpdateExpression, Condition: aws.ToString(item.Update.ConditionExpression), Names: item.Update.ExpressionAttributeNames, Values: item.Update.ExpressionAttributeValues}
		case item.Delete != nil:
			ops[i] = plan.Op{Table: *item.Delete.TableName, Key: item.Delete.Key, Delete: true, Condition: aws.ToString(item.Delete.ConditionExpression), Names: item.Delete.ExpressionAttributeNames, Values: item.Delete.ExpressionAttributeValues}
		default:
			c := item.ConditionCheck
			ops[i] = plan.Op{Table: *c.TableName, Key: c.Key, Condition: aws.ToString(c.ConditionExpression), Names: c.ExpressionAttributeNames, Values: c.ExpressionAttributeValues}
		}
	}
	a := s.service.Send(ctx, ops, *in.ClientRequestToken)
	switch {
	case a.Err != nil:
		return nil, a.Err
	case a.Code != "":
		return nil, &smithy.GenericAPIError{Code: a.Code}
	case a.Reasons == nil:
		return &dynamodb.TransactWriteItemsOutput{}, nil
	}
	canceled := &types.TransactionCanceledException{}
	for i, code := range a.Reasons {
		canceled.CancellationReasons = append(canceled.CancellationReasons, types.CancellationReason{Code: &code, Item: a.Old[i]})
	}
	return nil, canceled
}
