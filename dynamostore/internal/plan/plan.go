// Package plan is the interface between a layout and the engine of dynamostore. Requests are values, and an Executor runs them. A
// layout says which items are written, on which conditions, and which keys are read. Clients, pages, throttled requests and lost
// answers are the engine's concern.
package plan

import (
	"context"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// StampedFor is for how long a try of a write keeps the time that Op.Stamp was given.
const StampedFor = 10 * time.Second

// Item is a stored item, or its key.
type Item = map[string]types.AttributeValue

// Executor runs requests. It is the engine, a transaction that collects writes, or a recorder in the tests of layouts. Its errors are
// *annals.Error without Op and ID, which the store adds. Its methods may be called from many goroutines at once.
type Executor interface {
	// Now is the time to store with what is written: UTC, in microseconds.
	Now() time.Time
	// Get reads one item.
	Get(ctx context.Context, g Get) (Item, bool, error)
	// GetAll reads the items of many keys, strongly consistent and in no particular order. Keys without an item are left out. The keys must differ. They are
	// read in requests of up to 100 keys, up to 10 of them at a time.
	GetAll(ctx context.Context, table string, keys []Item) ([]Item, error)
	// GetEach yields one item for each key, in the order of keys; nil is yielded where there is no item. The keys must differ. They are
	// read in requests of up to 100 keys, strongly consistent. While the caller works on the items of one request, up to ahead
	// more requests are sent. An error ends the sequence.
	GetEach(ctx context.Context, table string, keys iter.Seq[Item], ahead int) iter.Seq2[Item, error]
	// GetMany reads up to 100 items of any tables in one request, one item for each Get and in their order, nil where there is no item.
	// Each item is read strongly consistent, but the items are not of one moment. The Gets of a table follow each other, and differ.
	GetMany(ctx context.Context, gets []Get) ([]Item, error)
	// GetTogether reads up to 100 items of any tables as they are at one moment, one item for each Get and in their order, nil where there is
	// no item. It costs twice as many units as other reads.
	GetTogether(ctx context.Context, gets []Get) ([]Item, error)
	// Query yields the items of all pages, in the order of the range key.
	Query(ctx context.Context, q Query) iter.Seq2[Item, error]
	// Series yields the pages of queries that follow each other, in the order of the queries, with at least one page for each query.
	// While the caller works on the pages of one query, up to ahead more queries are read, each of which holds at most one page that
	// is not yet yielded. queries is called when a query is about to begin, so a caller that leaves early does not pay for the queries
	// that have not begun. With ahead 0 each page is read when the caller asks for it. An error ends the sequence. Dense is not
	// used.
	Series(ctx context.Context, queries iter.Seq[Query], ahead int) iter.Seq2[Page, error]
	// Merge runs queries in parallel and yields their items in the order of one number attribute, descending when the
	// queries are backward. Each query must yield its own items in that order.
	Merge(ctx context.Context, queries []Query, order string) iter.Seq2[Item, error]
	// Scan returns some items of a table, eventually consistent and in no order. It is for checks, not for reading data.
	Scan(ctx context.Context, table string, limit int) ([]Item, error)
	// ScanAll yields all items of a part of a table, strongly consistent and in no order. fields are the attributes to return.
	ScanAll(ctx context.Context, table string, fields []string, p Part) iter.Seq2[Item, error]
	// Write stores all of w, or nothing.
	Write(ctx context.Context, w Write) (Outcome, error)
	// DeleteAll removes the items of keys, without conditions and not atomically.
	DeleteAll(ctx context.Context, table string, keys []Item) error
	// Then runs do once the writes before it are stored: at once, or, within a transaction of the caller's, after that has been committed.
	// When the transaction is not committed, do does not run. x runs requests outside of the transaction. Then returns the error of do, unless do
	// runs later: then the error is a Warning of the transaction, or the error of one without writes.
	Then(ctx context.Context, do func(ctx context.Context, x Executor) error) error
}

// Get is a strongly consistent read of one item.
type Get struct {
	Table string
	Key   Item
}

// Gets returns a Get for each of keys.
func Gets(table string, keys []Item) []Get {
	gets := make([]Get, len(keys))
	for i, key := range keys {
		gets[i] = Get{table, key}
	}
	return gets
}

// Part is one of Of equal parts of a table, counted from 0. The zero Part is the whole table. Items with the same hash key are in the same
// part.
type Part struct{ N, Of int }

// Page is a part of what one query has found.
type Page struct {
	Query int // which query of a Series, counted from 0
	Items []Item
	Last  bool // it is the last page of its query
}

// Query reads a range of one partition: of a table or a local index, strongly consistent, or of a global index, eventually consistent.
type Query struct {
	Table, Index string
	Hash         string
	From, To     types.AttributeValue // bounds of the range key, inclusive; nil is no bound
	Backward     bool
	Fields       []string // attributes to return; nil is all
	Filter       string   // filter expression, with the Names and Values below
	Names        map[string]string
	Values       Item
	Limit        int // items in the first page; later pages grow. 0 is as many as fit in a page
	Bytes        int // approximate size of a page; 0 is no limit, and in a Merge of many queries a size that bounds their memory
	// Anchor reports whether an item exists for as long as its entity does. Each page then begins with the last anchor of the
	// page before, which is yielded again. When that item no longer exists, the error is ErrTruncated: the entity was removed
	// between two pages, and without this check the query would just end. Anchor needs From and a forward query. nil: each page
	// begins after the one before.
	Anchor func(it Item) bool
	// Paged, when not nil, is called between two pages. Each page is of one moment, but several pages are not: an item that is
	// replaced between two pages by one in the part already read is in no page.
	Paged func()
	// Dense says that the range key is a number, that the wanted items are at whole numbers, and that few of these numbers are
	// unused. What does not fit into a page is then read as several ranges in parallel. It is for forward queries without
	// Limit and Filter.
	Dense bool
}

// Op is one item of a Write: a put when Put is set, an update when Update is set, a delete when Delete is set, otherwise only a
// check of Condition.
type Op struct {
	Table     string
	Put       Item   // the whole item
	Key       Item   // of the item that is updated, deleted or checked
	Update    string // the update expression
	Delete    bool
	Condition string // "" is none
	Names     map[string]string
	Values    Item
	// Ours reports whether old, the item that made Condition fail, proves that an earlier try stored the whole write: it is one that only
	// this write can have made. It depends on old alone. nil: the item of this op proves nothing.
	Ours func(old Item) bool
	// Stamp stores the current time in the op. It is called before each sending, because readers by time look back only by the
	// duration of one request, and throttling can delay a write for much longer. After a transaction's answer was lost its time
	// no longer changes. nil: the op keeps the time that it was made with, or has none.
	Stamp func(now time.Time)
}

// Item returns the item that op puts, or else the key.
func (op Op) Item() Item {
	if op.Put != nil {
		return op.Put
	}
	return op.Key
}

// Write is up to 100 ops that are stored together or not at all. One op is sent as a single request, several as a transaction.
type Write struct {
	Ops []Op
	// Refused says what a failed condition means: an error, or nil for an expected outcome. old has the items that made the
	// conditions fail, by op; nil where the condition held, or where there was no item. open reports that the outcome of an
	// earlier try in the same call is not known. The result depends on these alone. A nil Refused refuses the write with ErrConflict.
	Refused func(old []Item, open bool) error
	// Token, when not "", sends even a single op as a transaction, at twice the units: the service then recognises a repeated request
	// by its token, for ten minutes. It is for items that have no place for a WriteID. A token has up to 36 characters; it comes from
	// NewToken, or from TokenOf, which also makes a caller's own repetition recognisable. A token that was used with another request
	// is ErrConflict. With Stamp the request changes, so the engine then makes the tokens. Within a transaction of the caller's the
	// token is not used: the transaction has its own.
	Token string
	// Once says that the conditions only guard against a request that is executed late and for a second time. Within a
	// transaction of the caller's the transaction's token does that, and the conditions are left out.
	Once bool
	// Guards says that the ops only check what was read. When one of them fails, that is a conflict, unless an earlier try has stored the other
	// writes of the transaction.
	Guards bool
	// Apart stores the write at once and on its own, also from within a transaction of the caller's.
	Apart bool
}

// Try writes one op whose condition may fail. Then Outcome.Refused is set, and it is no error.
func Try(ctx context.Context, x Executor, op Op) (Outcome, error) {
	return x.Write(ctx, Write{Ops: []Op{op}, Refused: Expected})
}

// Expected is a Write.Refused for conditions that may fail.
func Expected([]Item, bool) error { return nil }

// Create is the op that puts it, unless there is an item with that key. hash is the hash key of the table.
func Create(table string, it Item, hash string) Op {
	op := Op{Table: table, Put: it, Names: map[string]string{}}
	op.Condition = "attribute_not_exists(" + placeholder(op.Names, hash) + ")"
	return op
}

// Outcome is what a Write did.
type Outcome struct {
	Repeated bool   // an earlier try had been stored, as Ours reported
	Refused  bool   // a condition failed, and Write.Refused returned nil
	Old      []Item // that made the conditions fail, by op; nil where the condition held, or where there was no item
}
