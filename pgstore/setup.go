package pgstore

import (
	"context"
	"fmt"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// SetupURL returns the Setup of the store that OpenURL opens. Its format of a schema is "sql"; Migrate and Pending are those of this package.
func (o Options) SetupURL(ctx context.Context, u *url.URL) (ability.Setup, error) {
	config, o, err := o.fromURL(u)
	if err != nil {
		return nil, faultOf("set up", invalid(err))
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, faultOf("set up", err)
	}
	s, err := newBackend(pool, o)
	if err != nil {
		pool.Close()
		return nil, faultOf("set up", err)
	}
	return &setup{s, pool}, nil
}

// setup is the ability.Setup of a backend that is not opened.
type setup struct {
	*backend
	pool *pgxpool.Pool
}

func (s *setup) Schema(format string) (string, error) {
	if format != "" && format != "sql" {
		return "", &annals.Error{Op: "schema", Kind: annals.ErrUnsupported, Err: fmt.Errorf("the format is sql, not %q", format)}
	}
	return s.script(), nil
}

func (s *setup) Pending(ctx context.Context) ([]string, error) {
	pending, err := s.pending(ctx)
	return pending, faultOf("schema", err)
}

func (s *setup) Migrate(ctx context.Context) ([]string, error) {
	done, err := s.migrate(ctx)
	return done, faultOf("migrate", err)
}

func (s *setup) Examine(ctx context.Context) ([]ability.Finding, error) {
	found, err := s.examine(ctx)
	return found, faultOf("examine", err)
}

func (s *setup) Close() error {
	s.disconnect()
	s.pool.Close()
	return nil
}
