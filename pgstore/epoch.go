package pgstore

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// fence refuses p when a later epoch is stored for one of its slices, and otherwise stores p's epoch.
//
// When the first save of a lease has returned, no save of the lease before it can still succeed. A save with the stored epoch takes a
// shared lock on its row until it commits. The first save with a new epoch waits for these locks on all rows that its slices overlap, and
// changes the rows. Saves of other slices use other rows and do not wait.
func (v offsets) fence(ctx context.Context, tx pgx.Tx, p annals.Progress) error {
	known, err := v.epoch(ctx, tx, p, "SHARE")
	if err != nil || known {
		return err
	}
	if err := lockSlices(ctx, tx, p); err != nil {
		return err
	}
	if known, err = v.epoch(ctx, tx, p, "UPDATE"); err != nil || known {
		return err
	}
	from, to := p.Slices.Bounds()
	if _, err := tx.Exec(ctx, v.s.fill(`DELETE FROM {epoch} WHERE projection_name = $1 AND slice_from >= $2 AND slice_to <= $3 AND (slice_from, slice_to) <> ($2, $3)`),
		p.Projection, from, to); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, v.s.fill(`INSERT INTO {epoch} AS old (projection_name, slice_from, slice_to, epoch) VALUES ($1, $2, $3, $4)
		ON CONFLICT (projection_name, slice_from, slice_to) DO UPDATE SET epoch = excluded.epoch`), p.Projection, from, to, p.Epoch)
	return err
}

// epoch locks the rows of the epochs that are stored for slices of p, in order, and reads them. It returns true when p's epoch is stored
// for all of its slices.
func (v offsets) epoch(ctx context.Context, tx pgx.Tx, p annals.Progress, lock string) (known bool, err error) {
	from, to := p.Slices.Bounds()
	var seen int64
	err = tx.QueryRow(ctx, v.s.fill(`
		SELECT coalesce(max(epoch), 0), coalesce(bool_or(slice_from <= $2 AND slice_to >= $3 AND epoch = $4), FALSE)
		FROM (SELECT slice_from, slice_to, epoch FROM {epoch} WHERE projection_name = $1 AND slice_from < $3 AND slice_to > $2
			ORDER BY slice_from, slice_to FOR {lock}) e`, "{lock}", lock), p.Projection, from, to, p.Epoch).Scan(&seen, &known)
	if err == nil && seen > p.Epoch {
		err = &annals.Error{Kind: annals.ErrFenced,
			Err: fmt.Errorf("projection %q, slices %v: epoch %d, but %d was seen", p.Projection, p.Slices, p.Epoch, seen)}
	}
	return known, err
}

// lockSlices locks the slices of p against other saves with a new epoch, because a slice may have no row to lock yet. The slices are
// the leaves of a binary tree. The lock is exclusive on the nodes whose leaves are all within the range, and shared on the nodes above
// those, so that two ranges exclude each other if and only if they overlap. One lock per slice would fill the server's table of locks.
func lockSlices(ctx context.Context, tx pgx.Tx, p annals.Progress) error {
	from, to := p.Slices.Bounds()
	var nodes []int32
	var whole []bool
	var visit func(node, first, end int)
	visit = func(node, first, end int) {
		if end <= from || to <= first {
			return
		}
		covered := from <= first && end <= to
		nodes, whole = append(nodes, int32(node)), append(whole, covered)
		if !covered {
			middle := (first + end) / 2
			visit(2*node, first, middle)
			visit(2*node+1, middle, end)
		}
	}
	visit(1, 0, annals.SliceCount)
	_, err := tx.Exec(ctx, `SELECT CASE WHEN whole THEN pg_advisory_xact_lock(key) ELSE pg_advisory_xact_lock_shared(key) END
		FROM (SELECT whole, hashtextextended('annals epoch ' || $1 || ' ' || node, 0) AS key FROM unnest($2::int[], $3::bool[]) AS n (node, whole) ORDER BY node) n`,
		p.Projection, nodes, whole)
	return err
}
