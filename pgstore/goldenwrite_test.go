package pgstore_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/pgstore"
)

// inputJSON is what the program asked the plugin to do, and what came of it.
type inputJSON struct {
	payloadJSON
	Op           string               `json:"op"`
	ID           annals.PersistenceID `json:"pid"`
	Events       []eventJSON          `json:"events"`
	To           annals.SeqNr         `json:"to"`
	SeqNr        annals.SeqNr         `json:"seqNr"`
	Timestamp    int64                `json:"timestampMillis"`
	Metadata     *payloadJSON         `json:"metadata"`
	MinSeqNr     annals.SeqNr         `json:"minSeqNr"`
	MaxSeqNr     annals.SeqNr         `json:"maxSeqNr"`
	MinTimestamp int64                `json:"minTimestamp"`
	MaxTimestamp int64                `json:"maxTimestamp"`
	Revision     annals.SeqNr         `json:"revision"`
	Tag          string               `json:"tag"`
	Reset        bool                 `json:"reset"`
	SQL          string               `json:"sql"`
	Rows         int64                `json:"rows"` // that the statement changed
	Result       json.RawMessage      `json:"result"`
	Effects      []struct {
		payloadJSON
		Effect string `json:"effect"`
	} `json:"effects"`
}

// TestWritesWhatThePluginWrote asks the store for what the plugin was asked for, on empty tables of the plugin, and compares all
// rows but for times and writers.
func TestWritesWhatThePluginWrote(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{"journal", "snapshots", "durable-state", "durable-state-custom", "jsonb", "cleanup", "queries", "projection-offsets"} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			var inputs []inputJSON
			goldenFile(t, folder, "inputs.json", &inputs)
			url := goldenDatabase(t, folder)
			want := rowsOf(t, url)
			for table := range want {
				run(t, url, "TRUNCATE "+table+" RESTART IDENTITY")
			}
			w := &goldenWriter{t, url, openAt(t, url, goldenOptions(folder)), map[annals.PersistenceID]string{}}
			for _, in := range inputs {
				w.do(in)
			}
			got := rowsOf(t, url)
			for _, table := range slices.Sorted(maps.Keys(want)) {
				w.compare(table, got[table], want[table])
			}
		})
	}
}

type goldenWriter struct {
	*testing.T
	url string
	s   *pgstore.Store

	// differ are ids whose rows differ on purpose, with the reason.
	differ map[annals.PersistenceID]string
}

func (w *goldenWriter) do(in inputJSON) {
	w.Helper()
	ctx, j := w.Context(), w.s.Journal()
	if w.differ[in.ID] != "" {
		return
	}
	failed := isError(in.Result)
	check := func(err error) {
		w.Helper()
		if (err != nil) != failed {
			w.Errorf("%s %q: got %v, the plugin's result is %s", in.Op, in.ID, err, in.Result)
		}
	}
	last := func() annals.SeqNr {
		n, err := j.LastSeqNr(ctx, in.ID)
		if err != nil {
			w.Fatal(err)
		}
		return n
	}
	switch in.Op {
	case "sql": // run beside the plugin
		conn, err := pgx.Connect(ctx, w.url)
		if err != nil {
			w.Fatal(err)
		}
		defer conn.Close(ctx)
		if tag, err := conn.Exec(ctx, in.SQL); err != nil || tag.RowsAffected() != in.Rows {
			w.Errorf("%s: %v, %v, want %d rows", in.SQL, tag, err, in.Rows)
		}
	case "persist":
		c := annals.Commit{ID: in.ID, After: in.Events[0].SeqNr - 1, WriteID: annals.NewWriteID()}
		for _, e := range in.Events {
			c.Events = append(c.Events, annals.NewEvent{Payload: e.payload(), Tags: e.Tags, Metadata: e.Metadata.payload()})
		}
		_, err := j.Append(ctx, c)
		check(err)
	case "deleteTo", "cleanup.deleteEventsTo", "cleanup.deleteAllEvents", "cleanup.deleteAll":
		to := in.To
		if to == 0 {
			to = annals.MaxSeqNr
		}
		switch n := last(); {
		case in.Reset:
			w.differ[in.ID] = "numbers are never forgotten"
			return
		case n == 0:
			w.differ[in.ID] = "nothing is written for an id without events"
		case to > n && to != annals.MaxSeqNr:
			w.differ[in.ID] = "a delete beyond the last number is held to it"
		}
		check(j.DeleteTo(ctx, in.ID, to))
		if in.Op == "cleanup.deleteAll" {
			check(w.s.Snapshots().Delete(ctx, in.ID, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}))
		}
	case "cleanup.cleanupBeforeSnapshot":
		snapshot, ok, err := w.s.Snapshots().Latest(ctx, in.ID, annals.SnapshotCriteria{})
		if err == nil && ok {
			err = j.DeleteTo(ctx, in.ID, snapshot.SeqNr)
		}
		check(err)
	case "cleanup.deleteSnapshot":
		check(w.s.Snapshots().Delete(ctx, in.ID, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}))
	case "saveSnapshot":
		if s, _, _ := w.s.Snapshots().Latest(ctx, in.ID, annals.SnapshotCriteria{}); s.SeqNr > in.SeqNr {
			w.differ[in.ID] = "an older snapshot does not replace a newer one"
		}
		s := annals.Snapshot{ID: in.ID, SeqNr: in.SeqNr, Payload: in.payload(), Metadata: in.Metadata.payload()}
		if in.Timestamp > 1 { // 1: what the plugin ignored
			s.Time = time.UnixMilli(in.Timestamp)
		}
		check(w.s.Snapshots().Save(ctx, s))
	case "deleteSnapshot":
		c := annals.SnapshotCriteria{MinSeqNr: in.SeqNr, MaxSeqNr: in.SeqNr}
		if in.Timestamp > 0 {
			c.MinTime, c.MaxTime = time.UnixMilli(in.Timestamp), time.UnixMilli(in.Timestamp)
		}
		check(w.s.Snapshots().Delete(ctx, in.ID, c))
	case "deleteSnapshots":
		c := annals.SnapshotCriteria{MinSeqNr: in.MinSeqNr, MaxSeqNr: in.MaxSeqNr}
		if in.MinTimestamp > 0 {
			c.MinTime = time.UnixMilli(in.MinTimestamp)
		}
		if in.MaxTimestamp < 1<<60 {
			c.MaxTime = time.UnixMilli(in.MaxTimestamp)
		}
		check(w.s.Snapshots().Delete(ctx, in.ID, c))
	case "upsertState", "deleteState":
		w.state(in, check)
	case "cleanup.deleteState":
		w.differ[in.ID] = "done by package cleanup"
	case "entity":
		if in.Effects == nil {
			w.differ[in.ID] = "written by an entity"
			return
		}
		for _, e := range in.Effects {
			s, _, err := w.s.States().Get(ctx, in.ID)
			if err == nil && e.Effect == "persist" {
				_, err = w.s.States().Put(ctx, annals.StateWrite{ID: in.ID, After: s.Revision, Payload: e.payload(), Tags: oneTag(in.Tag)})
			} else if err == nil {
				_, err = w.s.States().Delete(ctx, annals.StateWrite{ID: in.ID, After: s.Revision})
			}
			check(err)
		}
	default:
		w.Fatalf("the plugin was asked for %q", in.Op)
	}
}

func (w *goldenWriter) state(in inputJSON, check func(error)) {
	w.Helper()
	if in.Op == "deleteState" && in.Revision == 0 {
		w.differ[in.ID] = "done by package cleanup"
		return
	}
	s, _, err := w.s.States().Get(w.Context(), in.ID)
	if err != nil {
		w.Fatal(err)
	}
	if in.Revision == 1 && s.Revision > 1 {
		w.differ[in.ID] = "an id never has two rows"
		return
	}
	write := annals.StateWrite{ID: in.ID, After: in.Revision - 1, Payload: in.payload(), Tags: oneTag(in.Tag)}
	if in.Op == "deleteState" {
		_, err = w.s.States().Delete(w.Context(), write)
	} else {
		_, err = w.s.States().Put(w.Context(), write)
	}
	check(err)
}

func oneTag(tag string) []string {
	if tag == "" {
		return nil
	}
	return []string{tag}
}

// rowsOf are the rows of every table as text, in the order of their keys, without times and writers.
func rowsOf(tb testing.TB, url string) map[string][]map[string]any {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(tb.Context())
	tables := map[string][]map[string]any{}
	for _, table := range []string{"event_journal", "snapshot", "durable_state", "durable_state_cart", "durable_state_gauge", "cart_changes"} {
		var found bool
		if err := conn.QueryRow(tb.Context(), "SELECT to_regclass($1) IS NOT NULL", table).Scan(&found); err != nil {
			tb.Fatal(err)
		}
		if !found {
			continue
		}
		rows, err := conn.Query(tb.Context(), "SELECT * FROM "+table+" t ORDER BY t.persistence_id, "+
			map[bool]string{true: "seq_nr", false: "revision"}[table == "event_journal" || table == "snapshot"])
		if err != nil {
			tb.Fatal(err)
		}
		if tables[table], err = pgx.CollectRows(rows, pgx.RowToMap); err != nil {
			tb.Fatal(err)
		}
		for _, row := range tables[table] {
			for _, name := range []string{"db_timestamp", "write_timestamp", "n"} {
				delete(row, name)
			}
			if writer, ok := row["writer"].(string); ok {
				row["writer"] = len(writer) // a UUID, or none
			}
		}
	}
	return tables
}

func (w *goldenWriter) compare(table string, got, want []map[string]any) {
	w.Helper()
	drop := func(rows []map[string]any) []map[string]any {
		return slices.DeleteFunc(rows, func(row map[string]any) bool {
			return w.differ[annals.PersistenceID(row["persistence_id"].(string))] != "" || defective(table, row)
		})
	}
	all := len(want)
	got, want = drop(got), drop(want)
	w.Logf("%s: %d of %d rows compared; left out: %v", table, len(want), all, w.differ)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			w.Errorf("%s: no row %v", table, want[i])
		case i >= len(want):
			w.Errorf("%s: row %v, want none", table, got[i])
		case !reflect.DeepEqual(got[i], want[i]):
			w.Errorf("%s: row\n%v, want\n%v", table, got[i], want[i])
		}
	}
}

// defective are rows that the plugin's change handler left after writes that failed.
func defective(table string, row map[string]any) bool {
	if table != "cart_changes" {
		return false
	}
	title := fmt.Sprint(row["title"])
	return strings.HasPrefix(title, "stale") || strings.HasPrefix(title, "update too far") || strings.HasPrefix(title, "update of nothing") ||
		row["kind"] == "deleted" && row["revision"] == int64(9)
}

func query(tb testing.TB, url, sql string, args []any, into ...any) {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(tb.Context())
	if err := conn.QueryRow(tb.Context(), sql, args...).Scan(into...); err != nil {
		tb.Fatal(err)
	}
}
