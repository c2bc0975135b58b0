package dynamostore_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/j5ik2o"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// layoutURLs are URLs with new tables, by layout.
func layoutURLs() map[string]string {
	own := rand.Text()
	tables := func(layout, parameters string) string {
		return "layout=" + layout + strings.ReplaceAll(parameters, "=", "="+own+layout)
	}
	return map[string]string{
		"commit":        tables("commit", "&table=i") + "&index=slices",
		"commit, plain": tables("commit", "&table=p&subscriptions=subs"),
		"j5ik2o":        tables("j5ik2o", "&journal=j&snapshot=s&state=d"),
		"akka":          tables("akka", "&journal=j&snapshot=s"),
		"akka0":         tables("akka0", "&table="),
		"esa":           tables("esa", "&journal=j&snapshot=s") + "&shards=8",
	}
}

func setUp(t *testing.T, endpoint, parameters string) ability.Setup {
	t.Helper()
	u := &url.URL{Scheme: "dynamodb", RawQuery: parameters + "&region=us-east-1&endpoint=" + url.QueryEscape(endpoint)}
	s, err := dynamostore.Options{}.SetupURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// wrong is what is refused, and problems.
func wrong(t *testing.T, s ability.Setup) (all []ability.Finding) {
	t.Helper()
	found, err := s.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Code == "" || f.Found == "" || f.Severity == ability.Problem && f.Means == "" {
			t.Errorf("%+v", f)
		}
	}
	return slices.DeleteFunc(found, func(f ability.Finding) bool { return f.Severity == ability.Note })
}

// In every layout: tables are missing, Pending and Migrate make them, then Examine finds nothing and changes nothing.
func TestSetupMigrates(t *testing.T) {
	t.Parallel()
	c := client(t)
	for name, parameters := range layoutURLs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := setUp(t, dynamo.Endpoint(t), parameters)
			for format, want := range map[string]string{"": "AWS::DynamoDB::Table", "terraform": "aws_dynamodb_table", "json": `"TableName"`} {
				if text, err := s.Schema(format); err != nil || !strings.Contains(text, want) {
					t.Errorf("%s: %q, %v", format, text, err)
				}
			}
			if _, err := s.Schema("sql"); !errors.Is(err, annals.ErrUnsupported) {
				t.Error(err)
			}
			missing := wrong(t, s)
			pending, err := s.Pending(t.Context())
			if err != nil || len(pending) == 0 || len(missing) != len(pending) || missing[0].Code != "table" || !missing[0].Schema {
				t.Errorf("pending %q, %v, found %+v", pending, err, missing)
			}
			if done, err := s.Migrate(t.Context()); err != nil || !slices.Equal(done, pending) {
				t.Errorf("%q, %v", done, err)
			}
			if pending, err := s.Pending(t.Context()); err != nil || len(pending) > 0 {
				t.Errorf("pending %q, %v", pending, err)
			}
			for range 2 {
				if found := wrong(t, s); len(found) > 0 {
					t.Errorf("%+v", found)
				}
			}
			tables, _ := s.Schema("json")
			for _, part := range strings.Split(tables, `"TableName": "`)[1:] {
				table, _, _ := strings.Cut(part, `"`)
				out, err := c.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
				if err != nil || out.Count > 0 { // Open of the layout commit would store an item of its own
					t.Errorf("%s has %d items, %v", table, out.Count, err)
				}
			}
		})
	}
}

// In each layout with indexes Migrate adds to tables the indexes and streams that they lack, one after the other.
func TestSetupUpdates(t *testing.T) {
	t.Parallel()
	c := client(t)
	for base, added := range map[string]string{
		"layout=commit&table=OWN":                                     "&index=slices&streams=true",
		"layout=j5ik2o&journal=OWNj&snapshot=OWNs&state=OWNd":         "", // the indexes of this one and those below are taken away
		"layout=esa&shards=8&format=plain&journal=OWNj&snapshot=OWNs": "",
	} {
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			own := "u" + rand.Text()
			base := strings.ReplaceAll(base, "OWN", own)
			before := setUp(t, dynamo.Endpoint(t), base)
			if _, err := before.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			var taken []string
			for _, table := range []string{own, own + "j", own + "s", own + "d"} {
				out, err := c.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
				if err != nil {
					continue
				}
				for _, i := range out.Table.GlobalSecondaryIndexes {
					in := &dynamodb.UpdateTableInput{TableName: &table, GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: i.IndexName}}}}
					if _, err := c.UpdateTable(t.Context(), in); err != nil {
						t.Fatal(err)
					}
					taken = append(taken, *i.IndexName)
				}
			}
			s := setUp(t, dynamo.Endpoint(t), base+added)
			pending, err := s.Pending(t.Context())
			if want := max(len(taken), strings.Count(added, "&")); err != nil || len(pending) != want || want == 0 || !strings.HasPrefix(pending[0], "UpdateTable {") {
				t.Fatalf("pending %q, %v, want %d", pending, err, want)
			}
			if found := wrong(t, s); len(found) < len(pending) || !strings.Contains(found[0].Do, "schema apply adds it") {
				t.Errorf("%+v", found)
			}
			if done, err := s.Migrate(t.Context()); err != nil || !slices.Equal(done, pending) {
				t.Errorf("%q, %v", done, err)
			}
			if pending, err := s.Pending(t.Context()); err != nil || len(pending) > 0 {
				t.Errorf("pending %q, %v", pending, err)
			}
			if found := wrong(t, s); len(found) > 0 {
				t.Errorf("%+v", found)
			}
		})
	}
}

// A table that has other keys, no index and no stream is refused by Examine with all that Open refuses.
func TestExamineFindsWhatOpenRefuses(t *testing.T) {
	t.Parallel()
	table := "x" + rand.Text()
	in := &dynamodb.CreateTableInput{TableName: &table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("other"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("other"), KeyType: types.KeyTypeHash}}}
	if _, err := client(t).CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	parameters := "layout=commit&index=slices&streams=true&table=" + table
	found := wrong(t, setUp(t, dynamo.Endpoint(t), parameters))
	u := &url.URL{Scheme: "dynamodb", RawQuery: parameters + "&region=us-east-1&endpoint=" + url.QueryEscape(dynamo.Endpoint(t))}
	_, err := dynamostore.Options{}.OpenURL(t.Context(), u)
	rest := fmt.Sprint(err)
	codes := map[string]int{}
	for _, f := range found {
		codes[f.Code]++
		if f.Severity == ability.Refused && !strings.Contains(rest, f.Found) {
			t.Errorf("Open does not refuse %q: %v", f.Found, err)
		}
	}
	if codes["key"] != 2 || codes["index"] == 0 || codes["stream"] != 1 {
		t.Errorf("%+v", found)
	}
}

// Rows of other settings are refused as Open refuses them.
func TestExamineComparesRows(t *testing.T) {
	t.Parallel()
	tables := newJ5ik2oTables(t)
	c, layout := tables.client, tables.with(func(l *j5ik2o.Layout) { l.ShardCount = 64 })
	s, err := dynamostore.Open(t.Context(), c, layout, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if _, err := s.Journal().Append(t.Context(), annals.Commit{ID: annals.PersistenceID(fmt.Sprint("T-", i)), Events: texts("x")}); err != nil {
			t.Fatal(err)
		}
	}
	layout.ShardCount = 7
	_, err = dynamostore.Open(t.Context(), c, layout, dynamostore.Options{})
	parameters := fmt.Sprintf("layout=j5ik2o&shards=7&journal=%s&snapshot=%s&state=%s", layout.Journal.Table, layout.Snapshot.Table, layout.State.Table)
	found := wrong(t, setUp(t, dynamo.Endpoint(t), parameters))
	if err == nil || len(found) != 1 || found[0].Code != "settings" || !strings.Contains(err.Error(), found[0].Found) {
		t.Errorf("Open says %v, Examine finds %+v", err, found)
	}
}

// Migrate waits until an update has ended that another run began: the service takes one at a time.
func TestMigrateWaitsForUpdates(t *testing.T) {
	t.Parallel()
	base := "layout=commit&table=u" + rand.Text()
	if _, err := setUp(t, dynamo.Endpoint(t), base).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	endpoint, err := url.Parse(dynamo.Endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(endpoint)
	described := 0
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		switch {
		case operation == "DescribeTable" && described == 0:
			described++
			got := httptest.NewRecorder()
			pass.ServeHTTP(got, r)
			_, _ = io.WriteString(w, strings.ReplaceAll(got.Body.String(), `"ACTIVE"`, `"UPDATING"`))
		case operation == "UpdateTable" && described == 1:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceInUseException","message":"the table is being updated"}`)
		default:
			described++
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(proxy.Close)
	done, err := setUp(t, proxy.URL, base+"&streams=true").Migrate(t.Context())
	if err != nil || len(done) != 1 || described < 2 {
		t.Errorf("%q, %v, %d", done, err, described)
	}
}

// Without a right to an action the finding names it.
func TestExamineRights(t *testing.T) {
	t.Parallel()
	parameters := layoutURLs()["commit"]
	if _, err := setUp(t, dynamo.Endpoint(t), parameters).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	endpoint, err := url.Parse(dynamo.Endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	pass := httputil.NewSingleHostReverseProxy(endpoint)
	for _, c := range []struct{ denied, names string }{
		{"PutItem DeleteItem", "PutItem, DeleteItem"},
		{"Query", "Query, Query on its index slices"},
		{"TransactWriteItems", "ConditionCheckItem"},
		{"DescribeTable", "DescribeTable"},
	} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			if slices.Contains(strings.Fields(c.denied), operation) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no"}`)
				return
			}
			pass.ServeHTTP(w, r)
		}))
		t.Cleanup(proxy.Close)
		found := wrong(t, setUp(t, proxy.URL, parameters))
		if len(found) != 1 || found[0].Code != "right" || !strings.Contains(found[0].Found, c.names) {
			t.Errorf("without %s: %+v", c.denied, found)
		}
	}
}
