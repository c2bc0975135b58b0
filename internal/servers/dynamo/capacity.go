package dynamo

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// capacity is a model of how DynamoDB limits a partition key: the key gets a number of units each second and keeps unused ones for a
// second. A request passes while a part of a unit is left.
type capacity struct {
	readUnits, writeUnits float64
	mu                    sync.Mutex
	reads, writes         map[string]*bucket
	indexed               map[string][]string // by item: its partition keys in indexes
	throttles             int
}

type bucket struct {
	left float64
	at   time.Time
}

// SetCapacity limits every partition key, of tables and of indexes, to units a second; 0 does not limit.
func (p *FaultProxy) SetCapacity(readUnits, writeUnits float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capacity = &capacity{readUnits: readUnits, writeUnits: writeUnits, reads: map[string]*bucket{}, writes: map[string]*bucket{}, indexed: map[string][]string{}}
}

// Throttles is how many requests the capacity has refused.
func (p *FaultProxy) Throttles() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.capacity == nil {
		return 0
	}
	p.capacity.mu.Lock()
	defer p.capacity.mu.Unlock()
	return p.capacity.throttles
}

// admit reports whether every partition key that req touches has capacity left. Keys of indexes count too: when an index cannot take a
// write, the table does not take it either.
func (c *capacity) admit(t touched, req Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Concat(t.keys, t.indexed) {
		if b, limit := c.bucket(key, req); limit > 0 && b.left <= 0 {
			c.throttles++
			return false
		}
	}
	if req.Writes() && len(t.keys) > 0 {
		units := float64(max((len(req.Body)-requestFrame+1023)/1024, len(t.keys))) / float64(len(t.keys))
		for _, key := range slices.Concat(t.keys, t.indexed) {
			b, _ := c.bucket(key, req)
			b.left -= units
		}
	}
	return true
}

// requestFrame is about how many bytes a request has in addition to its item.
const requestFrame = 400

// charge takes the units of a read from its keys. Their number is known only from the answer.
func (c *capacity) charge(t touched, req Request, answer int) {
	keys := t.keys
	if req.Writes() || len(keys) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	units := float64((answer + 4095) / 4096)
	if req.Indexed() {
		units /= 2
	}
	for _, key := range keys {
		b, _ := c.bucket(key, req)
		b.left -= units / float64(len(keys))
	}
}

func (c *capacity) bucket(key string, req Request) (*bucket, float64) {
	buckets, limit := c.reads, c.readUnits
	if req.Writes() {
		buckets, limit = c.writes, c.writeUnits
	}
	now := time.Now()
	b := buckets[key]
	if b == nil {
		b = &bucket{left: min(limit, 1), at: now} // nothing saved up yet
		buckets[key] = b
	}
	b.left = min(b.left+limit*now.Sub(b.at).Seconds(), limit)
	b.at = now
	return b, limit
}

// schema is what the model needs to know of a table: the attributes of its key, and the hash keys of its indexes.
type schema struct {
	hash, sort string
	indexes    map[string]string
}

// learn notes the keys of a table that is being created.
func (p *FaultProxy) learn(req Request) {
	type keySchema []struct{ AttributeName, KeyType string }
	var table struct {
		TableName              string
		KeySchema              keySchema
		GlobalSecondaryIndexes []struct {
			IndexName string
			KeySchema keySchema
		}
	}
	_ = json.Unmarshal(req.Body, &table)
	known := schema{indexes: map[string]string{}}
	for _, k := range table.KeySchema {
		if k.KeyType == "HASH" {
			known.hash = k.AttributeName
		} else {
			known.sort = k.AttributeName
		}
	}
	for _, i := range table.GlobalSecondaryIndexes {
		for _, k := range i.KeySchema {
			if k.KeyType == "HASH" {
				known.indexes[i.IndexName] = k.AttributeName
			}
		}
	}
	p.schemas[table.TableName] = known
}

// touched are the partition keys that a request reads or writes, one for each item. keys are those of the tables, or of the index that
// the request reads; indexed are those of the indexes that a write to a table changes.
type touched struct{ keys, indexed []string }

// partitions are the partition keys that req touches. What an update or a delete changes in indexes is known only for items that
// were put after the capacity was set.
func (p *FaultProxy) partitions(req Request) (t touched) {
	p.mu.Lock()
	defer p.mu.Unlock()
	type keyed struct {
		TableName                 string
		IndexName                 string
		Item, Key                 map[string]json.RawMessage
		ExpressionAttributeValues map[string]json.RawMessage
		KeyConditionExpression    string
	}
	add := func(k keyed) {
		known := p.schemas[k.TableName]
		if strings.Contains(k.KeyConditionExpression, ":hash") {
			t.keys = append(t.keys, k.TableName+k.IndexName+string(k.ExpressionAttributeValues[":hash"]))
			return
		}
		key := k.Key
		if k.Item != nil {
			key = k.Item
		}
		if key[known.hash] == nil {
			return
		}
		t.keys = append(t.keys, k.TableName+string(key[known.hash]))
		item := k.TableName + string(key[known.hash]) + string(key[known.sort])
		if k.Item != nil {
			var indexed []string
			for index, hash := range known.indexes {
				if value := k.Item[hash]; value != nil {
					indexed = append(indexed, k.TableName+index+string(value))
				}
			}
			p.capacity.indexed[item] = indexed
		}
		if req.Writes() {
			t.indexed = append(t.indexed, p.capacity.indexed[item]...)
		}
	}
	switch req.Operation {
	case "TransactWriteItems":
		var all struct{ TransactItems []map[string]keyed }
		_ = json.Unmarshal(req.Body, &all)
		for _, item := range all.TransactItems {
			for _, k := range item {
				add(k)
			}
		}
	case "PutItem", "UpdateItem", "DeleteItem", "GetItem", "Query":
		var k keyed
		_ = json.Unmarshal(req.Body, &k)
		add(k)
	}
	return t
}
