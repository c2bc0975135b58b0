package retention_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/plantest"
	"github.com/annals-go/annals/dynamostore/internal/retention"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func key(n annals.SeqNr) plan.Item { return plan.Item{"id": plan.S("a"), "n": plan.N(n)} }

// The newest copies stay, whatever the index lacks.
func TestApply(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep    int
		indexed []annals.SeqNr // the newest first
		written annals.SeqNr
		want    string // of the numbers 1 … 5, which are all stored
	}{
		"keep none":                        {0, []annals.SeqNr{5, 4, 3, 2, 1}, 5, "[1 2 3 4 5]"},
		"keep two":                         {2, []annals.SeqNr{5, 4, 3, 2, 1}, 5, "[4 5]"},
		"more than there are":              {9, []annals.SeqNr{5, 4, 3, 2, 1}, 5, "[1 2 3 4 5]"},
		"the new copy is not in the index": {2, []annals.SeqNr{4, 3, 2, 1}, 5, "[4 5]"},
		"nothing is known to be written":   {1, []annals.SeqNr{5, 4, 3, 2, 1}, 0, "[5]"},
		"the index lacks two":              {2, []annals.SeqNr{3, 2, 1}, 5, "[3 4 5]"},
		"a newer copy than that written":   {1, []annals.SeqNr{5, 3, 2, 1}, 4, "[4 5]"},
		"the copy written is an old one":   {2, []annals.SeqNr{5, 4, 3, 1}, 2, "[2 4 5]"},
		"the copy written is in between":   {3, []annals.SeqNr{5, 3, 2, 1}, 4, "[3 4 5]"},
	} {
		for _, expire := range []time.Duration{0, time.Hour} {
			x := plantest.New([]plan.Table{{Name: "t", Hash: plan.Key{Name: "id"}, Range: plan.Key{Name: "n", Number: true}}})
			for n := range annals.SeqNr(5) {
				if _, err := x.Write(t.Context(), plan.Write{Ops: []plan.Op{{Table: "t", Put: key(n + 1)}}}); err != nil {
					t.Fatal(err)
				}
			}
			rule := retention.Rule{Table: "t", Keep: c.keep, Expire: expire, Mark: func(key plan.Item, end types.AttributeValue) plan.Op {
				return plan.Op{Table: "t", Key: key, Update: "SET #ttl = :end", Condition: "attribute_exists(#n) AND attribute_not_exists(#ttl)", Names: map[string]string{"#ttl": "ttl", "#n": "n"}, Values: plan.Item{":end": end}}
			}}
			for range 2 {
				if err := rule.Apply(t.Context(), x, copies(nil, c.indexed...), c.written); err != nil {
					t.Fatal(err)
				}
			}
			var left []annals.SeqNr
			for _, it := range x.Items("t") {
				if it["ttl"] == nil {
					n, _ := plan.Number(it, "n")
					left = append(left, annals.SeqNr(n))
				}
			}
			if fmt.Sprint(left) != c.want {
				t.Errorf("%s: left are %v, want %s", name, left, c.want)
			}
		}
	}
	down := errors.New("down")
	if err := (retention.Rule{Table: "t", Keep: 1}).Apply(t.Context(), plantest.New(nil), copies(down), 1); !errors.Is(err, down) {
		t.Errorf("an index that fails: %v", err)
	}
}

// copies yields copies, and then err.
func copies(err error, numbers ...annals.SeqNr) iter.Seq2[retention.Copy, error] {
	return func(yield func(retention.Copy, error) bool) {
		for _, n := range numbers {
			if !yield(retention.Copy{Number: n, Key: key(n)}, nil) {
				return
			}
		}
		if err != nil {
			yield(retention.Copy{}, err)
		}
	}
}
