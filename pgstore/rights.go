package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals/internal/findings"
)

// checkRights returns all the rights that the role of the connections lacks, and tables that have been removed, as one error. Deleting
// events, and forgetting, need UPDATE and DELETE.
func (s *backend) checkRights(ctx context.Context) (wrong, err error) {
	var names, privileges []string
	use := func(t *table, needed ...string) {
		for _, p := range needed {
			if t.exists() && (p == "SELECT" || !s.options.ReadOnly) {
				names, privileges = append(names, t.name), append(privileges, p)
			}
		}
	}
	for _, t := range []*table{s.journal, s.snapshot, s.epoch} {
		use(t, "SELECT", "INSERT", "UPDATE", "DELETE")
	}
	for _, t := range s.stateTables("") {
		use(t.table, "SELECT", "INSERT", "UPDATE", "DELETE")
	}
	use(s.offset, "SELECT", "INSERT", "DELETE")
	rows, err := s.pool(ctx).Query(ctx, `
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
			faults = append(faults, noTable(name))
		} else {
			faults = append(faults, &findings.Fault{Code: "right", Found: fmt.Sprintf("table %s: the role %s has no right to %s", name, quote(role), lacks),
				Do: fmt.Sprintf("GRANT %s ON %s TO %s", lacks, name, quote(role))})
		}
		return nil
	})
	return errors.Join(faults...), err
}
