package dynamostore_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore"
	"github.com/annals-go/annals/dynamostore/commit"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/servers/dynamo"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Ids that the service would refuse are refused without a request.
func TestItemSize(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p := behindProxy(t, dynamostore.Options{})
	id := annals.NewPersistenceID("Thing", "1")
	before := p.Counts()["PutItem"]
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: texts(strings.Repeat("x", plan.MaxItemBytes))}); !errors.Is(err, annals.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := s.States().Put(ctx, annals.StateWrite{ID: id, Payload: text(strings.Repeat("x", plan.MaxItemBytes)).Payload}); !errors.Is(err, annals.ErrTooLarge) {
		t.Error(err)
	}
	if p.Counts()["PutItem"] != before || p.Counts()["UpdateItem"] != 0 {
		t.Errorf("requests were sent: %v", p.Counts())
	}
	// The largest commit is sent, as a put and within a transaction. With one more byte it is not.
	for first, snapshot := range map[rune]bool{'a': false, 'n': true} {
		for name := first; !largestItem(t, s, p, annals.NewPersistenceID("Thing", string(name)), snapshot); name++ {
			t.Log("an item was smaller: the number of its microseconds ends in zeros")
		}
	}
}

// largestItem stores the largest possible commit, and tries one with one more byte. It returns false when the time of the latter takes one byte
// less than usual.
func largestItem(t *testing.T, s *dynamostore.Store, p *dynamo.FaultProxy, id annals.PersistenceID, snapshot bool) bool {
	t.Helper()
	const frame = 86 // what the commit's item has beside its data
	c := annals.Commit{ID: id, Events: texts(strings.Repeat("x", plan.MaxItemBytes-frame+1))}
	if snapshot {
		c.Snapshot = &annals.Snapshot{ID: id, SeqNr: 1, Payload: text("s").Payload}
	}
	before := p.Counts()
	if r, err := s.Journal().Append(t.Context(), c); err == nil && r.Time.UnixMicro()%100 == 0 {
		return false
	} else if !errors.Is(err, annals.ErrTooLarge) || !maps.Equal(before, p.Counts()) {
		t.Errorf("a byte too much, snapshot %v: %v, %v requests", snapshot, err, p.Counts())
	}
	c.Events[0].Data = c.Events[0].Data[1:]
	if _, err := s.Journal().Append(t.Context(), c); err != nil {
		t.Errorf("an item of the limit, snapshot %v: %v", snapshot, err)
	}
	return true
}

// Sizes are computed as the service computes them: it accepts items of exactly the limit, whatever attributes they have.
func TestSizeArithmetic(t *testing.T) {
	t.Parallel()
	table := "t" + rand.Text()
	c := client(t)
	s, err := dynamostore.Open(t.Context(), c, commit.Layout{Table: table}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	it := plan.Item{
		"pid": plan.S("Thing|é"), "seq": plan.N(1), "n": plan.N(-123), "z": plan.N(0), "r": plan.N(1000), "b": plan.Bool(true), "bin": plan.B([]byte{1, 2}),
	}
	it["fill"] = plan.S("")
	free := plan.MaxItemBytes - plan.Size(it)
	it["fill"] = plan.S(strings.Repeat("x", free))
	if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it}); err != nil {
		t.Errorf("an item of %d bytes: %v", plan.Size(it), err)
	}
	it["fill"] = plan.S(strings.Repeat("x", free+1))
	if _, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: it}); err == nil {
		t.Errorf("an item of %d bytes was taken", plan.Size(it))
	}
}

func TestNoRequestForIDsThatCannotBe(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, p := behindProxy(t, dynamostore.Options{})
	before := p.Counts()
	for _, id := range []annals.PersistenceID{"", "a\x00b", "\xff", annals.PersistenceID(strings.Repeat("x", 2049))} {
		_, err := s.Journal().Append(ctx, annals.Commit{ID: id, Events: texts("a")})
		_, err2 := s.Journal().LastSeqNr(ctx, id)
		_, _, err3 := s.States().Get(ctx, id)
		for _, err := range []error{err, err2, err3, s.Journal().DeleteTo(ctx, id, 1), s.Snapshots().Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: 1})} {
			if !errors.Is(err, annals.ErrInvalid) {
				t.Errorf("%q: %v", id, err)
			}
		}
	}
	for operation, n := range p.Counts() {
		if n != before[operation] {
			t.Errorf("%d requests %s", n-before[operation], operation)
		}
	}
	if _, err := s.Journal().Append(ctx, annals.Commit{ID: annals.PersistenceID(strings.Repeat("x", 2048)), Events: texts("a")}); err != nil {
		t.Error(err)
	}
}

// A large snapshot has parts, and no part is left when it has been replaced or deleted.
func TestSnapshotParts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	table, c := "t"+rand.Text(), client(t)
	s, err := dynamostore.Open(ctx, c, commit.Layout{Table: table}, dynamostore.Options{CreateTables: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	items := func() int {
		out, err := c.Scan(ctx, &dynamodb.ScanInput{TableName: &table, ProjectionExpression: aws.String("pid, seq")})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Items)
	}
	id := annals.NewPersistenceID("Thing", "1")
	empty := items()
	random := make([]byte, 1<<20)
	_, _ = rand.Read(random)
	for _, data := range [][]byte{random, bytes.Repeat([]byte("text "), 200_000), random[1:], []byte("small")} {
		if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 7, Payload: annals.Payload{SerializerID: 4, Data: data}}); err != nil {
			t.Fatal(err)
		}
		got, ok, err := s.Snapshots().Latest(ctx, id, annals.SnapshotCriteria{})
		if !ok || err != nil || !bytes.Equal(got.Data, data) {
			t.Fatalf("a snapshot of %d bytes came back with %d, %v, %v", len(data), len(got.Data), ok, err)
		}
	}
	if n := items(); n != empty+1 {
		t.Errorf("%d items for one small snapshot", n-empty)
	}
	if err := s.Snapshots().Save(ctx, annals.Snapshot{ID: id, SeqNr: 8, Payload: annals.Payload{SerializerID: 4, Data: random}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Snapshots().Delete(ctx, id, annals.SnapshotCriteria{MaxSeqNr: annals.MaxSeqNr}); err != nil {
		t.Fatal(err)
	}
	if n := items(); n != empty+2 {
		t.Errorf("%d items are left, want the tombstones of two snapshots", n-empty)
	}
}

func TestOpenRefusesOtherTables(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), client(t)
	name := "t" + rand.Text()
	_, err := dynamostore.Open(ctx, c, commit.Layout{Table: name}, dynamostore.Options{})
	if !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
	provisioned := dynamostore.Options{CreateTables: true, Streams: true, ReadUnits: 5, WriteUnits: 6}
	if _, err := dynamostore.Open(ctx, c, commit.Layout{Table: name}, provisioned); err != nil {
		t.Fatal(err)
	}
	out, err := c.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil || *out.Table.ProvisionedThroughput.ReadCapacityUnits != 5 || *out.Table.ProvisionedThroughput.WriteCapacityUnits != 6 ||
		out.Table.StreamSpecification == nil || out.Table.StreamSpecification.StreamViewType != types.StreamViewTypeNewImage {
		t.Error(out, err)
	}
	// A format of a later version.
	if _, err := c.PutItem(ctx, &dynamodb.PutItemInput{TableName: &name, Item: plan.Item{"pid": plan.S("annals"), "seq": plan.N(-1), "layout": plan.S("commit"), "v": plan.N(2)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := dynamostore.Open(ctx, c, commit.Layout{Table: name}, dynamostore.Options{}); !errors.Is(err, annals.ErrInvalid) || !strings.Contains(err.Error(), "format 2") {
		t.Error(err)
	}
}
