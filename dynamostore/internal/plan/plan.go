// Package plan is the language between a layout and the engine of dynamostore: requests as values, and the interface that
// runs them. A layout says which items to write, under which conditions, and which keys to read; it never sees a client, a
// page, a throttled request or a lost answer.
package plan

import (
	"context"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is a stored item, or its key.
type Item = map[string]types.AttributeValue

// Executor runs requests: the engine, a transaction that collects writes, or a recorder in a test of a layout. Its errors are
// *annals.Error without Op and ID, which the store adds. Its methods may be called from many goroutines at once.
type Executor interface {
	// Now is the time to stamp on what is written: UTC, microseconds.
	Now() time.Time
	// Get reads one item.
	Get(ctx context.Context, g Get) (Item, bool, error)
	// GetAll reads the items of many keys, in no particular order; keys without an item are left out.
	GetAll(ctx context.Context, g GetAll) ([]Item, error)
	// Query yields the items of all pages, in the order of the range key.
	Query(ctx context.Context, q Query) iter.Seq2[Item, error]
	// Merge runs queries side by side and yields their items in the order of one number attribute, descending when the
	// queries are backward. Each query must have that order itself.
	Merge(ctx context.Context, queries []Query, order string) iter.Seq2[Item, error]
	// Scan yields some items of a table, eventually consistent, in no order: a probe, never a way to read data.
	Scan(ctx context.Context, table string, limit int) ([]Item, error)
	// ScanAll yields all items of a table in pages, strongly consistent, in no order. It is for what has to be done once to
	// each of them. fields are the attributes to return.
	ScanAll(ctx context.Context, table string, fields []string) iter.Seq2[[]Item, error]
	// Write stores all of w or nothing.
	Write(ctx context.Context, w Write) (Outcome, error)
	// DeleteAll removes the items of keys, without conditions and not as one.
	DeleteAll(ctx context.Context, table string, keys []Item) error
}

// Get is a strongly consistent read of one item.
type Get struct {
	Table string
	Key   Item
}

// GetAll reads many items of one table, strongly consistent.
type GetAll struct {
	Table string
	Keys  []Item
}

// Query reads a stretch of one partition, of a table (strongly consistent) or of one of its indexes (eventually).
type Query struct {
	Table, Index string
	Hash         string
	From, To     types.AttributeValue // bounds of the range key, inclusive; nil = none
	Backward     bool
	Fields       []string // attributes to return, nil = all
	Filter       string   // may use the names and values below
	Names        map[string]string
	Values       Item
	Limit        int // items of the first page; later pages grow from there. 0 = as many as fit in a page
	Most         int // items of any page, for many queries side by side. 0 = as many as fit in a page
	Bytes        int // of any page but the first, about, for the same; it takes the place of Most from there on. 0 = as many as fit in a page
	// Anchor tells items that are there for as long as what is read is there as a whole. Each page begins with the last one of
	// the page before, yielded again: when it is gone, the error is ErrTruncated. Else the end of an entity that was removed
	// between two pages would look like the end of its events. It needs From, and a query forwards. nil: pages follow each other.
	Anchor func(it Item) bool
	// Paged is called between two pages. A page shows one moment, several do not: an item that is replaced by one further
	// back between two pages is in none of them. nil: nobody wants to know.
	Paged func()
	// Dense says that the range key is a number, that the items wanted are at whole numbers, and that few of those are
	// unused: what does not fit into a page is then read as ranges side by side. For forward queries without Limit and
	// Filter.
	Dense bool
}

// Op is one item of a Write. It is a put when Put is set, an update when Update is, a delete when Delete is, otherwise a
// check of Condition only.
type Op struct {
	Table     string
	Put       Item   // the whole item
	Key       Item   // of what is updated, deleted or checked
	Update    string // the update expression
	Delete    bool
	Condition string // "" = none
	Names     map[string]string
	Values    Item
	// Ours reports whether old, which made Condition fail, was written by an earlier try of this very write.
	// nil: it never was.
	Ours func(old Item) bool
	// Stamp puts the time into the op. It is called before every sending, for whoever reads by time looks back no further
	// than one exchange with the service may take; throttling can hold a write up for much longer. Once an answer of a
	// transaction has been lost its time stays. nil: the op has the time of its making, or none.
	Stamp func(now time.Time)
}

// Write is up to 100 ops that are stored together or not at all: one is sent as such, several as a transaction.
type Write struct {
	Ops []Op
	// Refused says what a failed condition means: an error, or nil when that is fine. old has the items that stood in the
	// way, by op, nil where there was none or the condition held. open reports that the outcome of an earlier try of the
	// same call was never learnt. nil: the write is refused with ErrConflict.
	Refused func(old []Item, open bool) error
	// Token sends even one op as a transaction, at twice the units: by the token of its requests the service knows one
	// that comes again. For rows that have no place for a WriteID.
	Token bool
	// Once says that the conditions only keep out a request that lands late and a second time. In a transaction of the caller's
	// its token does that, and the conditions are left out.
	Once bool
	// ReturnOld asks a Write of one put or delete for the item that it replaced or removed. A transaction cannot tell.
	ReturnOld bool
	// Apart stores the write at once and for itself, also from within a transaction of the caller's.
	Apart bool
}

// Judge is the outcome of a write whose conditions failed. old has the items that made them fail, by op; nil where the condition held,
// or where there was no item. The write is a repetition when every one of these items was written by an earlier try of it.
// open reports that the outcome of an earlier try is not known, and cause is the service's error.
func (w Write) Judge(old []Item, open bool, cause error) (Outcome, error) {
	ours := false
	for i, it := range old {
		if it == nil {
			continue
		}
		if ours = w.Ops[i].Ours != nil && w.Ops[i].Ours(it); !ours {
			break
		}
	}
	if ours {
		return Outcome{Repeated: true, Old: old}, nil
	}
	if w.Refused == nil {
		return Outcome{}, &annals.Error{Kind: annals.ErrConflict, Err: cause}
	}
	if err := w.Refused(old, open); err != nil {
		return Outcome{}, err
	}
	return Outcome{Refused: true, Old: old}, nil
}

// Outcome is what a Write did.
type Outcome struct {
	Repeated bool // an earlier try had landed: Ours said so
	Refused  bool // a condition failed and Write.Refused found that right
	Old      []Item
}
