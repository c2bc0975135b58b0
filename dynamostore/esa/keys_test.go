package esa

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// The hashes of ten values by the hash functions of the four languages, and by that of JavaScript for the text user-account-value.
func TestHashes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value  string
		g, r   uint64
		java   int32
		script uint32
	}{
		{"", 0xcbf29ce484222325, 0x30406ea523c53def, 0, 2386782050},
		{"a", 0xaf63dc4c8601ec8c, 0x719b50b9a4f0e9f3, 97, 975799615},
		{"1", 0xaf63ac4c86019afc, 0xe5f32291f16ad397, 49, 975799567},
		{"01H42K4ABWQ5V2XQEP3A48VE0Z", 0xadb103af5fe2a91a, 0x59308e07e14cc115, -964941577, 3318036953},
		{"01H42KBHCW1BZG504J4ZXKA2F2", 0x0aa990285e0388ca, 0xddcec349fba83b27, 725442469, 713453703},
		{"01HF9YV0G3H8JPCNKGEY8Q4RSZ", 0xf3f752d2fa960c29, 0xb29a5895dbcfaa52, -517431116, 3765547414},
		{"01890535-c59c-72d5-08a8-dcea316374c8", 0xa614364e146f63a3, 0x6e5a265bac9e4e68, 1687329602, 1504541092},
		{"polygenelubricants", 0xb2c314119c96dd27, 0x9803471a078b662f, -2147483648, 1813058274},
		{"ユーザー", 0x309f20171820053e, 0xf03a18ddd6e30211, 385373788, 2090155198},
		{"😀", 0xfeff073875020288, 0x475a0576ba65c119, 1772899, 186786885},
	} {
		for _, shards := range []int{1, 10, 32, 64, 1 << 31} {
			absolute := tt.java
			if absolute < 0 {
				absolute = -absolute
			}
			for name, p := range map[string]struct {
				have, want int64
			}{
				"go":   {shardGo("", tt.value, false, shards), int64(tt.g % uint64(shards))},
				"rust": {shardRust("", tt.value, false, shards), int64(tt.r % uint64(shards))},
				"java": {shardJava("", tt.value, false, shards), int64(absolute) % int64(shards)},
				"js":   {shardJS("user-account", tt.value, false, shards), int64(tt.script) % int64(shards)},
			} {
				if p.have != p.want {
					t.Errorf("%s, %q, %d shards: got %d, want %d", name, tt.value, shards, p.have, p.want)
				}
			}
		}
	}
	if n := shardJava("", "polygenelubricants", false, 10); n != -8 {
		t.Errorf("the shard of Java's smallest hash is %d, want -8", n)
	}
	if n := shardJS("user-account", "a", true, 10); n != 7 {
		t.Errorf("the shard of JavaScript's aggregate id %q is %d, want 7", "a", n)
	}
}

// The keys that the libraries themselves have made for 50 ids.
func TestKeys(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		IDs []struct {
			ID            struct{ Type, Value string }
			AID           string
			SKey          struct{ Head, Event1 string }
			PartitionKeys map[string]map[string]string `json:"pkey"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	languages := map[string][]Peer{"go": {Go}, "js": {JS, JS3}, "rust": {Rust, Rust3, Seed}, "java (formula)": {Java}}
	if len(file.IDs) != 50 {
		t.Errorf("%d ids", len(file.IDs))
	}
	for _, id := range file.IDs {
		for shards, partitions := range id.PartitionKeys {
			n, _ := strconv.Atoi(shards)
			for language, want := range partitions {
				for _, p := range languages[language] {
					r := KeyResolver{}.of(peers[p], false)
					if have := r.PartitionKey(id.ID.Type, id.ID.Value, n); have != want {
						t.Errorf("%v of %v with %d shards: got %q, want %q", peers[p].name, id.ID, n, have, want)
					}
				}
			}
		}
		if head, event := sortKey(id.ID.Type, id.ID.Value, 0), sortKey(id.ID.Type, id.ID.Value, 1); head != id.SKey.Head || event != id.SKey.Event1 {
			t.Errorf("sort keys of %v: got %q, %q", id.ID, head, event)
		}
		if aid := typeValue(id.ID.Type, id.ID.Value); aid != id.AID {
			t.Errorf("aggregate id of %v: got %q, want %q", id.ID, aid, id.AID)
		}
	}
}

// owner is the inverse of key and aid, also where the aggregate id is the value alone.
func TestOwner(t *testing.T) {
	t.Parallel()
	for _, bare := range []bool{false, true} {
		r := Layout{Shards: 3, BareAID: bare, Types: []string{"user-account"}}.rows()
		for _, id := range []annals.PersistenceID{"Thing|1", "Thing|a-b-1", "Thing|", "user-account|7", "user|x", "|", "plain"} {
			for _, n := range []annals.SeqNr{0, 1, annals.MaxSeqNr} {
				it, err := r.key(id, n)
				if err != nil {
					t.Fatal(err)
				}
				it[attrAID] = plan.S(r.aid(id))
				if owner := r.owner(it, n); owner != id {
					t.Errorf("bare %v, row %d of %q is taken for one of %q", bare, n, id, owner)
				}
			}
		}
	}
}

func TestRefusedKeys(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Layout{
		"an empty partition key":   {Shards: 1, Keys: fixed("", "s")},
		"an empty sort key":        {Shards: 1, Keys: fixed("p", "")},
		"a long partition key":     {Shards: 1, Keys: fixed(string(make([]byte, 2049)), "s")},
		"a long sort key":          {Shards: 1, Keys: fixed("p", string(make([]byte, 1025)))},
		"a type that is not known": {Shards: 1},
	} {
		if key, err := l.rows().key("order-item|1", 1); err == nil {
			t.Errorf("%s: got %v", name, key)
		}
	}
}

// fixed is a KeyResolver whose keys are always the same.
func fixed(partition, sort string) KeyResolver {
	return KeyResolver{func(string, string, int) string { return partition }, func(string, string, annals.SeqNr) string { return sort }}
}
