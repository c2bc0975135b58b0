package pgstore_test

import (
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/hosttest"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// A role that may only SELECT, in a session that is read-only.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	at := postgres.Schema(t)
	s := openAt(t, at, pgstore.Options{CreateTables: true})
	role, as := asRole(t, at)
	run(t, at, "GRANT SELECT ON event_journal, snapshot, durable_state, akka_projection_timestamp_offset_store TO "+role)
	options := pgstore.Options{ReadOnly: true, CreateTables: true}
	_, err := pgstore.Open(t.Context(), pool(t, as), options)
	wantKind(t, err, annals.ErrInvalid)
	run(t, at, "GRANT SELECT ON annals_projection_epoch TO "+role)
	run(t, at, "ALTER ROLE "+role+" SET default_transaction_read_only = on")
	hosttest.ReadOnly(t, s, func() annals.Store { return openAt(t, as, options) }, true)

	setup, err := pgstore.NewSetup(pool(t, as), options)
	if err != nil {
		t.Fatal(err)
	}
	found, err := setup.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Severity == ability.Refused {
			t.Errorf("%+v", f)
		}
	}
	_, err = setup.Migrate(t.Context())
	wantKind(t, err, annals.ErrUnsupported)
}
