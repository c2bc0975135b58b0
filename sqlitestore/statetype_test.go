package sqlitestore_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/sqlitestore"
)

// posts is a state type with a table of its own. The payload "title" or "title:body" gives the columns: without a body the column
// body keeps its value, and "title:" sets it to NULL.
func posts(onChange func(ctx context.Context, tx *sql.Tx, s annals.State) error) sqlitestore.Options {
	return sqlitestore.Options{
		Init: executing(
			sqlitestore.StateTable("posts", "title TEXT", "body TEXT", "seen INTEGER"),
			`CREATE INDEX IF NOT EXISTS posts_title ON posts (title)`,
			`CREATE TABLE IF NOT EXISTS counts (what TEXT PRIMARY KEY, n INTEGER NOT NULL)`,
		),
		StateTypes: map[string]annals.StateType[*sql.Tx]{"Post": {
			Table: "posts", Columns: []string{"title", "body", "seen"}, OnChange: onChange,
			Bind: func(s annals.State) (annals.Columns, error) {
				title, body, ok := strings.Cut(string(s.Data), ":")
				columns := annals.Columns{"title": title, "seen": time.UnixMicro(int64(s.Revision))}
				if ok {
					columns["body"] = body
					if body == "" {
						columns["body"] = nil
					}
				}
				return columns, nil
			},
		}},
	}
}

func put(s annals.Store, id annals.PersistenceID, after annals.SeqNr, text string) (annals.Receipt, error) {
	return s.States().Put(context.Background(), annals.StateWrite{ID: id, After: after, Payload: payload(text), WriteID: annals.NewWriteID()})
}

func TestAdditionalColumns(t *testing.T) {
	t.Parallel()
	s := open(t, posts(nil))
	body := func() (text sql.NullString) {
		t.Helper()
		if err := s.DB().QueryRowContext(t.Context(), `SELECT body FROM posts WHERE persistence_id = 'Post|1'`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	for i, step := range []struct {
		text string
		want sql.NullString
	}{
		{"first", sql.NullString{}},
		{"second:hello", sql.NullString{String: "hello", Valid: true}},
		{"third", sql.NullString{String: "hello", Valid: true}},
		{"fourth:", sql.NullString{}},
		{"fifth:again", sql.NullString{String: "again", Valid: true}},
	} {
		if _, err := put(s, "Post|1", annals.SeqNr(i), step.text); err != nil {
			t.Fatal(err)
		}
		if got := body(); got != step.want {
			t.Errorf("after %q the body is %v, want %v", step.text, got, step.want)
		}
	}
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Post|1", After: 5}); err != nil {
		t.Fatal(err)
	}
	if got := body(); got.String != "again" {
		t.Errorf("the delete changed an additional column to %v", got)
	}
	if _, err := put(s, "Other|1", 0, "common table"); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s.DB(), `SELECT count(*) FROM durable_state`); n != 1 {
		t.Errorf("%d rows in the common table", n)
	}
	var all []annals.PersistenceID
	for state, err := range s.Query().States(t.Context(), annals.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, state.ID)
	}
	if len(all) != 2 || all[0] != "Post|1" || all[1] != "Other|1" {
		t.Errorf("states of all tables in order of time: %v", all)
	}
}

func TestFindStates(t *testing.T) {
	t.Parallel()
	s := open(t, posts(nil))
	for id, text := range map[annals.PersistenceID]string{"Post|1": "same", "Post|2": "other", "Post|3": "same:x", "Post|4": "same"} {
		if _, err := put(s, id, 0, text); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Post|4", After: 1}); err != nil {
		t.Fatal(err)
	}
	find := func(column string, value any) (ids []annals.PersistenceID, err error) {
		for state, e := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "Post", column, value) {
			if err = e; err == nil {
				ids = append(ids, state.ID)
			}
		}
		return ids, err
	}
	for _, c := range []struct {
		column string
		value  any
		want   int
	}{{"title", "same", 2}, {"title", "none", 0}, {"body", nil, 2}, {"body", "x", 1}, {"seen", time.UnixMicro(1), 3}} {
		if ids, err := find(c.column, c.value); err != nil || len(ids) != c.want {
			t.Errorf("%s = %v: %v, %v; want %d", c.column, c.value, ids, err, c.want)
		}
	}
	_, err := find("revision", 1)
	wantKind(t, err, annals.ErrInvalid)
	_, err = find("title", []int{1})
	wantKind(t, err, annals.ErrInvalid)
}

// A change handler runs in the transaction of its write. When it refuses, the write is undone, and no other write is affected.
func TestChangeHandler(t *testing.T) {
	t.Parallel()
	var s *sqlitestore.Store
	s = open(t, posts(func(ctx context.Context, tx *sql.Tx, state annals.State) error {
		if _, err := s.Journal().Append(ctx, commit("T|outer", 0, 1)); !errors.Is(err, annals.ErrInvalid) {
			t.Errorf("writing to the store from a handler: %v", err)
		}
		const text = `INSERT INTO counts VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1`
		if _, err := tx.ExecContext(ctx, text, state.Deleted); err != nil {
			return err
		}
		switch string(state.Data) {
		case "refuse":
			return errOwn
		case "panic":
			panic("of the handler")
		}
		return nil
	}))
	var wg sync.WaitGroup
	wg.Go(func() { mustAppend(t, s, commit("T|1", 0, 3)) })
	for id, text := range map[annals.PersistenceID]string{"Post|1": "fine", "Post|2": "refuse", "Post|3": "panic"} {
		wg.Go(func() {
			_, err := put(s, id, 0, text)
			e := (*annals.Error)(nil)
			switch text {
			case "fine":
				if err != nil {
					t.Error(err)
				}
			case "refuse":
				if !errors.Is(err, errOwn) || !errors.As(err, &e) || e.Kind != nil {
					t.Errorf("the handler's error came back as %#v", err)
				}
			case "panic":
				wantKind(t, err, annals.ErrPanic)
			}
		})
	}
	wg.Wait()
	if _, err := put(s, "Post|1", 0, "conflict"); !errors.Is(err, annals.ErrConflict) {
		t.Error(err)
	}
	if _, err := s.States().Delete(t.Context(), annals.StateWrite{ID: "Post|1", After: 1}); err != nil {
		t.Error(err)
	}
	if n := count(t, s.DB(), `SELECT sum(n) FROM counts`); n != 2 {
		t.Errorf("the handler's writes of %d changes are there, want one put and one delete", n)
	}
	if n := count(t, s.DB(), `SELECT count(*) FROM posts`); n != 1 {
		t.Errorf("%d rows, want one", n)
	}
	if got := numbers(t, s, "T|1"); len(got) != 3 {
		t.Errorf("the neighbour has %v", got)
	}
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, in annals.Store) error {
		_, err := put(in, "Post|9", 0, "inside")
		return err
	})
	if err != nil || count(t, s.DB(), `SELECT sum(n) FROM counts`) != 3 {
		t.Error("a handler inside InTx: ", err)
	}
}

func TestOpenChecksStateTypes(t *testing.T) {
	t.Parallel()
	bind := func(annals.State) (annals.Columns, error) { return nil, nil }
	for name, c := range map[string]struct {
		o    sqlitestore.Options
		says string
	}{
		"no table": {sqlitestore.Options{StateTypes: map[string]annals.StateType[*sql.Tx]{"T": {Table: "nowhere"}}}, `no table "nowhere"`},
		"no column": {sqlitestore.Options{StateTypes: map[string]annals.StateType[*sql.Tx]{"T": {Columns: []string{"colour"}, Bind: bind}}},
			`no column "colour"`},
		"own column": {sqlitestore.Options{StateTypes: map[string]annals.StateType[*sql.Tx]{"T": {Columns: []string{"Revision"}, Bind: bind}}},
			`"Revision" is the store's own`},
		"column twice": {sqlitestore.Options{StateTypes: map[string]annals.StateType[*sql.Tx]{"T": {Columns: []string{"colour", "Colour"}, Bind: bind}}},
			`"Colour" is named twice`},
		"no bind": {sqlitestore.Options{StateTypes: map[string]annals.StateType[*sql.Tx]{"T": {Columns: []string{"colour"}}}}, "go together"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "annals.db"), c.o)
			wantKind(t, err, annals.ErrInvalid)
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v does not say %q", err, c.says)
			}
		})
	}
	broken := sqlitestore.Options{Init: func(context.Context, *sql.Tx) error { return errOwn }}
	if _, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "annals.db"), broken); !errors.Is(err, errOwn) {
		t.Errorf("an error of Init came back as %v", err)
	}
}

// A value for a column that is not named, or that cannot be stored, is refused before anything is written.
func TestBindIsChecked(t *testing.T) {
	t.Parallel()
	o := posts(nil)
	post := o.StateTypes["Post"]
	post.Bind = func(s annals.State) (annals.Columns, error) {
		switch string(s.Data) {
		case "unnamed":
			return annals.Columns{"revision": int64(7)}, nil
		case "type":
			return annals.Columns{"title": 7}, nil
		}
		return nil, errOwn
	}
	o.StateTypes["Post"] = post
	s := open(t, o)
	for _, text := range []string{"unnamed", "type"} {
		_, err := put(s, "Post|1", 0, text)
		wantKind(t, err, annals.ErrInvalid)
	}
	if _, err := put(s, "Post|1", 0, "own"); !errors.Is(err, errOwn) {
		t.Error(err)
	}
	if n := count(t, s.DB(), `SELECT count(*) FROM posts`); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// SQLite ignores the case of ASCII letters in names, so names that differ in it are the same table, also the common one.
func TestTableNamesIgnoreCase(t *testing.T) {
	t.Parallel()
	bind := func(s annals.State) (annals.Columns, error) { return annals.Columns{"TITLE": string(s.Data)}, nil }
	s := open(t, sqlitestore.Options{
		Init: executing(sqlitestore.StateTable("Posts", "Title TEXT"), sqlitestore.StateTable(`"PÖSTS"`), sqlitestore.StateTable(`"pösts"`)),
		StateTypes: map[string]annals.StateType[*sql.Tx]{
			"Common": {Table: "Durable_State"}, "Same": {Table: "durable_state"},
			"Post": {Table: "POSTS", Columns: []string{"TITLE"}, Bind: bind}, "Note": {Table: "posts"},
			"Large": {Table: "PÖSTS"}, "Small": {Table: "pösts"}, // the case of other letters counts
		},
	})
	ids := []annals.PersistenceID{"Common|1", "Same|1", "Post|1", "Note|1", "Large|1", "Small|1", "Other|1"}
	for _, id := range ids {
		if _, err := put(s, id, 0, "x"); err != nil {
			t.Fatal(err)
		}
	}
	var got []annals.PersistenceID
	for state, err := range s.Query().States(t.Context(), annals.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, state.ID)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("the states are %v, want %v", got, ids)
	}
	for table, want := range map[string]int{"durable_state": 3, "posts": 2, `"PÖSTS"`: 1, `"pösts"`: 1} {
		if n := count(t, s.DB(), `SELECT count(*) FROM `+table); n != want {
			t.Errorf("table %s has %d rows, want %d", table, n, want)
		}
	}
	for _, err := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "Post", "TITLE", "none") {
		t.Error("no state has that title, but: ", err)
	}
}

// A search for a column that was dropped is an error. SQLite would take its quoted name for a text.
func TestFindStatesMissesAColumn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "annals.db")
	s := openAt(t, path, posts(nil))
	if _, err := put(s, "Post|1", 0, "x"); err != nil {
		t.Fatal(err)
	}
	mustExec(t, raw(t, path), `ALTER TABLE posts DROP COLUMN body`)
	found := false
	for _, err := range s.Unwrap().(ability.StateFinder).FindStates(t.Context(), "Post", "body", "body") {
		wantKind(t, err, annals.ErrUnavailable)
		found = err == nil
	}
	if found {
		t.Error("a state was found by a column that is not there")
	}
}
