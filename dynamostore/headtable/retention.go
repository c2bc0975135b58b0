package headtable

import (
	"context"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/retention"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Store is a *dynamostore.Store with this layout, or that store inside one of its transactions. For another layout the functions of this
// package are ErrUnsupported.
type Store interface{ plan.Runner }

// Retain removes the copies of id that Snapshot.Keep and Snapshot.Expire do not let stay. Each save and commit that makes a copy does the same
// afterwards, and ignores errors: what was left is removed by the next one. With Keep 0 Retain does nothing.
func Retain(ctx context.Context, s Store, id annals.PersistenceID) error {
	return s.Execute(ctx, plan.Function{Op: "retain snapshots", ID: id, Writes: true, Run: plan.OnJournal(func(ctx context.Context, j *journal) error {
		aid, err := aidOf(id)
		if err != nil {
			return err
		}
		return j.snapshots.retain(ctx, aid, 0)
	})})
}

// written is called after a write that has made the copy n. An error of the retention must not change the result of the write, which is stored.
func (s *snapshots) written(ctx context.Context, aid string, n annals.SeqNr) {
	if s.keep == 0 {
		return
	}
	s.x.Then(ctx, func(ctx context.Context, x plan.Executor) {
		outside := *s
		outside.x = x
		_ = outside.retain(ctx, aid, n) // the next one repairs it
	})
}

// retain removes the copies that do not stay; n is the copy that was just made. The index has the copies that are not marked.
func (s *snapshots) retain(ctx context.Context, aid string, n annals.SeqNr) error {
	if s.keep == 0 {
		return nil
	}
	q := plan.Query{Table: s.table, Index: s.index, Hash: aid, Backward: true, Fields: []string{attrAID, attrPlace}}
	copies := plan.Picked(s.x.Query(ctx, q), func(it plan.Item) (retention.Copy, bool, error) {
		place, _ := plan.Number(it, attrPlace)
		return retention.Copy{Number: annals.SeqNr(place), Key: it}, true, nil
	})
	return retention.Rule{Table: s.table, Keep: s.keep, Expire: s.expire, Mark: s.mark}.Apply(ctx, s.x, copies, n)
}

// mark returns the op that sets the end of a copy, once.
func (s *snapshots) mark(key plan.Item, end types.AttributeValue) plan.Op {
	return plan.Op{Table: s.table, Key: key, Update: "SET #ttl = :end REMOVE #active", Condition: "attribute_exists(#active)",
		Names: map[string]string{"#ttl": attrExpiry, "#active": attrActive}, Values: plan.Item{":end": end}}
}
