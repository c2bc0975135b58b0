package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/valid"
)

// NewSetup returns the Setup of the store that Open opens. The path may be "" when Schema alone is called. The error is ErrInvalid when o is wrong.
//
// Schema, in the format "sql", is a script for a new file: it turns on the write-ahead log and creates the tables and indexes, also those of StateTypes,
// whose additional columns it declares without a type. It can be run by the sqlite3 program. It does not contain what Options.Init creates.
// Repeating it changes nothing; it does not upgrade a file of an older release.
//
// Migrate creates the file, or upgrades the tables of an older release in it, and runs Options.Init: everything that Open does by itself unless
// Options.CreateTables is false. It changes nothing that is up to date. Pending does not know what Options.Init would change. Examine takes
// the write lock for a moment, and creates a small file in the folder and removes it. With Options.ReadOnly it does neither, and Migrate is ErrUnsupported.
func NewSetup(path string, o Options) (ability.Setup, error) {
	types, err := compileTypes(o.StateTypes)
	if err == nil && path != "" {
		path, err = absolute(path)
	}
	if err != nil {
		return nil, named("set up", err)
	}
	return &setup{path, types, o}, nil
}

// SetupURL returns the Setup of the store that OpenURL opens: see NewSetup.
func (o Options) SetupURL(_ context.Context, u *url.URL) (ability.Setup, error) {
	path, o, err := o.fromURL(u)
	if err != nil {
		return nil, &annals.Error{Op: "set up", Kind: annals.ErrInvalid, Err: err}
	}
	return NewSetup(path, o)
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
	return strings.Join(schemaScript(s.o), ";\n\n") + ";\n", nil
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
	if s.o.ReadOnly {
		return nil, named("migrate", valid.ErrReadOnly)
	}
	pending, err := s.Pending(ctx)
	if err == nil {
		o := s.o
		o.CreateTables = nil
		var opened *Store
		if opened, err = Open(ctx, s.path, o); err == nil {
			err = opened.Close()
		}
	}
	if err != nil {
		return nil, named("migrate", err)
	}
	return pending, nil
}

func (s *setup) Examine(ctx context.Context) ([]ability.Finding, error) {
	if _, err := absolute(s.path); err != nil {
		return nil, named("examine", err)
	}
	found, err := s.examine(ctx)
	return found, named("examine", err)
}

func (s *setup) Close() error { return nil }

// open calls fn with the connection that a store would write with. Nothing of the file is checked before.
func (s *setup) open(ctx context.Context, fn func(b *backend, q *statements) error) error {
	if _, err := absolute(s.path); err != nil {
		return err
	}
	b := &backend{path: s.path, types: s.types}
	err := b.openWriter(ctx, findFile, s.o)
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
