package annals_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/annals-go/annals"
)

// The vectors were computed with Java's String.hashCode; see docs/formats/r2dbc.md, "Slices".
func TestSlice(t *testing.T) {
	t.Parallel()
	for id, want := range map[annals.PersistenceID]int{
		"": 0, "a": 97, "p1": 449, "p2": 450, "p4": 452, "p5": 453, "p10": 655, "p11": 656,
		"p500": 645, "p621": 645, "p742": 645, "p863": 645, "p984": 645, "p3080": 645, "p4290": 645, "p20180": 645,
		"p92": 905, "p108": 905, "p229": 905,
		"p-08071": 101, "p-08072": 102, "p-08073": 103, "p-08074": 104, "p-08076": 106, "p-08192": 101,
		"p-0960": 576, "p-6009": 640, "p-7219": 640, "p-3039": 832, "p-2049": 896,
		"test-entity|_hb-26498e81-66ad-4aa9-b985-b34602c5f32d-1": 359,
		"TestEntity|p-1": 205, "ShoppingCart|cart-1": 392, "Customer|7": 953, "type|entity-1|DC-A": 186, "a|b|c|d": 746,
		"user-1": 337, "order-123456789": 906, "zzzzzz": 576,
		"polygenelubricants": 0, // hashes to the smallest int32
		"M\u00fcller":        772, "user|M\u00fcller": 435, "Cart|caf\u00e9": 675, "Cart|cafe\u0301": 328,
		"日本": 487, "entity|日本語": 514, "😀": 355, "Cart|😀": 97, "𝒳|𝒴": 189,
	} {
		if got := id.Slice(); got != want {
			t.Errorf("%q: slice %d, want %d", id, got, want)
		}
	}
}

func TestSliceDoesNotAllocate(t *testing.T) {
	id := annals.PersistenceID("Cart|😀" + strings.Repeat("x", 200))
	if n := testing.AllocsPerRun(100, func() { id.Slice() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSliceRanges(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 4, 128, 1024} {
		ranges := annals.SliceRanges(n)
		if len(ranges) != n {
			t.Fatalf("%d ranges, want %d", len(ranges), n)
		}
		for slice := range annals.SliceCount {
			in := 0
			for _, r := range ranges {
				if r.Contains(slice) {
					in++
				}
			}
			if in != 1 {
				t.Errorf("of %d ranges %d hold slice %d", n, in, slice)
			}
		}
	}
	if got := annals.SliceRanges(4)[1].String(); got != "256-511" {
		t.Errorf("second of four ranges is %s", got)
	}
	if got := (annals.SliceRange{}).String(); got != "0-1023" {
		t.Errorf("the zero range is %s", got)
	}
	if len(annals.SliceRanges(0)) != 1 || len(annals.SliceRanges(5000)) != annals.SliceCount {
		t.Error("SliceRanges does not hold n within its bounds")
	}
}

// Ids that end with numbers in sequence use nearly all of the 16 groups of an index, and none of four workers has much more than its share.
func TestSpreadRanges(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for _, r := range annals.SpreadRanges(annals.SliceCount) {
		for slice := range annals.SliceCount {
			if r.Contains(slice) {
				seen[slice] = true
			}
		}
	}
	if len(seen) != annals.SliceCount || annals.SpreadRanges(4)[1].String() != "1280-1535" {
		t.Errorf("%d slices are in a range, the second of four is %s", len(seen), annals.SpreadRanges(4)[1])
	}
	for name, id := range map[string]func(n int) string{
		"from 1": func(n int) string { return fmt.Sprintf("account-%d", n+1) }, "from 0": strconv.Itoa,
		"padded": func(n int) string { return fmt.Sprintf("%08d", n) }, "UUIDs": func(n int) string {
			sum := sha256.Sum256([]byte{byte(n), byte(n >> 8)})
			return annals.WriteID(sum[:16]).String()
		},
	} {
		for _, typ := range []string{"account", "Thread", "x", "ShoppingCart"} {
			for _, ids := range []int{100, 1000} {
				groups, quarters := map[annals.SliceRange]int{}, map[annals.SliceRange]int{}
				for n := range ids {
					slice := annals.NewPersistenceID(typ, id(n)).Slice()
					for _, r := range annals.SpreadRanges(16) {
						if r.Contains(slice) {
							groups[r]++
						}
					}
					for _, r := range annals.SpreadRanges(4) {
						if r.Contains(slice) {
							quarters[r]++
						}
					}
				}
				fullest := slices.Max(slices.Collect(maps.Values(quarters)))
				if len(groups) < 14 || fullest*100 > 35*ids {
					t.Errorf("%d ids of %s %s: %d of 16 groups, %d in the fullest quarter", ids, typ, name, len(groups), fullest)
				}
			}
		}
	}
}

func TestPersistenceIDParts(t *testing.T) {
	t.Parallel()
	for id, want := range map[annals.PersistenceID][2]string{
		annals.NewPersistenceID("Cart", "7"): {"Cart", "7"},
		"type|entity-1|DC-A":                 {"type", "entity-1|DC-A"},
		"plain":                              {"", "plain"},
		"|x":                                 {"", "x"},
	} {
		if got := [2]string{id.Type(), id.EntityID()}; got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}

func TestWriteIDText(t *testing.T) {
	t.Parallel()
	w := annals.NewWriteID()
	text := w.String()
	if text[14] != '4' || !strings.ContainsRune("89ab", rune(text[19])) {
		t.Errorf("%s is no version 4 UUID", text)
	}
}
