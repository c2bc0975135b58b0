package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// SetupURL returns the Setup of the store that OpenURL opens. Its format of a schema is "sql". Migrate is that of this package; Pending does not
// know what Options.Init would change. Examine takes the write lock for a moment, and creates a small file in the folder and removes it.
func (o Options) SetupURL(_ context.Context, u *url.URL) (ability.Setup, error) {
	path, o, err := o.fromURL(u)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, &annals.Error{Op: "set up", Kind: annals.ErrInvalid, Err: err}
	}
	types, err := compileTypes(o.StateTypes)
	if err != nil {
		return nil, named("set up", err)
	}
	return &setup{path, types, o}, nil
}

// setup is the ability.Setup of a file that is not open.
type setup struct {
	path  string
	types stateTypes
	o     Options
}

func (s *setup) Schema(format string) (string, error) {
	if format != "" && format != "sql" {
		return "", &annals.Error{Op: "schema", Kind: annals.ErrUnsupported, Err: fmt.Errorf("the format is sql, not %q", format)}
	}
	return Schema(s.o), nil
}

func (s *setup) Pending(ctx context.Context) (all []string, err error) {
	err = s.open(ctx, func(b *backend, q *statements) error {
		if err := lookAtVersion(ctx, q); err != nil {
			return err
		}
		mode, err := journalMode(ctx, q, getMode)
		if err == nil && mode != "wal" {
			all = append(all, setWAL)
		}
		return errors.Join(err, looking(ctx, q, func() error {
			version, err := checkVersion(ctx, q)
			if err != nil {
				return err
			}
			tables, err := upgrade(ctx, q, version)
			if err != nil {
				return err
			}
			columns, err := s.types.missing(ctx, q)
			if err != nil {
				return err
			}
			more, err := indexes(ctx, q, s.types)
			all = append(append(append(all, tables...), columns...), more...)
			return err
		}))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return schemaScript(s.o), nil
	}
	return all, named("schema", err)
}

func (s *setup) Migrate(ctx context.Context) ([]string, error) {
	pending, err := s.Pending(ctx)
	if err == nil {
		err = Migrate(ctx, s.path, s.o)
	}
	if err != nil {
		return nil, named("migrate", err)
	}
	return pending, nil
}

func (s *setup) Examine(ctx context.Context) ([]ability.Finding, error) {
	found, err := s.examine(ctx)
	return found, named("examine", err)
}

func (s *setup) Close() error { return nil }

// open calls fn with the connection that a store would write with. Nothing of the file is checked before.
func (s *setup) open(ctx context.Context, fn func(b *backend, q *statements) error) error {
	b := &backend{path: s.path, types: s.types}
	err := findFile(s.path, func(more ...string) error { return b.openWriter(ctx, more) })
	if err == nil {
		q := &statements{conn: b.conn}
		err = errors.Join(fn(b, q), q.close())
	}
	return errors.Join(err, b.release())
}

// named is openFault with the name of another operation; nil for nil.
func named(op string, err error) error {
	if err == nil {
		return nil
	}
	e := *openFault(err).(*annals.Error) //nolint:errorlint // it is one
	e.Op = op
	return &e
}
