package testenv

import (
	"encoding/json"
	"strings"
	"sync"
	"time"
)

// capacity is the service's model of a partition key: so many units a second, a second's worth may be saved up, and a
// request passes while anything is left.
type capacity struct {
	readUnits, writeUnits float64
	mu                    sync.Mutex
	reads, writes         map[string]*bucket
	throttles             int
}

type bucket struct {
	left float64
	at   time.Time
}

// SetCapacity limits every partition key to units a second; 0 does not limit.
func (p *FaultProxy) SetCapacity(readUnits, writeUnits float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capacity = &capacity{readUnits: readUnits, writeUnits: writeUnits, reads: map[string]*bucket{}, writes: map[string]*bucket{}}
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

// admit reports whether every partition key that req touches has something left.
func (c *capacity) admit(keys []string, req Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		if b, limit := c.bucket(key, req); limit > 0 && b.left <= 0 {
			c.throttles++
			return false
		}
	}
	if req.Writes() {
		for _, key := range keys {
			b, _ := c.bucket(key, req)
			b.left -= float64(max((len(req.Body)-requestFrame+1023)/1024, len(keys))) / float64(len(keys))
		}
	}
	return true
}

// requestFrame is about what a request has beside its item.
const requestFrame = 400

// charge takes what a read cost, which only its answer shows.
func (c *capacity) charge(keys []string, req Request, answer int) {
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

// learn notes the hash key of a table that is being created.
func (p *FaultProxy) learn(req Request) {
	var table struct {
		TableName string
		KeySchema []struct{ AttributeName, KeyType string }
	}
	_ = json.Unmarshal(req.Body, &table)
	for _, k := range table.KeySchema {
		if k.KeyType == "HASH" {
			p.hashes[table.TableName] = k.AttributeName
		}
	}
}

// partitions are the partition keys that req touches.
func (p *FaultProxy) partitions(req Request) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	type keyed struct {
		TableName                 string
		IndexName                 string
		Item, Key                 map[string]json.RawMessage
		ExpressionAttributeValues map[string]json.RawMessage
		KeyConditionExpression    string
	}
	var found []string
	add := func(k keyed) {
		value := k.ExpressionAttributeValues[":hash"]
		if !strings.Contains(k.KeyConditionExpression, ":hash") {
			if value = k.Item[p.hashes[k.TableName]]; value == nil {
				value = k.Key[p.hashes[k.TableName]]
			}
		}
		if value != nil {
			found = append(found, k.TableName+k.IndexName+string(value))
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
	return found
}
