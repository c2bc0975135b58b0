package pgstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/findings"
)

// schemaVersion is the version of the tables that this release creates. It is in the comment of the table of epochs, where the plugins do
// not look. Tables without that table, or without the comment, are those of the plugins or of an older release.
//
//	1  the first version
//	2  the columns through_* and newest_time of epochs, meta_* of states
//	3  the comment; slice_from and slice_to of epochs are SMALLINT, so that releases that do not read the comment refuse the table
//
// Version 2 is read and written as it is.
const schemaVersion = 3

const versionPrefix = "annals schema version "

var versionComment = fmt.Sprint(versionPrefix, schemaVersion)

// refuseTables refuses tables that the store can neither use nor upgrade.
func (s *backend) refuseTables(ctx context.Context) error {
	if err := s.refusePartitions(ctx); err != nil {
		return err
	}
	return s.refuseNewer(ctx)
}

// refuseNewer refuses tables that a newer release made or upgraded.
func (s *backend) refuseNewer(ctx context.Context) error {
	var comment string
	const sql = `SELECT coalesce(obj_description(to_regclass($1), 'pg_class'), '')`
	if err := s.reads.QueryRow(ctx, sql, s.tables.quoted(s.tables.Epoch)).Scan(&comment); err != nil {
		return err
	}
	return newer(comment)
}

// newer is ErrUnsupported where the comment of the table of epochs has a version after this release's.
func newer(comment string) error {
	version := 0
	if text, found := strings.CutPrefix(comment, versionPrefix); found {
		_, _ = fmt.Sscan(text, &version) // what is no number was not written by a release
	}
	if version > schemaVersion {
		return &annals.Error{Kind: annals.ErrUnsupported,
			Err: &findings.Fault{Code: "newer-tables", Schema: true, Found: fmt.Sprintf("the tables have schema version %d, this release knows %d", version, schemaVersion), Do: "use a newer release"}}
	}
	return nil
}
