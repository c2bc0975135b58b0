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

func TestWithColumns(t *testing.T) {
	t.Parallel()
	for statement, want := range map[string]string{
		"INSERT INTO thing (id/*, column*/) VALUES ($1/*, value*/)": `INSERT INTO thing (id, a, "/*, value*/"/*, column*/) VALUES ($1, 1, 2/*, value*/)`,
		"UPDATE thing SET id = $1/*, column = value*/ WHERE n = 1":  `UPDATE thing SET id = $1, a = 1, "/*, value*/" = 2/*, column = value*/ WHERE n = 1`,
	} {
		got := WithColumns(WithColumns(statement, 0, nil), 2, func(i int) (name, value string) { return []string{"a", `"/*, value*/"`}[i], []string{"1", "2"}[i] })
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
