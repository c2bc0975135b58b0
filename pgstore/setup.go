package pgstore

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/valid"
)

// NewSetup returns the Setup of the store that Open opens. It closes the connections that it makes, and not the pool. The pool may be nil when
// Schema alone is called. The error is ErrInvalid when o is wrong.
//
// Schema, in the format "sql", has the statements for an empty database, each ended by a semicolon: schema, tables and indexes. Additional columns of
// Options.StateTypes are the user's own and are not in it.
//
// Migrate runs in one transaction. It creates what is missing, also the columns of tables of states that the plugins' tables do not have, and upgrades
// the table of epochs of an older release; older releases refuse it then. When nothing is missing, it only reads, and the role needs no right
// to create. Nothing that exists is changed otherwise: Open reports what is wrong. Processes may migrate at the same time. An index on
// a large table blocks its writers while it is made: create it beforehand, with CREATE INDEX CONCURRENTLY and the name that Pending shows.
func NewSetup(pool *pgxpool.Pool, o Options) (ability.Setup, error) {
	s, err := newBackend(pool, o)
	if err != nil {
		return nil, faultOf("set up", err)
	}
	return &setup{backend: s}, nil
}

// SetupURL returns the Setup of the store that OpenURL opens: see NewSetup.
func (o Options) SetupURL(ctx context.Context, u *url.URL) (ability.Setup, error) {
	config, o, err := o.fromURL(u)
	if err != nil {
		return nil, faultOf("set up", invalid(err))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, faultOf("set up", err)
	}
	made, err := NewSetup(pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	made.(*setup).made = pool
	return made, nil
}

// setup is the ability.Setup of a backend that is not opened.
type setup struct {
	*backend
	made *pgxpool.Pool // for a URL; Close closes it
}

func (s *setup) Schema(format string) (string, error) {
	if format != "" && format != "sql" {
		return "", &annals.Error{Op: "schema", Kind: annals.ErrUnsupported, Err: fmt.Errorf("the format is sql, not %q", format)}
	}
	var b strings.Builder
	for _, o := range s.objects() {
		if o.column == "" { // the tables have all columns
			b.WriteString(o.ddl + ";\n")
		}
	}
	return b.String(), nil
}

func (s *setup) Pending(ctx context.Context) ([]string, error) {
	var missing []object
	err := s.look(ctx)
	if err == nil {
		missing, err = s.missing(ctx, s.reads, true)
	}
	return statementsOf(missing), faultOf("schema", err)
}

func (s *setup) Migrate(ctx context.Context) (done []string, err error) {
	if s.options.ReadOnly {
		return nil, faultOf("migrate", valid.ErrReadOnly)
	}
	if err = s.look(ctx); err == nil {
		done, err = s.create(ctx, true)
	}
	return done, faultOf("migrate", err)
}

// look finds out where the tables are, and refuses some.
func (s *setup) look(ctx context.Context) error {
	if err := s.findPooler(ctx); err != nil {
		return err
	}
	return s.refuseTables(ctx)
}

func (s *setup) Examine(ctx context.Context) ([]ability.Finding, error) {
	if s.reads == nil {
		return nil, faultOf("examine", invalid(errNoPool))
	}
	found, err := s.examine(ctx)
	return found, faultOf("examine", err)
}

func (s *setup) Close() error {
	s.disconnect()
	if s.made != nil {
		s.made.Close()
	}
	return nil
}
