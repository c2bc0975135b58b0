package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	writeChunk       = 25      // items in a BatchWriteItem
	transactionItems = 100     // in a TransactWriteItems
	transactionBytes = 4 << 20 // in all items of a TransactWriteItems
)

const (
	// keepsTime is how long a transaction of events or states is sent with one time. A transaction whose answer was lost keeps its time, so that
	// it stays the same request. Sent later it could become visible later than the layout's Lateness allows.
	keepsTime = 15 * time.Second
	// keepsToken is how long other transactions are sent with one token, which the service forgets after ten minutes.
	keepsToken = 9 * time.Minute
	// stampedFor is the longest time of a try of a transaction, or of another write with a stamp, with the waits for credentials and a connection.
	// So a write ends that long after its last try began, before the service forgets its token and its time is too old.
	stampedFor = plan.StampedFor
)

func (e *engine) Write(ctx context.Context, w plan.Write) (plan.Outcome, error) {
	return e.write(ctx, w, nil)
}

// write stores w together with the caller's own items.
func (e *engine) write(ctx context.Context, w plan.Write, own []types.TransactWriteItem) (plan.Outcome, error) {
	if len(w.Ops) > 1 || w.Token != "" || len(own) > 0 {
		return only(e.transact(ctx, w.Token, []plan.Write{w}, own))
	}
	if err := plan.Fits(w.Ops[0].Put); err != nil {
		return plan.Outcome{}, err
	}
	var old plan.Item
	r := request{
		keys: func() []string { return e.keysOf(w.Ops) },
		send: func(ctx context.Context) (err error) { old, err = e.single(ctx, &w.Ops[0]); return err },
	}
	if stamp := e.stamping(w.Ops); stamp != nil {
		r.prepare, r.within = func(bool) { stamp() }, stampedFor
	}
	open, c, err := e.run(ctx, r)
	switch {
	case err == nil:
		return plan.Outcome{Old: make([]plan.Item, 1)}, nil
	case c != refused:
		return plan.Outcome{}, err
	}
	return only(plan.Judge([]plan.Write{w}, []plan.Item{standing(old)}, false, open, errors.Unwrap(err)))
}

// only is the outcome of the one write that was sent.
func only(outcomes []plan.Outcome, err error) (plan.Outcome, error) {
	if err != nil {
		return plan.Outcome{}, err
	}
	return outcomes[0], nil
}

// single sends a write of one op. failed is the item that made the condition fail; nil when there was no item.
func (e *engine) single(ctx context.Context, op *plan.Op) (failed plan.Item, err error) {
	condition, onFailure := conditionOf(op)
	var used *types.ConsumedCapacity
	switch {
	case op.Put != nil:
		var out *dynamodb.PutItemOutput
		if out, err = e.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &op.Table, Item: op.Put, ConditionExpression: condition, ExpressionAttributeNames: op.Names,
			ExpressionAttributeValues: op.Values, ReturnValuesOnConditionCheckFailure: onFailure, ReturnConsumedCapacity: e.capacity()}, once); err == nil {
			used = out.ConsumedCapacity
		}
	case op.Update != "":
		var out *dynamodb.UpdateItemOutput
		if out, err = e.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &op.Table, Key: op.Key, UpdateExpression: &op.Update, ConditionExpression: condition,
			ExpressionAttributeNames: op.Names, ExpressionAttributeValues: op.Values, ReturnValuesOnConditionCheckFailure: onFailure, ReturnConsumedCapacity: e.capacity()}, once); err == nil {
			used = out.ConsumedCapacity
		}
	default:
		var out *dynamodb.DeleteItemOutput
		if out, err = e.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &op.Table, Key: op.Key, ConditionExpression: condition, ExpressionAttributeNames: op.Names,
			ExpressionAttributeValues: op.Values, ReturnValuesOnConditionCheckFailure: onFailure, ReturnConsumedCapacity: e.capacity()}, once); err == nil {
			used = out.ConsumedCapacity
		}
	}
	countWrite(ctx, used)
	if refusal := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &refusal) {
		failed = refusal.Item
	}
	return failed, err
}

// standing is the item that made a condition fail, as plan.Judge takes it.
func standing(it plan.Item) plan.Item {
	if it == nil {
		return plan.Item{}
	}
	return it
}

// stamping returns the function that calls Stamp of all ops with the current time; nil when no op has one.
func (e *engine) stamping(ops []plan.Op) func() {
	if !slices.ContainsFunc(ops, func(op plan.Op) bool { return op.Stamp != nil }) {
		return nil
	}
	return func() {
		now := e.Now()
		for _, op := range ops {
			if op.Stamp != nil {
				op.Stamp(now)
			}
		}
	}
}

// transact stores all writes, followed by the caller's own items, as one transaction. token is the transaction's; "" is a new one.
func (e *engine) transact(ctx context.Context, token string, writes []plan.Write, own []types.TransactWriteItem) ([]plan.Outcome, error) {
	var ops []plan.Op
	for _, w := range writes {
		ops = append(ops, w.Ops...)
	}
	if err := e.fitsOne(ops, own); err != nil {
		return nil, err
	}
	items := make([]types.TransactWriteItem, 0, len(ops)+len(own))
	for _, op := range ops {
		items = append(items, transactItem(op))
	}
	// The service remembers tokens for ten minutes and does not execute a request with a known token again. So repeating the
	// request is safe, whatever the caller's own items do.
	if token == "" {
		token = plan.NewToken()
	}
	in := &dynamodb.TransactWriteItemsInput{TransactItems: append(items, own...), ClientRequestToken: &token, ReturnConsumedCapacity: e.capacity()}
	var failed []plan.Item
	r := request{
		keys:   func() []string { return append(e.keysOf(ops), e.keysOfOwn(own)...) },
		within: stampedFor, lasts: keepsToken,
		send: func(ctx context.Context) error {
			out, err := e.client.TransactWriteItems(ctx, in, once)
			if err != nil {
				failed = make([]plan.Item, len(ops))
				if canceled := (*types.TransactionCanceledException)(nil); errors.As(err, &canceled) {
					for i, r := range canceled.CancellationReasons[:min(len(ops), len(canceled.CancellationReasons))] {
						if classes[aws.ToString(r.Code)] == refused {
							failed[i] = standing(r.Item)
						}
					}
				}
				return err
			}
			for i := range out.ConsumedCapacity {
				countWrite(ctx, &out.ConsumedCapacity[i])
			}
			return nil
		},
	}
	if stamp := e.stamping(ops); stamp != nil {
		r.lasts = keepsTime
		r.prepare = func(open bool) {
			if !open { // nothing has been written: this is a new request with a new token
				stamp()
				token = plan.NewToken()
			}
		}
	}
	open, c, err := e.run(ctx, r)
	switch {
	case err == nil:
		return make([]plan.Outcome, len(writes)), nil
	case c == reused: // the other request came first, so no try of this one has been executed
		return nil, &annals.Error{Kind: annals.ErrConflict, Err: errors.Unwrap(err)}
	case c != refused:
		return nil, err
	}
	return plan.Judge(writes, failed, len(own) > 0, open, errors.Unwrap(err))
}

func transactItem(op plan.Op) types.TransactWriteItem {
	condition, onFailure := conditionOf(&op)
	switch {
	case op.Put != nil:
		return types.TransactWriteItem{Put: &types.Put{TableName: &op.Table, Item: op.Put, ConditionExpression: condition,
			ExpressionAttributeNames: op.Names, ExpressionAttributeValues: op.Values, ReturnValuesOnConditionCheckFailure: onFailure}}
	case op.Update != "":
		return types.TransactWriteItem{Update: &types.Update{TableName: &op.Table, Key: op.Key, UpdateExpression: &op.Update, ConditionExpression: condition,
			ExpressionAttributeNames: op.Names, ExpressionAttributeValues: op.Values, ReturnValuesOnConditionCheckFailure: onFailure}}
	case op.Delete:
		return types.TransactWriteItem{Delete: &types.Delete{TableName: &op.Table, Key: op.Key, ConditionExpression: condition,
			ExpressionAttributeNames: op.Names, ExpressionAttributeValues: op.Values, ReturnValuesOnConditionCheckFailure: onFailure}}
	}
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &op.Table, Key: op.Key, ConditionExpression: condition,
		ExpressionAttributeNames: op.Names, ExpressionAttributeValues: op.Values, ReturnValuesOnConditionCheckFailure: onFailure}}
}

func (e *engine) DeleteAll(ctx context.Context, table string, keys []plan.Item) error {
	send := func(keys []plan.Get, touched func() []string) (left []plan.Get, err error) {
		requests := make([]types.WriteRequest, len(keys))
		for i, key := range keys {
			requests[i].DeleteRequest = &types.DeleteRequest{Key: key.Key}
		}
		in := &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: requests}, ReturnConsumedCapacity: e.capacity()}
		var out *dynamodb.BatchWriteItemOutput
		if _, _, err := e.run(ctx, request{keys: touched, send: func(ctx context.Context) (err error) { out, err = e.client.BatchWriteItem(ctx, in, once); return err }}); err != nil {
			return nil, err
		}
		for i := range out.ConsumedCapacity {
			countWrite(ctx, &out.ConsumedCapacity[i])
		}
		for _, w := range out.UnprocessedItems[table] {
			if w.DeleteRequest != nil { // the service should return only what was sent
				left = append(left, plan.Get{Table: table, Key: w.DeleteRequest.Key})
			}
		}
		return left, nil
	}
	for chunk := range slices.Chunk(keys, writeChunk) {
		if err := e.batch(ctx, "w", plan.Gets(table, chunk), send); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) Then(ctx context.Context, do func(ctx context.Context, x plan.Executor) error) error {
	return do(ctx, e)
}

// fitsOne returns the error of a transaction that the service would refuse.
func (e *engine) fitsOne(ops []plan.Op, own []types.TransactWriteItem) error {
	if n := len(ops) + len(own); n > transactionItems {
		return &annals.Error{Kind: annals.ErrTooLarge, Err: fmt.Errorf("a transaction of %d items, the service takes %d", n, transactionItems)}
	}
	size := 0
	type place struct{ table, hash, sort string }
	touched := make(map[place]bool, len(ops))
	for _, op := range ops {
		if err := plan.Fits(op.Put); err != nil {
			return err
		}
		size += plan.Size(op.Put) + plan.Size(op.Values)
		it, table := op.Item(), e.tables[op.Table]
		at := place{op.Table, plan.KeyText(it[table.Hash.Name]), plan.KeyText(it[table.Range.Name])}
		if touched[at] {
			return &annals.Error{Kind: annals.ErrInvalid, Err: errors.New("one item is written twice: give each entity one command in a transaction")}
		}
		touched[at] = true
	}
	for _, item := range own {
		if item.Put != nil {
			if err := plan.Fits(item.Put.Item); err != nil {
				return err
			}
			size += plan.Size(item.Put.Item)
		}
	}
	if size > transactionBytes {
		return &annals.Error{Kind: annals.ErrTooLarge, Err: fmt.Errorf("a transaction of %d bytes, the service takes %d", size, transactionBytes)}
	}
	return nil
}

// conditionOf returns the condition of op, nil for none, and what the service returns when the condition fails.
func conditionOf(op *plan.Op) (*string, types.ReturnValuesOnConditionCheckFailure) {
	if op.Condition == "" {
		return nil, types.ReturnValuesOnConditionCheckFailureNone
	}
	return &op.Condition, types.ReturnValuesOnConditionCheckFailureAllOld
}
