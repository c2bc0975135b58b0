package pgstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

const secret = "not to be told"

func wantNoSecret(t *testing.T, err error) {
	t.Helper()
	for e := err; e != nil; e = errors.Unwrap(e) {
		if text := errorText(e); strings.Contains(text, secret) || strings.Contains(text, "a secret") {
			t.Errorf("the error tells what was stored: %s", text)
		}
	}
}

// seen is the name of a column, which must stay as it is in the store's statements.
const seen = `seen "durable_state" /*, value*/`

// users are states with a unique name, a score and a handler.
func users(t *testing.T, o pgstore.Options, handler func(context.Context, pgx.Tx, annals.State) error, bind func(annals.State) (annals.Columns, error)) (*pgstore.Store, string) {
	t.Helper()
	url := postgres.Schema(t)
	openAt(t, url, pgstore.Options{CreateTables: true})
	run(t, url, `CREATE TABLE users (LIKE durable_state INCLUDING ALL, name VARCHAR(40) UNIQUE, score INT, `+pgx.Identifier{seen}.Sanitize()+` TIMESTAMPTZ);
		CREATE TABLE counts (id INT PRIMARY KEY, n INT CHECK (n < 1000000)); INSERT INTO counts VALUES (1, 0)`)
	o.StateTypes = map[string]annals.StateType[pgx.Tx]{"User": {Table: "users", Columns: []string{"name", "score", seen}, Bind: bind, OnChange: handler}}
	return openAt(t, url, o), url
}

func bindName(s annals.State) (annals.Columns, error) {
	return annals.Columns{"name": string(s.Data), "score": int64(len(s.Data)), seen: time.Unix(int64(s.Revision), 0)}, nil
}

// A value that the driver cannot encode, because the type of its column was changed, is refused at once, and is not told.
func TestColumnOfAnotherType(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	s, url := users(t, pgstore.Options{Observer: r}, nil, bindName)
	run(t, url, `ALTER TABLE users ALTER COLUMN score TYPE UUID USING NULL`)
	_, err := s.States().Put(t.Context(), annals.StateWrite{ID: "User|1", Payload: text(secret)})
	wantKind(t, err, annals.ErrInvalid)
	for _, err := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "User", "score", int64(14)) {
		wantKind(t, err, annals.ErrInvalid)
	}
	for i, result := range r.ended {
		if !errors.Is(result.Err, annals.ErrInvalid) || result.Retries > 0 || strings.Contains(result.Err.Error(), "14") {
			t.Errorf("%s: %v after %d retries, want ErrInvalid at once", r.calls[i].Op, result.Err, result.Retries)
		}
	}
}

func TestUniqueColumn(t *testing.T) {
	t.Parallel()
	s, _ := users(t, pgstore.Options{}, nil, bindName)
	mustPut(t, s, "User|1", 0, text(secret))
	err := put(t, s, "User|2", 0, text(secret))
	wantKind(t, err, annals.ErrConstraint)
	wantNoSecret(t, err)
	mustPut(t, s, "User|2", 0, text("another"))
	err = put(t, s, "User|2", 1, text(secret))
	wantKind(t, err, annals.ErrConstraint)
	wantNoSecret(t, err)

	// Inside a transaction the refusal is the caller's to handle.
	err = s.InTx(t.Context(), func(ctx context.Context, _ pgx.Tx, in annals.Store) error {
		if _, err := in.States().Put(ctx, annals.StateWrite{ID: "User|3", Payload: text(secret)}); !errors.Is(err, annals.ErrConstraint) {
			t.Errorf("got %v, want ErrConstraint", err)
		}
		_, err := in.States().Put(ctx, annals.StateWrite{ID: "User|3", Payload: text("third")})
		return err
	})
	if err != nil {
		t.Error(err)
	}
	found := 0
	for state, err := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "User", "name", "third") {
		if found++; err != nil || state.ID != "User|3" {
			t.Errorf("found %q (%v), want User|3", state.ID, err)
		}
	}
	if found != 1 {
		t.Errorf("found %d states, want 1", found)
	}
}

func TestFindStates(t *testing.T) {
	t.Parallel()
	s, url := users(t, pgstore.Options{}, nil, bindName)
	mustPut(t, s, "User|1", 0, text("abc"))
	mustPut(t, s, "User|2", 0, text("xyz"))
	mustPut(t, s, "User|3", 0, text("gone"))
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "User|3", After: 1}); err != nil {
		t.Fatal(err)
	}
	run(t, url, "UPDATE users SET score = NULL WHERE persistence_id = 'User|2'")
	for _, c := range []struct {
		column string
		value  any
		want   string
		kind   error
	}{
		{"score", int64(3), "User|1", nil}, {"score", nil, "User|2", nil}, {"name", "nobody", "", nil}, {"name", "gone", "", nil},
		{seen, time.Unix(1, 0), "User|1 User|2", nil},
		{"score", "three", "", annals.ErrInvalid}, {"tags", "x", "", annals.ErrInvalid}, {"name; DROP TABLE users", "x", "", annals.ErrInvalid},
	} {
		var got []string
		var err error
		for state, e := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "User", c.column, c.value) {
			if err = e; err == nil {
				got = append(got, string(state.ID))
			}
		}
		if strings.Join(got, " ") != c.want || !errors.Is(err, c.kind) {
			t.Errorf("%s = %v: got %q, %v, want %q, %v", c.column, c.value, got, err, c.want, c.kind)
		}
	}
}

// Of two rows of an entity, which a plugin can leave in older tables, the newer one is looked at.
func TestFindStatesInOlderTables(t *testing.T) {
	t.Parallel()
	s, url := users(t, pgstore.Options{}, nil, bindName)
	mustPut(t, s, "User|1", 0, text("abc"))
	mustPut(t, s, "User|1", 1, text("xyz"))
	run(t, url, `ALTER TABLE users DROP CONSTRAINT users_pkey, ADD PRIMARY KEY (persistence_id, revision);
		INSERT INTO users (SELECT (r).* FROM (SELECT jsonb_populate_record(u, '{"revision": 1, "name": "abc"}') r FROM users u) x)`)
	s = openAt(t, url, pgstore.Options{StateTypes: map[string]annals.StateType[pgx.Tx]{"User": {Table: "users", Columns: []string{"name", "score"}, Bind: bindName}}})
	for name, want := range map[string]int{"abc": 0, "xyz": 1} {
		found := 0
		for state, err := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "User", "name", name) {
			if found++; err != nil || state.Revision != 2 {
				t.Errorf("found revision %d (%v), want 2", state.Revision, err)
			}
		}
		if found != want {
			t.Errorf("found %d states with the name %s, want %d", found, name, want)
		}
	}
}

func TestBadColumns(t *testing.T) {
	t.Parallel()
	broken := errors.New("bind fails")
	for name, c := range map[string]struct {
		bind func(annals.State) (annals.Columns, error)
		kind error
	}{
		"another type": {func(annals.State) (annals.Columns, error) { return annals.Columns{"score": secret}, nil }, annals.ErrInvalid},
		"too long": {func(annals.State) (annals.Columns, error) {
			return annals.Columns{"name": strings.Repeat(secret, 9)}, nil
		}, annals.ErrInvalid},
		"too large":   {func(annals.State) (annals.Columns, error) { return annals.Columns{"score": int64(1 << 40)}, nil }, annals.ErrInvalid},
		"unannounced": {func(annals.State) (annals.Columns, error) { return annals.Columns{"slice": int64(1)}, nil }, annals.ErrInvalid},
		"an error":    {func(annals.State) (annals.Columns, error) { return nil, broken }, broken},
		"a panic":     {func(annals.State) (annals.Columns, error) { panic("bind panics") }, annals.ErrPanic},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := users(t, pgstore.Options{}, nil, c.bind)
			err := put(t, s, "User|1", 0, text("x"))
			wantKind(t, err, c.kind)
			wantNoSecret(t, err)
			if n := count(t, url, "SELECT count(*) FROM users"); n != 0 {
				t.Errorf("%d rows, want none", n)
			}
		})
	}
}

func TestBadHandlers(t *testing.T) {
	t.Parallel()
	const short = 300 * time.Millisecond
	for name, c := range map[string]struct {
		handler func(context.Context, pgx.Tx, annals.State) error
		kind    error
		timeout time.Duration
	}{
		"panics":                {func(context.Context, pgx.Tx, annals.State) error { panic("no") }, annals.ErrPanic, 0},
		"waits for its context": {func(ctx context.Context, _ pgx.Tx, _ annals.State) error { <-ctx.Done(); return ctx.Err() }, context.DeadlineExceeded, short},
		"ignores its deadline":  {func(ctx context.Context, _ pgx.Tx, _ annals.State) error { <-ctx.Done(); return nil }, context.DeadlineExceeded, short},
		"waits in the server": {func(_ context.Context, tx pgx.Tx, _ annals.State) error {
			_, err := tx.Exec(context.Background(), "SELECT pg_sleep(60)")
			return err
		}, nil, short},
		"ignores the server": {func(ctx context.Context, tx pgx.Tx, _ annals.State) error {
			_, _ = tx.Exec(ctx, "SELECT 1/0")
			return nil
		}, annals.ErrInvalid, 0},
		"breaks a constraint": {func(ctx context.Context, tx pgx.Tx, _ annals.State) error {
			_, err := tx.Exec(ctx, "INSERT INTO counts VALUES (1, 1)")
			return err
		}, annals.ErrConstraint, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := users(t, pgstore.Options{WriteTimeout: c.timeout}, c.handler, bindName)
			err := put(t, s, "User|1", 0, text("x"))
			if c.kind != nil {
				wantKind(t, err, c.kind)
			}
			if err == nil || errors.Is(err, annals.ErrConflict) || errors.Is(err, annals.ErrUnknown) {
				t.Errorf("got %v, want an error that is certain", err)
			}
			if n := count(t, url, "SELECT count(*) FROM users"); n != 0 {
				t.Errorf("%d rows, want none", n)
			}
		})
	}
}

// A handler may read the outer store, and not write to it: the write could wait for the handler's own transaction.
func TestOuterStoreInHandler(t *testing.T) {
	t.Parallel()
	var s *pgstore.Store
	s, _ = users(t, pgstore.Options{}, func(ctx context.Context, _ pgx.Tx, _ annals.State) error {
		if _, err := s.Journal().LastSeqNr(ctx, "User|1"); err != nil {
			t.Errorf("a read of the outer store: %v", err)
		}
		_, err := s.Journal().Append(ctx, annals.Commit{ID: "User|1", Events: []annals.NewEvent{{Payload: text("x")}}})
		return err
	}, bindName)
	wantKind(t, put(t, s, "User|1", 0, text("x")), annals.ErrInvalid)
}

func TestBadStateWrites(t *testing.T) {
	t.Parallel()
	s, _ := users(t, pgstore.Options{}, nil, nil0)
	wantKind(t, put(t, s, "User|1", -1, text("x")), annals.ErrInvalid)
	wantKind(t, put(t, s, "User|1", annals.MaxSeqNr, text("x")), annals.ErrInvalid)
	wantKind(t, put(t, s, "", 0, text("x")), annals.ErrInvalid)
	wantKind(t, put(t, s, annals.PersistenceID(strings.Repeat("x", 256)), 0, text("x")), annals.ErrInvalid)
	wantKind(t, put(t, s, annals.PersistenceID("T|"+strings.Repeat("é", 254)), 0, text("x")), annals.ErrInvalid)
	mustPut(t, s, annals.PersistenceID("T|"+strings.Repeat("é", 253)), 0, text("x")) // 255 characters, as the plugins count
	wantKind(t, put(t, s, "User|1", 0, annals.Payload{SerializerID: 4, Data: make([]byte, 64<<20+1)}), annals.ErrTooLarge)
	wantKind(t, put(t, s, "User|1", 0, annals.Payload{SerializerID: 4, Manifest: strings.Repeat("m", 256)}), annals.ErrInvalid)
}

func nil0(annals.State) (annals.Columns, error) { return nil, nil }

// Columns that are absent keep their value, nil stores NULL.
func TestColumnsAbsentAndNull(t *testing.T) {
	t.Parallel()
	s, url := users(t, pgstore.Options{}, nil, func(s annals.State) (annals.Columns, error) {
		switch s.Revision {
		case 1:
			return annals.Columns{"name": "a", "score": int64(1)}, nil
		case 2:
			return annals.Columns{"score": nil}, nil
		}
		return nil, nil
	})
	row := func() (name string, score *int) {
		query(t, url, "SELECT name, score FROM users", nil, &name, &score)
		return name, score
	}
	mustPut(t, s, "User|1", 0, text("x"))
	if name, score := row(); name != "a" || score == nil || *score != 1 {
		t.Errorf("after the insert: %q, %v", name, score)
	}
	mustPut(t, s, "User|1", 1, text("x"))
	if name, score := row(); name != "a" || score != nil {
		t.Errorf("after an update with NULL: %q, %v", name, score)
	}
	mustPut(t, s, "User|1", 2, text("x"))
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "User|1", After: 3}); err != nil {
		t.Fatal(err)
	}
	if name, score := row(); name != "a" || score != nil {
		t.Errorf("after a delete: %q, %v", name, score)
	}
}
