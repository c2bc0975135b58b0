package pgstore_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/pgstore"
)

// golden are the files of testdata/akka-r2dbc.tar.gz by folder and name: what akka-persistence-r2dbc 1.1.2 did (inputs.json), the
// tables it left (dump.sql, rows.json), and what it answered from them (expected.json).
var golden = sync.OnceValues(func() (map[string]map[string][]byte, error) {
	data, err := os.ReadFile("testdata/akka-r2dbc.tar.gz")
	if err != nil {
		return nil, err
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	files := map[string]map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		folder, name := path.Base(path.Dir(header.Name)), path.Base(header.Name)
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if files[folder] == nil {
			files[folder] = map[string][]byte{}
		}
		if files[folder][name], err = io.ReadAll(archive); err != nil {
			return nil, err
		}
	}
})

var goldenFolders = []string{"journal", "snapshots", "durable-state", "durable-state-custom", "jsonb", "cleanup", "queries", "projection-offsets"}

// goldenFile reads one of the files into v.
func goldenFile(tb testing.TB, folder, name string, v any) []byte {
	tb.Helper()
	files, err := golden()
	if err != nil {
		tb.Fatal(err)
	}
	data, ok := files[folder][name]
	if !ok {
		tb.Fatalf("there is no %s/%s", folder, name)
	}
	if v != nil {
		if err := json.Unmarshal(data, v); err != nil {
			tb.Fatal(err)
		}
	}
	return data
}

// goldenDatabase is a new database that holds the tables of a folder, with their rows.
func goldenDatabase(tb testing.TB, folder string) string {
	tb.Helper()
	url := postgres.Database(tb)
	run(tb, url, string(goldenFile(tb, folder, "dump.sql", nil)))
	return url
}

// payloadJSON is a payload as the files have it.
type payloadJSON struct {
	SerializerID int32  `json:"serializerId"`
	Manifest     string `json:"manifest"`
	Data         []byte `json:"data"`
}

func (p *payloadJSON) payload() annals.Payload {
	if p == nil {
		return annals.Payload{}
	}
	return annals.Payload{SerializerID: p.SerializerID, Manifest: p.Manifest, Data: p.Data}
}

// same compares payloads; the bytes of JSON columns as JSON, because the server writes them anew.
func same(folder string, a, b annals.Payload) bool {
	if a.SerializerID != b.SerializerID || a.Manifest != b.Manifest {
		return false
	}
	if folder != "jsonb" {
		return bytes.Equal(a.Data, b.Data)
	}
	return canonical(a.Data) == canonical(b.Data)
}

func canonical(data []byte) string {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return string(data)
	}
	text, _ := json.Marshal(v) // of what was just read
	return string(text)
}

type eventJSON struct {
	payloadJSON
	SeqNr    annals.SeqNr `json:"seqNr"`
	Adapter  string       `json:"adapterManifest"`
	Writer   string       `json:"writerUuid"`
	Tags     []string     `json:"tags"`
	Metadata *payloadJSON `json:"metadata"`
}

type envelopeJSON struct {
	ID     annals.PersistenceID `json:"persistenceId"`
	SeqNr  annals.SeqNr         `json:"seqNr"`
	Offset struct {
		Timestamp time.Time `json:"timestamp"`
	} `json:"offset"`
	Slice    int          `json:"slice"`
	Tags     []string     `json:"tags"`
	Event    *payloadJSON `json:"event"`
	Metadata *payloadJSON `json:"metadata"`
}

type changeJSON struct {
	ID       annals.PersistenceID `json:"persistenceId"`
	Change   string               `json:"change"`
	Revision annals.SeqNr         `json:"revision"`
	Offset   struct {
		Timestamp time.Time `json:"timestamp"`
	} `json:"offset"`
	Value *payloadJSON `json:"value"`
}

type snapshotJSON struct {
	payloadJSON
	SeqNr     annals.SeqNr `json:"seqNr"`
	Timestamp int64        `json:"timestampMillis"`
	Metadata  *payloadJSON `json:"metadata"`
}

// goldenOptions are those that the plugin had, custom tables and additional columns, and those with which it can come back.
func goldenOptions(folder string) pgstore.Options {
	o := pgstore.Options{PluginDeletes: true, PluginOffsets: true}
	if folder == "durable-state-custom" {
		o.StateTypes = map[string]annals.StateType[pgx.Tx]{
			"Cart":  {Table: "durable_state_cart", Columns: []string{"title", "total"}, Bind: bindCart, OnChange: onCart},
			"Gauge": {Table: "durable_state_gauge"},
		}
	}
	return o
}

func sorted(tags []string) []string {
	tags = slices.Clone(tags)
	slices.Sort(tags)
	return tags
}

// isError reports whether the plugin failed.
func isError(result json.RawMessage) bool {
	return strings.HasPrefix(string(bytes.TrimSpace(result)), `{"error"`) || bytes.Contains(result, []byte(`"error" :`)) || bytes.Contains(result, []byte(`"error":`))
}
