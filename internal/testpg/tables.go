package testpg

import (
	"context"
	"net/url"
	"sync"
	"testing"
	"time"
)

// prepared are schemas with empty tables that no test uses at the moment, by the key of Tables.
var prepared struct {
	sync.Mutex
	free map[string][]schema
}

// schema is one of them.
type schema struct {
	name  string
	shape string // of its objects when it was new
	empty string // statements that empty its tables
}

const (
	maxRows   = 2000            // that a test may leave in a schema that is used again: rows that were removed still slow scans down
	maxLinger = 5 * time.Second // that the sessions of a test may take to end
)

// Tables is the URL of a schema in which create has made tables, all of them empty. Tests that give the same key share schemas, one
// after the other: making tables costs more than most tests do with them. A test may change the schema: it is not used again then.
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
	q.Set("application_name", one.name) // which tells when its sessions have ended
	u.RawQuery = q.Encode()
	return u.String()
}

// takePrepared is a schema that is free, or the zero one.
func takePrepared(key string) (one schema) {
	prepared.Lock()
	defer prepared.Unlock()
	if free := prepared.free[key]; len(free) > 0 {
		last := len(free) - 1
		one, prepared.free[key] = free[last], free[:last]
	}
	return one
}

// look says what the objects of a schema are, and how its tables are emptied.
func (s *server) look(t testing.TB, name string) (shape, empty string) {
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

// clean empties a schema's tables once no session is left that may still write to them. It returns false when that takes too long, or when
// there was much in them.
func (s *server) clean(t testing.TB, one schema) bool {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		var left bool
		if err := s.admin.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = $1)", one.name).Scan(&left); err != nil {
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
