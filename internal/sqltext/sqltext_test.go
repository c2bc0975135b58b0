package sqltext

import (
	"reflect"
	"testing"
)

func TestColumns(t *testing.T) {
	t.Parallel()
	columns, key := Columns(`CREATE TABLE IF NOT EXISTS thing (
	id VARCHAR(255) NOT NULL,
	n INTEGER DEFAULT 0 NOT NULL,
	extra,
	tags TEXT[],
	PRIMARY KEY (id, n)
) STRICT`)
	want := []Column{
		{"id", "VARCHAR", true, "id VARCHAR(255) NOT NULL"},
		{"n", "INTEGER", true, "n INTEGER DEFAULT 0 NOT NULL"},
		{"extra", "", false, "extra"},
		{"tags", "TEXT[]", false, "tags TEXT[]"},
	}
	if !reflect.DeepEqual(columns, want) || !reflect.DeepEqual(key, []string{"id", "n"}) {
		t.Errorf("got %+v with the key %q, want %+v with id, n", columns, key, want)
	}
}
