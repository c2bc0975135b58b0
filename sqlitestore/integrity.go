package sqlitestore

import (
	"context"
	"errors"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
)

// CheckIntegrity reads the whole file and compares every index with its table and every checksum with its row. It is ErrCorrupt when
// something is damaged; the error names the first fault. It finds what reads cannot notice: rows that a damaged index hides, such as the
// newest events of an entity. It takes as long as reading the file several times. Writes go on meanwhile, but the write-ahead log
// grows until the check ends.
func (s *Store) CheckIntegrity(ctx context.Context) error {
	return driver.Read(ctx, s.Store, annals.Call{Op: "check integrity"}, func(ctx context.Context) error {
		return driver.Fetch(ctx, s.backend.checkIntegrity)
	})
}

func (b *backend) checkIntegrity(ctx context.Context) error {
	return b.fresh(ctx, func(ctx context.Context, q *statements) error {
		fault := ""
		_, err := q.row(ctx, `PRAGMA integrity_check(1)`, nil, func(v *values) { fault = v.text("integrity_check") })
		if err != nil {
			return err
		}
		if fault != "ok" {
			return &annals.Error{Kind: annals.ErrCorrupt, Err: errors.New(fault)}
		}
		return b.checkRows(ctx, q)
	})
}

// checkRows decodes all events, snapshots and states, which compares the checksums.
func (b *backend) checkRows(ctx context.Context, q *statements) error {
	var row eventRow
	err := q.rows(ctx, `SELECT persistence_id, `+eventColumns+` FROM event_journal`, nil, func(v *values) (bool, error) {
		row.ID = v.id("persistence_id")
		return true, row.read(v)
	})
	if err != nil {
		return err
	}
	err = q.rows(ctx, `SELECT persistence_id, `+snapshotColumns+` FROM snapshot`, nil, func(v *values) (bool, error) {
		_, err := readSnapshot(v, v.id("persistence_id"))
		return true, err
	})
	if err != nil {
		return err
	}
	for _, table := range b.types.tables("") {
		err := q.rows(ctx, `SELECT `+stateColumns+` FROM `+table, nil, func(v *values) (bool, error) {
			_, err := readState(v)
			return true, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
