package j5ik2o

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/numbered"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// The vectors were made with the JVM's own MD5, BigInteger, DecimalFormat and String.split; see docs/formats/j5ik2o.md.
func TestKeyVectors(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		PID  annals.PersistenceID
		Pkey map[int]string
		Skey map[annals.SeqNr]string // nil: the plugin throws
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 16 {
		t.Fatalf("%d vectors", len(vectors))
	}
	for _, v := range vectors {
		for count, want := range v.Pkey {
			if got, err := idBased.Key(v.PID, 7, Sharding{Count: count, Separator: "-"}); got != want || err != nil {
				t.Errorf("partition of %q, %d shards: %q, %v, want %q", v.PID, count, got, err, want)
			}
			if keys, err := idBased.Keys(v.PID, Sharding{Count: count, Separator: "-"}); err != nil || len(keys) != 1 || keys[0] != want {
				t.Errorf("partitions of %q: %q, %v", v.PID, keys, err)
			}
		}
		if v.Skey == nil {
			if got, err := idAndNumber.Key(v.PID, 1, Sharding{Separator: "-"}); err == nil {
				t.Errorf("sort key of %q: %q, want an error", v.PID, got)
			}
		}
		for n, want := range v.Skey {
			if got, err := idAndNumber.Key(v.PID, n, Sharding{Separator: "-"}); got != want || err != nil {
				t.Errorf("sort key of %q, %d: %q, %v, want %q", v.PID, n, got, err, want)
			}
		}
	}
}

func TestShardVectors(t *testing.T) {
	t.Parallel()
	counts := []int{1, 2, 64, 1000, 1024}
	for id, want := range map[annals.PersistenceID][]uint64{
		"counter-875e6ce0425e4d2b8203f3b44b9b531a": {1, 1, 53, 37, 501},
		"counter-a8d46579bc2f4caf8c3b8dc2db984227": {1, 1, 35, 435, 803},
		"abc":           {1, 1, 33, 337, 161},
		"order-item-42": {1, 1, 45, 741, 301},
		"注文-0001":       {1, 2, 30, 758, 670},
		"user-\u00e9":   {1, 2, 8, 256, 456},
		"user-e\u0301":  {1, 1, 53, 517, 501},
		"emoji-😀":       {1, 2, 2, 250, 834},
	} {
		for i, count := range counts {
			if got := shardOf(id, count); got != want[i] {
				t.Errorf("%q of %d shards: %d, want %d", id, count, got, want[i])
			}
		}
	}
	for _, c := range []struct{ a, b annals.PersistenceID }{{"Counter|4", "Counter|10"}, {"Counter|11", "Counter|12"}, {"user3", "user11"},
		{"order-item-5", "order-item-7"}, {"order-item-3", "order-item-16"}, {"a-1", "a-1-80"}} {
		r, err := newResolver(PartitionKey{}, SortKey{}, Sharding{Count: 64, Separator: "-"})
		if err != nil {
			t.Fatal(err)
		}
		a, err1 := r.key(c.a, 1)
		b, err2 := r.key(c.b, 1)
		if err1 != nil || err2 != nil || !plan.SameKey(a, b) {
			t.Errorf("%q and %q do not collide: %v, %v", c.a, c.b, plan.QuoteKey(a), plan.QuoteKey(b))
		}
	}
}

func TestSequenceNumberVectors(t *testing.T) {
	t.Parallel()
	numbers := []annals.SeqNr{1, 63, 64, 65, annals.MaxSeqNr}
	for count, want := range map[int][]int{1: {0, 0, 0, 0, 0}, 2: {1, 1, 0, 1, 1}, 64: {1, 63, 0, 1, 63}, 1000: {1, 63, 64, 65, 807}} {
		for i, n := range numbers {
			got, err := SequenceNumberBased.Key("abc", n, Sharding{Count: count})
			if expected := "abc-" + strconv.Itoa(want[i]); got != expected || err != nil {
				t.Errorf("%d of %d shards: %q, %v, want %q", n, count, got, err, expected)
			}
		}
	}
	for n, want := range map[annals.SeqNr][2]string{1: {"1", "0000000000000000001"}, 63: {"63", "0000000000000000063"}, annals.MaxSeqNr: {"9223372036854775807", "9223372036854775807"}} {
		plain, _ := BySeqNr.Key("abc", n, Sharding{})
		padded, _ := BySeqNrPadded.Key("abc", n, Sharding{})
		if plain != want[0] || padded != want[1] {
			t.Errorf("%d: %q and %q", n, plain, padded)
		}
	}
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id, separator string
		want          string
	}{
		{"abc", "-", "[] false"}, {"order-item-42", "-", `["order" "item" "42"] true`}, {"-abc", "-", `["" "abc"] true`}, {"a--b", "-", `["a" "" "b"] true`},
		{"abc-", "-", `["abc"] true`}, {"-", "-", "[] true"}, {"a::b", "::", `["a" "b"] true`}, {"c|a8", "|", `["c" "|" "a" "8"] true`}, {"a.b", ".", "[] true"},
	} {
		p, err := pattern(c.separator)
		if err != nil {
			t.Fatal(err)
		}
		pieces, divided := split(c.id, Sharding{Separator: c.separator, pattern: p})
		if got := fmt.Sprintf("%q %v", pieces, divided); got != c.want {
			t.Errorf("%q by %q: %s, want %s", c.id, c.separator, got, c.want)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Layout{
		"shard count": {ShardCount: -1}, "too many shards": {ShardCount: 1 << 40, Journal: Journal{PartitionKey: SequenceNumberBased}}, "separator": {Journal: Journal{Separator: "("}},
		"columns":  {Journal: Journal{Columns: JournalColumns{Message: "pkey"}}},
		"resolver": {Snapshot: Snapshot{SortKey: SortKey{Ordered: true}}},
	} {
		if _, err := l.Plan(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// What a read asks for: golden requests need no server.
func TestQueries(t *testing.T) {
	t.Parallel()
	rowsOf := func(l Layout) rows {
		j, err := l.journal()
		if err != nil {
			t.Fatal(err)
		}
		return j.rows
	}
	defaults := Layout{ShardCount: 64}
	q, err := rowsOf(defaults).queries(numbered.Part{ID: "counter-a8d46579bc2f4caf8c3b8dc2db984227", From: 3, To: annals.MaxSeqNr})
	if err != nil || len(q) != 1 || q[0].Hash != "counter-0000000000000000000000000000000000000035" || plan.KeyText(q[0].From) != "a8d46579bc2f4caf8c3b8dc2db984227-0000000000000000003" ||
		plan.KeyText(q[0].To) != "a8d46579bc2f4caf8c3b8dc2db984227-9223372036854775807" || q[0].Index != "" || plan.KeyText(q[0].Values[":id"]) != "counter-a8d46579bc2f4caf8c3b8dc2db984227" {
		t.Errorf("%+v, %v", q, err)
	}
	spread := Layout{ShardCount: 8, Journal: Journal{PartitionKey: SequenceNumberBased}}
	for _, c := range []struct {
		from, to annals.SeqNr
		shards   int
	}{{1, annals.MaxSeqNr, 8}, {7, 8, 2}, {5, 5, 1}, {1, 8, 8}} {
		q, err := rowsOf(spread).queries(numbered.Part{ID: "a", From: c.from, To: c.to})
		if err != nil || len(q) != c.shards {
			t.Errorf("%d to %d: %d queries, %v", c.from, c.to, len(q), err)
		}
	}
	oldest := Layout{ShardCount: 64, Journal: Journal{PartitionKey: SequenceNumberBased, SortKey: ByNumber}}
	if table := rowsOf(oldest).shape().Range; table != (plan.Key{Name: "sequence-nr", Number: true}) {
		t.Errorf("%+v", table)
	}
	if rowsOf(Layout{ShardCount: 8, Journal: Journal{SortKey: BySeqNr}}).keyed() || rowsOf(Layout{ShardCount: 8, ByIndex: true}).keyed() {
		t.Error("reads are by key where they cannot be, or must not")
	}
}
