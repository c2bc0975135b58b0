package sealed_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec/sealed"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/esa"
	"github.com/annals-go/annals/entity"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/annals-go/annals/internal/servers/postgres"
	"github.com/annals-go/annals/memstore"
	"github.com/annals-go/annals/pgstore"
	"github.com/annals-go/annals/sqlitestore"
)

func TestMain(m *testing.M) { dynamo.Main(m) }

// What tests plant in a store, as the text of events, snapshots, states and metadata. The last one is not sealed: a scan has to find it.
const (
	planted = "Ada Lovelace of Marylebone"
	clerk   = "Clerk Babbage of Walworth"
	public  = "opened in the year 1843"
)

// plant writes what is planted to store, and returns the wrapped key of its subject.
func plant(t *testing.T, store annals.Store, keys *sealed.Keys) []byte {
	t.Helper()
	ask, askState, stop := hosts(t, store, keys)
	ctx := from(t.Context(), by{"9", clerk})
	for range 5 {
		if _, err := ask(ctx, planted); err != nil {
			t.Fatal(err)
		}
		if _, err := askState(ctx, planted); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	b := person(keys)
	b.Init = func(string) profile { return profile{} } // events have no subject
	open, err := entity.New(store, b, entity.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open.Ask(t.Context(), "8", public); err != nil {
		t.Fatal(err)
	}
	if err := open.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return state(t, store).Data
}

// wantUnreadable demands that nothing planted is in what scan finds, before and after the keys are destroyed, and that it is forgotten then.
func wantUnreadable(t *testing.T, store annals.Store, scan func(find []byte) bool) (wrapped []byte) {
	t.Helper()
	m := newMaster(t)
	keys := newKeys(t, store, m)
	wrapped = plant(t, store, keys)
	ask, askState, _ := hosts(t, store, newKeys(t, store, m))
	wantProfile(t, planted+" "+planted+" "+planted+" "+planted+" "+planted, clerk)(ask(t.Context(), ""))
	wantProfile(t, planted, clerk)(askState(t.Context(), ""))
	for _, when := range []string{"before", "after"} {
		for _, text := range []string{planted, clerk} {
			if scan([]byte(text)) {
				t.Errorf("%s the keys are destroyed, %q is found", when, text)
			}
		}
		if !scan([]byte(public)) {
			t.Errorf("%s the keys are destroyed, %q is not found, although it is not sealed", when, public)
		}
		for _, subject := range []string{"7", "9"} {
			if err := keys.Destroy(t.Context(), subject); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask, askState, _ = hosts(t, store, newKeys(t, store, m))
	// A snapshot counts as one name, without a By, and it depends on the saves that were under way which snapshot is the newest.
	p, err := ask(t.Context(), "")
	if want := (profile{Names: slices.Repeat([]string{gone}, len(p.Names)), By: gone}); err != nil || len(p.Names) == 0 ||
		len(p.Names) == 1 && p.By != "" || len(p.Names) > 1 && !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, %v, want what is forgotten", p, err)
	}
	wantProfile(t, gone, gone)(askState(t.Context(), ""))
	return wrapped
}

func TestScanMemory(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	wantMembersUnreadable(t, store, store, func(find []byte) (found bool) {
		for e, err := range store.Journal().Replay(t.Context(), "Mailbox|5", 1, annals.MaxSeqNr) {
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(e.Data, find)
		}
		snapshot, ok, err := store.Snapshots().Latest(t.Context(), "Mailbox|5", annals.SnapshotCriteria{})
		if err != nil || !ok {
			t.Fatalf("no snapshot: %v", err)
		}
		return found || bytes.Contains(snapshot.Data, find)
	})
}

// inFiles reports whether a file below dir contains find.
func inFiles(t *testing.T, dir string, find []byte) (found bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		found = found || bytes.Contains(data, find)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// The database file and its WAL are scanned. The wrapped key may be in free pages until VACUUM; afterwards no file has it.
func TestScanSQLite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "annals.db")
	store, err := sqlitestore.Open(t.Context(), name, sqlitestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	scan := func(find []byte) bool { return inFiles(t, dir, find) }
	wrapped := wantUnreadable(t, store, scan)
	wantMembersUnreadable(t, store, store, scan)
	if !inFiles(t, dir, wrapped) {
		t.Error("the wrapped key is not even in the WAL: does the scan find it?")
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if inFiles(t, dir, wrapped) {
		t.Error("the wrapped key is still in the files after VACUUM")
	}
	if !inFiles(t, dir, []byte(public)) {
		t.Error("the files do not have what is not sealed")
	}
}

// All files of a server are scanned: the pages of tables and indexes, the WAL, the log.
func TestScanPostgres(t *testing.T) {
	t.Parallel()
	server, err := postgres.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	pool, err := pgxpool.New(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := pgstore.Open(t.Context(), pool, pgstore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	if err := pool.QueryRow(t.Context(), "SHOW data_directory").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	scan := func(find []byte) bool {
		if _, err := pool.Exec(t.Context(), "CHECKPOINT"); err != nil {
			t.Fatal(err)
		}
		return inFiles(t, dir, find)
	}
	wantUnreadable(t, store, scan)

	store, err = pgstore.Open(t.Context(), pool, pgstore.Options{CreateTables: true, JSONB: true, Tables: pgstore.Tables{Schema: "json"}})
	if err != nil {
		t.Fatal(err)
	}
	wantMembersUnreadable(t, store, store, scan)
	var read string
	if err := pool.QueryRow(t.Context(), "SELECT event_payload->>'Item' FROM json.event_journal WHERE event_payload ? '_sealed' LIMIT 1").Scan(&read); err != nil || read != item {
		t.Errorf("SQL reads %q, %v", read, err)
	}
}

// All attributes of all items of the table are scanned.
func TestScanDynamoDB(t *testing.T) {
	t.Parallel()
	client, err := dynamostore.NewClient(t.Context(), dynamostore.ClientOptions{Endpoint: dynamo.Endpoint(t), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if err != nil {
		t.Fatal(err)
	}
	table := "sealed" + rand.Text()
	store, err := dynamostore.Open(t.Context(), client, commit.Layout{Table: table}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	scan := func(find []byte) bool { return inTable(t, client, table, find) }
	wrapped := wantUnreadable(t, store, scan)
	wantMembersUnreadable(t, store, store, scan)
	if inTable(t, client, table, wrapped) {
		t.Error("the wrapped key is still in the table")
	}

	// Tables that have only JSON, with members of their own beside those of a program.
	layout := esa.Layout{Peer: esa.Go, Shards: 4, Journal: esa.Journal{Table: table + "j"}, Snapshot: esa.Snapshot{Table: table + "s"}}
	events, err := dynamostore.Open(t.Context(), client, layout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	wantMembersUnreadable(t, events, memstore.New(), func(find []byte) bool {
		return inTable(t, client, layout.Journal.Table, find) || inTable(t, client, layout.Snapshot.Table, find)
	})
}

func inTable(t *testing.T, client *dynamodb.Client, table string, find []byte) (found bool) {
	t.Helper()
	pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: &table})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.WithoutCancel(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			found = found || contains(&types.AttributeValueMemberM{Value: item}, find)
		}
	}
	return found
}

func contains(v types.AttributeValue, find []byte) bool {
	switch v := v.(type) {
	case *types.AttributeValueMemberB:
		return bytes.Contains(v.Value, find)
	case *types.AttributeValueMemberS:
		return bytes.Contains([]byte(v.Value), find)
	case *types.AttributeValueMemberBS:
		return bytes.Contains(bytes.Join(v.Value, nil), find)
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			if contains(e, find) {
				return true
			}
		}
	case *types.AttributeValueMemberM:
		for name, e := range v.Value {
			if bytes.Contains([]byte(name), find) || contains(e, find) {
				return true
			}
		}
	}
	return false
}
