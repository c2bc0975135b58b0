// Package retention removes copies of snapshots, for layouts that keep the newest copies of each entity.
package retention

import (
	"context"
	"iter"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Rule says which copies stay.
type Rule struct {
	Table  string
	Keep   int           // how many copies of an entity stay, the newest; 0 removes none
	Expire time.Duration // how long the others stay; 0 deletes them at once
	// Mark returns the op that stores when the row at key expires, in seconds since 1970. Its condition fails for a copy that is marked already,
	// or deleted.
	Mark func(key plan.Item, end types.AttributeValue) plan.Op
}

// Copy is a copy of a snapshot.
type Copy struct {
	Number annals.SeqNr
	Key    plan.Item // of its row
}

// Apply deletes or marks the copies of an entity that do not stay. copies are those that are not marked, the newest first. An index may not yet
// have the copy that was written last: its number is written; 0 where it is not known. A copy is removed only when Keep newer ones were
// written, so concurrent runs, and an index that lags behind, remove nothing that stays.
func (r Rule) Apply(ctx context.Context, x plan.Executor, copies iter.Seq2[Copy, error], written annals.SeqNr) error {
	if r.Keep == 0 {
		return nil
	}
	return plan.Batches(r.excess(copies, written), func(keys []plan.Item) error {
		if r.Expire == 0 {
			return x.DeleteAll(ctx, r.Table, keys)
		}
		end := plan.N(x.Now().Add(r.Expire).Unix())
		for _, key := range keys {
			w := plan.Write{Ops: []plan.Op{r.Mark(key, end)}, Refused: func([]plan.Item, bool) error { return nil }}
			if _, err := x.Write(ctx, w); err != nil {
				return err
			}
		}
		return nil
	})
}

// excess yields the keys of the copies that do not stay.
func (r Rule) excess(copies iter.Seq2[Copy, error], written annals.SeqNr) iter.Seq2[plan.Item, error] {
	return func(yield func(plan.Item, error) bool) {
		kept, last := 0, annals.MaxSeqNr
		for c, err := range copies {
			if c.Number < written && written < last {
				kept++ // the place of the copy that the index does not have
			}
			if last = c.Number; err == nil && kept < r.Keep {
				kept++
				continue
			}
			if !yield(c.Key, err) {
				return
			}
		}
	}
}
