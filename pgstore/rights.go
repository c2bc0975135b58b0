package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// need is what the store does with a table.
type need struct {
	table      *table
	privileges []string
}

// needs are those of all tables that exist. Deleting events, and forgetting, need UPDATE and DELETE.
func (s *backend) needs() (all []need) {
	everything := []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	tables := []*table{s.journal, s.snapshot, s.epoch}
	for _, t := range s.stateTables("") {
		tables = append(tables, t.table)
	}
	for _, t := range tables {
		if t.exists() {
			all = append(all, need{t, everything})
		}
	}
	if s.offset.exists() {
		all = append(all, need{s.offset, []string{"SELECT", "INSERT", "DELETE"}})
	}
	return all
}

// checkRights returns all the rights that the role of the connections lacks, and tables that have been removed, as one error.
func (s *backend) checkRights(ctx context.Context) (wrong, err error) {
	var names, privileges []string
	for _, n := range s.needs() {
		for _, p := range n.privileges {
			names, privileges = append(names, n.table.name), append(privileges, p)
		}
	}
	rows, err := s.reads.Query(ctx, `
		SELECT name, current_user::text, bool_or(to_regclass(name) IS NULL), string_agg(privilege, ', ' ORDER BY nr)
		FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS n (name, privilege, nr)
		WHERE has_table_privilege(to_regclass(name), privilege) IS NOT TRUE
		GROUP BY name ORDER BY min(nr)`, names, privileges)
	if err != nil {
		return nil, err
	}
	var faults []error
	var name, role, lacks string
	var removed bool
	_, err = pgx.ForEachRow(rows, []any{&name, &role, &removed, &lacks}, func() error {
		if removed {
			faults = append(faults, fmt.Errorf("there is no table %s", name))
		} else {
			faults = append(faults, fmt.Errorf("table %s: the role %s has no right to %s", name, quote(role), lacks))
		}
		return nil
	})
	return errors.Join(faults...), err
}
