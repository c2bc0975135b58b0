package dynamostore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/backoff"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	getChunk  = 100  // keys in a BatchGetItem
	getsAhead = 9    // requests of a GetAll that are sent beside the first
	pageGrows = 4    // factor by which the limit of a page grows
	pageFree  = 1000 // from this limit on pages are not limited
	itemBytes = 4096 // size of an item in a page of Query.Bytes, before there is one that tells
)

// read sends a read until it is answered. keys are the names of the partitions that it uses.
func read[I, O any](ctx context.Context, e *engine, keys func() []string, send func(context.Context, *I, ...func(*dynamodb.Options)) (*O, error), in *I) (out *O, err error) {
	_, _, err = e.run(ctx, request{read: true, keys: keys, send: func(ctx context.Context) (err error) { out, err = send(ctx, in, once); return err }})
	return out, err
}

func (e *engine) Get(ctx context.Context, g plan.Get) (plan.Item, bool, error) {
	in := &dynamodb.GetItemInput{TableName: &g.Table, Key: g.Key, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: e.capacity()}
	out, err := read(ctx, e, func() []string { return e.keysOfGets("r", g) }, e.client.GetItem, in)
	if err != nil {
		return nil, false, err
	}
	countRead(ctx, out.ConsumedCapacity)
	return out.Item, len(out.Item) > 0, nil
}

func (e *engine) GetAll(ctx context.Context, table string, keys []plan.Item) ([]plan.Item, error) {
	found := make([]plan.Item, 0, len(keys))
	for it, err := range e.GetEach(ctx, table, slices.Values(keys), min((len(keys)-1)/getChunk, getsAhead)) {
		if err != nil {
			return nil, err
		}
		if it != nil {
			found = append(found, it)
		}
	}
	return found, nil
}

func (e *engine) GetEach(ctx context.Context, table string, keys iter.Seq[plan.Item], ahead int) iter.Seq2[plan.Item, error] {
	return itemsOf(inOrder(ctx, ahead, func(ctx context.Context, yield func(reading) bool) {
		for chunk := range plan.Chunks(keys, getChunk) {
			if !yield(e.gets(ctx, table, chunk)) {
				return
			}
		}
	}))
}

// gets reads up to getChunk items as one page, which has one item for each key, nil where there is none.
func (e *engine) gets(ctx context.Context, table string, keys []plan.Item) reading {
	return func(yield func(plan.Page, error) bool) {
		items, err := e.GetMany(ctx, plan.Gets(table, keys))
		yield(plan.Page{Items: items}, err)
	}
}

func (e *engine) GetTogether(ctx context.Context, gets []plan.Get) ([]plan.Item, error) {
	in := &dynamodb.TransactGetItemsInput{TransactItems: make([]types.TransactGetItem, len(gets)), ReturnConsumedCapacity: e.capacity()}
	for i := range gets {
		in.TransactItems[i].Get = &types.Get{TableName: &gets[i].Table, Key: gets[i].Key}
	}
	out, err := read(ctx, e, func() []string { return e.keysOfGets("r", gets...) }, e.client.TransactGetItems, in)
	if err != nil {
		return nil, err
	}
	for i := range out.ConsumedCapacity {
		countRead(ctx, &out.ConsumedCapacity[i])
	}
	if len(out.Responses) != len(gets) {
		return nil, &annals.Error{Kind: annals.ErrUnavailable, Err: fmt.Errorf("the service answered %d of %d reads", len(out.Responses), len(gets))}
	}
	items := make([]plan.Item, len(gets))
	for i, r := range out.Responses {
		if len(r.Item) > 0 {
			items[i] = r.Item
		}
	}
	return items, nil
}

func (e *engine) GetMany(ctx context.Context, gets []plan.Get) ([]plan.Item, error) {
	name := func(table string, it plan.Item) [3]string {
		t := e.tables[table]
		return [3]string{table, plan.KeyText(it[t.Hash.Name]), plan.KeyText(it[t.Range.Name])}
	}
	found := make(map[[3]string]plan.Item, len(gets))
	err := e.batch(ctx, "r", gets, func(gets []plan.Get, touched func() []string) (left []plan.Get, err error) {
		in := &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{}, ReturnConsumedCapacity: e.capacity()}
		keys := make([]plan.Item, len(gets))
		for first, i := 0, 0; i < len(gets); i++ {
			keys[i] = gets[i].Key
			if i+1 == len(gets) || gets[i+1].Table != gets[i].Table {
				in.RequestItems[gets[i].Table] = types.KeysAndAttributes{Keys: keys[first : i+1], ConsistentRead: aws.Bool(true)}
				first = i + 1
			}
		}
		out, err := read(ctx, e, touched, e.client.BatchGetItem, in)
		if err != nil {
			return nil, err
		}
		for i := range out.ConsumedCapacity {
			countRead(ctx, &out.ConsumedCapacity[i])
		}
		for table, items := range out.Responses {
			for _, it := range items {
				found[name(table, it)] = it
			}
		}
		for table, of := range out.UnprocessedKeys {
			for _, key := range of.Keys {
				left = append(left, plan.Get{Table: table, Key: key})
			}
		}
		return left, nil
	})
	if err != nil {
		return nil, err
	}
	items := make([]plan.Item, len(gets))
	for i, g := range gets {
		items[i] = found[name(g.Table, g.Key)]
	}
	return items, nil
}

// batch sends a request for keys, and further ones for those that send returns as unprocessed. When some keys were processed, the
// answer was only too large, and the next request follows at once. When none was, the request was throttled.
func (e *engine) batch(ctx context.Context, mode string, keys []plan.Get, send func(keys []plan.Get, touched func() []string) (left []plan.Get, err error)) error {
	touched := func() []string { return e.keysOfGets(mode, keys...) }
	for try := 0; len(keys) > 0; try++ {
		left, err := send(keys, touched)
		if err != nil {
			return err
		}
		asked := len(keys)
		if keys = left; len(left) < asked {
			continue
		}
		driver.Count(ctx, annals.Result{Throttles: 1})
		e.pace.slow(touched())
		if err := backoff.Sleep(ctx, retryDelay(try)); err != nil {
			return stopped(err)
		}
	}
	return nil
}

func (e *engine) Query(ctx context.Context, q plan.Query) iter.Seq2[plan.Item, error] {
	if q.Dense {
		return e.ranges(ctx, q)
	}
	return itemsOf(e.pages(ctx, q))
}

// pages reads the pages of q.
func (e *engine) pages(ctx context.Context, q plan.Query) reading {
	return func(yield func(plan.Page, error) bool) {
		in := e.queryInput(q)
		_, sort := e.tables[q.Table].Keys(q.Index)
		limit := q.Limit
		if first := max(q.Bytes/itemBytes, 1); q.Bytes > 0 && (limit == 0 || limit > first) {
			limit = first
		}
		var anchor types.AttributeValue // range key with which the page must begin; nil is any
		for {
			in.Limit = nil
			if limit > 0 && limit < pageFree {
				in.Limit = aws.Int32(int32(limit))
			}
			limit *= pageGrows
			out, err := e.page(ctx, q, in)
			if err == nil && anchor != nil && (len(out.Items) == 0 || plan.KeyText(out.Items[0][sort.Name]) != plan.KeyText(anchor)) {
				err = &annals.Error{Kind: annals.ErrTruncated}
			}
			if err != nil {
				yield(plan.Page{}, err)
				return
			}
			if q.Bytes > 0 && len(out.Items) > 0 {
				limit = itemsIn(q.Bytes, out.Items)
			}
			last := len(out.LastEvaluatedKey) == 0
			if !yield(plan.Page{Items: out.Items, Last: last}, nil) || last {
				return
			}
			if q.Paged != nil {
				q.Paged()
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
			if anchor = lastAnchor(q, out.Items, anchor != nil)[sort.Name]; anchor != nil {
				in.ExclusiveStartKey, in.ExpressionAttributeValues[":from"] = nil, anchor
			}
		}
	}
}

// itemsIn returns how many items of the average size of those in page have that many bytes together, at least 1.
func itemsIn(bytes int, page []plan.Item) int {
	size := 0
	for _, it := range page {
		size += plan.Size(it)
	}
	return max(bytes*len(page)/max(size, 1), 1)
}

// lastAnchor returns the last anchor of a page, with which the next page begins. again says that page itself began with an anchor, which
// then does not count: each page must go further.
func lastAnchor(q plan.Query, page []plan.Item, again bool) plan.Item {
	if again {
		page = page[1:]
	}
	for _, it := range slices.Backward(page) {
		if q.Anchor != nil && q.Anchor(it) {
			return it
		}
	}
	return nil
}

// page sends in, which asks for one page of q.
func (e *engine) page(ctx context.Context, q plan.Query, in *dynamodb.QueryInput) (out *dynamodb.QueryOutput, err error) {
	out, err = read(ctx, e, func() []string { return []string{partition("r", q.Table+q.Index, q.Hash)} }, e.client.Query, in)
	if err != nil {
		return nil, err
	}
	countRead(ctx, out.ConsumedCapacity)
	return out, nil
}

func (e *engine) queryInput(q plan.Query) *dynamodb.QueryInput {
	hash, sort := e.tables[q.Table].Keys(q.Index)
	in := &dynamodb.QueryInput{
		TableName:                 &q.Table,
		ConsistentRead:            aws.Bool(q.Index == "" || e.tables[q.Table].Local(q.Index)), // global indexes have no consistent reads
		ReturnConsumedCapacity:    e.capacity(),
		ExpressionAttributeNames:  map[string]string{"#hash": hash.Name},
		ExpressionAttributeValues: plan.Item{":hash": hash.Value(q.Hash)},
	}
	if q.Backward {
		in.ScanIndexForward = aws.Bool(false)
	}
	condition := "#hash = :hash"
	switch {
	case q.From != nil && q.To != nil:
		condition += " AND #range BETWEEN :from AND :to"
	case q.From != nil:
		condition += " AND #range >= :from"
	case q.To != nil:
		condition += " AND #range <= :to"
	}
	in.KeyConditionExpression = &condition
	if q.From != nil || q.To != nil {
		in.ExpressionAttributeNames["#range"] = sort.Name
	}
	if q.From != nil {
		in.ExpressionAttributeValues[":from"] = q.From
	}
	if q.To != nil {
		in.ExpressionAttributeValues[":to"] = q.To
	}
	maps.Copy(in.ExpressionAttributeNames, q.Names)
	maps.Copy(in.ExpressionAttributeValues, q.Values)
	if q.Index != "" {
		in.IndexName = &q.Index
	}
	if q.Filter != "" {
		in.FilterExpression = &q.Filter
	}
	switch {
	case q.Fields == nil && q.Index != "" && e.tables[q.Table].Local(q.Index):
		in.Select = types.SelectAllAttributes
	case q.Fields != nil:
		in.ProjectionExpression = aws.String(projection(q.Fields, in.ExpressionAttributeNames))
	}
	return in
}

// scanParts is in how many parts of a table a Scan reads: all items of the first part may be of one entity.
const scanParts = 16

func (e *engine) Scan(ctx context.Context, table string, limit int) ([]plan.Item, error) {
	parts := min(limit, scanParts)
	var reads sync.WaitGroup
	items, errs := make([][]plan.Item, parts), make([]error, parts)
	for i := range parts {
		in := &dynamodb.ScanInput{TableName: &table, Limit: aws.Int32(int32(limit / parts)), ReturnConsumedCapacity: e.capacity(),
			Segment: aws.Int32(int32(i)), TotalSegments: aws.Int32(int32(parts))}
		reads.Go(func() {
			out, err := e.scanPage(ctx, in)
			if errs[i] = err; err == nil {
				items[i] = out.Items
			}
		})
	}
	reads.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return slices.Concat(items...), nil
}

func (e *engine) ScanAll(ctx context.Context, table string, fields []string, p plan.Part) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		names := map[string]string{}
		in := &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: e.capacity(),
			ProjectionExpression: aws.String(projection(fields, names)), ExpressionAttributeNames: names}
		if p.Of > 1 {
			in.Segment, in.TotalSegments = aws.Int32(int32(p.N)), aws.Int32(int32(p.Of))
		}
		for {
			out, err := e.scanPage(ctx, in)
			if err != nil {
				yield(nil, err)
				return
			}
			if !give(out.Items, yield) || len(out.LastEvaluatedKey) == 0 {
				return
			}
			in.ExclusiveStartKey = out.LastEvaluatedKey
		}
	}
}

// scanPage sends in, which asks for one page.
func (e *engine) scanPage(ctx context.Context, in *dynamodb.ScanInput) (out *dynamodb.ScanOutput, err error) {
	out, err = read(ctx, e, func() []string { return []string{partition("r", *in.TableName, "")} }, e.client.Scan, in)
	if err != nil {
		return nil, err
	}
	countRead(ctx, out.ConsumedCapacity)
	return out, nil
}

// projection is an expression for fields. It uses placeholders, since any field may be a reserved word.
func projection(fields []string, names map[string]string) string {
	text := ""
	for i, field := range fields {
		name := "#f" + string(rune('a'+i))
		names[name] = field
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}
