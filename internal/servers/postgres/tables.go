package postgres

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"
)

// prepared holds the schemas with empty tables that no test uses now, by the key given to Tables.
var prepared struct {
	sync.Mutex
	free map[string][]schema
}

// schema is a schema made by Tables.
type schema struct {
	name  string
	shape string // describes its objects as they were created
	empty string // the statements that empty its tables
}

const (
	maxRows   = 2000            // rows that a test may leave in a schema that is used again: deleted rows slow later scans down
	maxLinger = 5 * time.Second // time that the sessions of a finished test have to end
)

// Tables returns the URL of a schema in which create has created tables, all of them empty. Tests with the same key use the same
// schemas one after the other, because creating tables takes longer than most tests. A test may change its schema, which is then
// not used again.
func Tables(t testing.TB, key string, create func(url string)) string {
	t.Helper()
	s, one := get(t), takePrepared(key)
	if one.name == "" {
		one.name = newName()
		s.run(t, "CREATE SCHEMA "+one.name)
		t.Cleanup(func() {
			if one.shape == "" { // create has failed
				s.drop(t, one.name)
			}
		})
		create(s.schemaURL(t, one.name))
		one.shape, one.empty = s.look(t, one.name)
	}
	t.Cleanup(func() {
		if shape, _ := s.look(t, one.name); t.Failed() || shape != one.shape || !s.clean(t, one) {
			s.drop(t, one.name)
			return
		}
		prepared.Lock()
		defer prepared.Unlock()
		if prepared.free == nil {
			prepared.free = map[string][]schema{}
		}
		prepared.free[key] = append(prepared.free[key], one)
	})
	u, err := url.Parse(s.schemaURL(t, one.name))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("application_name", one.name) // identifies the test's sessions in clean
	u.RawQuery = q.Encode()
	return u.String()
}

// takePrepared returns a schema that is free, or the zero schema.
func takePrepared(key string) (one schema) {
	prepared.Lock()
	defer prepared.Unlock()
	if free := prepared.free[key]; len(free) > 0 {
		last := len(free) - 1
		one, prepared.free[key] = free[last], free[:last]
	}
	return one
}

// look returns a digest of a schema's objects, and the statements that empty its tables.
func (s *sharedServer) look(t testing.TB, name string) (shape, empty string) {
	t.Helper()
	err := s.admin.QueryRow(context.WithoutCancel(t.Context()), `WITH
		n AS MATERIALIZED (SELECT oid FROM pg_namespace WHERE nspname = $1),
		c AS MATERIALIZED (SELECT * FROM pg_class WHERE relnamespace = (SELECT oid FROM n))
		SELECT md5(concat_ws(';',
			(SELECT string_agg(concat_ws(' ', oid, relfilenode, relchecks, relhastriggers, relpersistence), ',' ORDER BY oid) FROM c),
			(SELECT string_agg(concat_ws(' ', attrelid, attname, atttypid, attnotnull, attisdropped), ',' ORDER BY attrelid, attnum)
				FROM pg_attribute WHERE attrelid = ANY(ARRAY(SELECT oid FROM c))),
			(SELECT string_agg(oid::text, ',' ORDER BY oid) FROM pg_proc WHERE pronamespace = (SELECT oid FROM n)),
			(SELECT string_agg(oid::text, ',' ORDER BY oid) FROM pg_constraint WHERE connamespace = (SELECT oid FROM n)))),
			(SELECT string_agg(format('DELETE FROM %I.%I', $1::text, relname), '; ') FROM c WHERE relkind = 'r')`, name).Scan(&shape, &empty)
	if err != nil {
		t.Fatal(err)
	}
	return shape, empty
}

// clean waits until the sessions of the test have ended, and every transaction in the schema: sessions of a pooler, which others use too, may still have one.
// Then it empties the schema's tables. It returns false when they do not end within maxLinger, or when there were more than maxRows rows.
func (s *sharedServer) clean(t testing.TB, one schema) bool {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		var left bool
		if err := s.admin.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1) OR
			EXISTS (SELECT FROM pg_locks JOIN pg_class c ON c.oid = relation WHERE relnamespace = $1::regnamespace
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, one.name).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if !left {
			break
		}
		if time.Since(began) > maxLinger {
			return false
		}
	}
	conn, err := s.admin.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	results, err := conn.Conn().PgConn().Exec(ctx, one.empty).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := int64(0)
	for _, r := range results {
		rows += r.CommandTag.RowsAffected()
	}
	return rows <= maxRows
}
