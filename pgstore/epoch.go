package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
)

// offsetRows are the parameters of a statement for many offsets.
type offsetRows struct {
	slices []int32
	ids    []string
	seqNrs []int64
	times  []time.Time
}

func (r *offsetRows) add(id annals.PersistenceID, o annals.Offset) {
	r.slices = append(r.slices, int32(id.Slice()))
	r.ids = append(r.ids, string(id))
	r.seqNrs = append(r.seqNrs, int64(o.SeqNr))
	r.times = append(r.times, o.Time)
}

// fence refuses p when a later epoch was seen for one of its slices, and makes its epoch the one that was seen.
//
// Saves of one projection hold a shared lock to their commit, and whoever brings a new epoch an exclusive one: when the
// first save of a lease has returned, none of the lease before it is still on its way.
func (v offsets) fence(ctx context.Context, tx pgx.Tx, p annals.Progress) error {
	known, err := v.epoch(ctx, tx, p, "pg_advisory_xact_lock_shared")
	if err != nil || known {
		return err
	}
	if known, err = v.epoch(ctx, tx, p, "pg_advisory_xact_lock"); err != nil || known {
		return err
	}
	from, to := p.Slices.Bounds()
	name := v.s.epoch.name
	if _, err := tx.Exec(ctx, fmt.Sprintf(`DELETE FROM %s WHERE projection_name = $1 AND slice_from >= $2 AND slice_to <= $3 AND (slice_from, slice_to) <> ($2, $3)`, name),
		p.Projection, from, to); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, fmt.Sprintf(`INSERT INTO %s AS old (projection_name, slice_from, slice_to, epoch) VALUES ($1, $2, $3, $4)
		ON CONFLICT (projection_name, slice_from, slice_to) DO UPDATE SET epoch = excluded.epoch`, name), p.Projection, from, to, p.Epoch)
	return err
}

// epoch takes the lock and looks. It returns true when p's epoch is known for all of its slices already.
func (v offsets) epoch(ctx context.Context, tx pgx.Tx, p annals.Progress, lock string) (known bool, err error) {
	if _, err := tx.Exec(ctx, "SELECT "+lock+"(hashtextextended('annals epoch ' || $1, 0))", p.Projection); err != nil {
		return false, err
	}
	from, to := p.Slices.Bounds()
	var seen int64
	err = tx.QueryRow(ctx, fmt.Sprintf(`SELECT coalesce(max(epoch), 0), coalesce(bool_or(slice_from <= $2 AND slice_to >= $3 AND epoch = $4), FALSE)
		FROM %s WHERE projection_name = $1 AND slice_from < $3 AND slice_to > $2`, v.s.epoch.name), p.Projection, from, to, p.Epoch).Scan(&seen, &known)
	if err == nil && seen > p.Epoch {
		err = &annals.Error{Op: "save offsets", Kind: annals.ErrFenced,
			Err: fmt.Errorf("projection %q, slices %v: epoch %d, but %d was seen", p.Projection, p.Slices, p.Epoch, seen)}
	}
	return known, err
}
