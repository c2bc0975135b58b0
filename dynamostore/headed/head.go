package headed

import (
	"context"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// read reads the head of id. An id without a head must not have rows.
func (j *journal) read(ctx context.Context, id annals.PersistenceID) (head, error) {
	key, err := j.key(id, 0)
	if err != nil {
		return head{}, err
	}
	it, ok, err := j.x.Get(ctx, plan.Get{Table: j.heads, Key: key})
	if err == nil && !ok {
		var found bool
		if found, err = j.snapshots.exist(ctx, id); err == nil {
			it, err = j.readAgain(ctx, id, key, found)
		}
	}
	if err != nil {
		return head{}, err
	}
	return j.head(it)
}

// readBoth reads the head of id, and the row with the newest state, which are one row unless heads are lean.
func (j *journal) readBoth(ctx context.Context, id annals.PersistenceID) (h head, m mainRow, err error) {
	if !j.lean {
		if h, err = j.read(ctx, id); err == nil {
			m, err = j.snapshots.read(id, h.item)
		}
		return h, m, err
	}
	key, err := j.key(id, 0)
	if err != nil {
		return h, m, err
	}
	current, err := j.current(id)
	if err != nil {
		return h, m, err
	}
	items, err := j.x.GetMany(ctx, []plan.Get{{Table: j.heads, Key: key}, {Table: j.heads, Key: current}})
	if err != nil {
		return h, m, err
	}
	if items[0] == nil {
		if items[0], err = j.readAgain(ctx, id, key, items[1] != nil); err != nil {
			return h, m, err
		}
	}
	if h, err = j.head(items[0]); err == nil {
		m, err = j.snapshots.read(id, items[1])
	}
	return h, m, err
}

// readAgain reads the head at key again if id has rows: those were written after the head was read, or the head is lost. found says
// that the snapshot table has some. Rows at keys of other settings are ErrInvalid.
func (j *journal) readAgain(ctx context.Context, id annals.PersistenceID, key plan.Item, found bool) (plan.Item, error) {
	if !found {
		var err error
		if found, err = j.events.Has(ctx, j.x, id); err != nil || !found {
			return nil, err
		}
	}
	it, ok, err := j.x.Get(ctx, plan.Get{Table: j.heads, Key: key})
	if err == nil && !ok {
		err = j.lost(key)
	}
	return it, err
}

// lost returns the error of an entity whose head should be at key.
func (j *journal) lost(key plan.Item) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("table %q has no row %s, although the entity has others", j.heads, plan.QuoteKey(key))}
}

// exist reports whether there are snapshot rows of id beside a head.
func (s *snapshots) exist(ctx context.Context, id annals.PersistenceID) (found bool, err error) {
	switch {
	case s.lean:
		key, err := s.current(id)
		if err != nil {
			return false, err
		}
		_, found, err = s.x.Get(ctx, plan.Get{Table: s.table, Key: key})
		return found, err
	case s.keep > 0:
		for _, err := range s.copies(ctx, id, annals.SnapshotCriteria{}, s.index) {
			return err == nil, err
		}
	}
	return false, nil
}
