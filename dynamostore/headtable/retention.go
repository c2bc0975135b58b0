package headtable

import (
	"cmp"
	"context"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Store is a *dynamostore.Store with this layout, or that store inside one of its transactions. For another layout the functions of this
// package are ErrUnsupported.
type Store interface{ plan.Runner }

// Retain removes the copies of id that Snapshot.Keep and Snapshot.Expire do not let stay. Each save and commit that makes a copy does the same
// afterwards, and ignores errors: what was left is removed by the next one. With Keep 0 Retain does nothing.
func Retain(ctx context.Context, s Store, id annals.PersistenceID) error {
	return s.Execute(ctx, plan.Function{Op: "retain", ID: id, Writes: true, Run: func(ctx context.Context, c plan.Contracts, _ plan.Executor) error {
		s, ok := c.Snapshots.(*snapshots)
		if !ok {
			return &annals.Error{Kind: annals.ErrUnsupported}
		}
		aid, err := aidOf(id)
		if err != nil {
			return err
		}
		return s.retain(ctx, aid, 0)
	}})
}

// retainLater retains after the write that has made the copy n.
func (s *snapshots) retainLater(ctx context.Context, aid string, n annals.SeqNr) {
	if s.keep == 0 {
		return
	}
	s.x.Then(ctx, func(ctx context.Context, x plan.Executor) {
		outside := *s
		outside.x = x
		_ = outside.retain(ctx, aid, n) // the next one repairs it
	})
}

// retain keeps the newest copies, and deletes or marks the others. The index lags behind, so it may not have the copy n, which was just made. Copies
// that are chosen again by a lagging index change nothing.
func (s *snapshots) retain(ctx context.Context, aid string, n annals.SeqNr) error {
	if s.keep == 0 {
		return nil
	}
	var copies []annals.SeqNr // the newest first
	for it, err := range s.x.Query(ctx, plan.Query{Table: s.table, Index: s.index, Hash: aid, Backward: true, Fields: []string{attrAID, attrPlace}}) {
		if err != nil {
			return err
		}
		place, _ := plan.Number(it, attrPlace)
		copies = append(copies, annals.SeqNr(place))
	}
	if n > 0 && !slices.Contains(copies, n) {
		copies = append(copies, n)
		slices.SortFunc(copies, func(a, b annals.SeqNr) int { return cmp.Compare(b, a) })
	}
	old := copies[min(s.keep, len(copies)):]
	if s.expire > 0 {
		return s.mark(ctx, aid, old)
	}
	keys := make([]plan.Item, len(old))
	for i, n := range old {
		keys[i] = snapshotKey(aid, n)
	}
	return s.x.DeleteAll(ctx, s.table, keys)
}

// mark sets the expiry of copies, once.
func (s *snapshots) mark(ctx context.Context, aid string, copies []annals.SeqNr) error {
	end := plan.N(s.x.Now().Add(s.expire).Unix())
	for _, n := range copies {
		op := plan.Op{Table: s.table, Key: snapshotKey(aid, n), Update: "SET #ttl = :end REMOVE #active", Condition: "attribute_exists(#active)",
			Names: map[string]string{"#ttl": attrExpiry, "#active": attrActive}, Values: plan.Item{":end": end}}
		if _, err := s.x.Write(ctx, plan.Write{Ops: []plan.Op{op}, Refused: func([]plan.Item, bool) error { return nil }}); err != nil {
			return err
		}
	}
	return nil
}
