package akka_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// left is what the plugins lost or left in their tables, by scenario: see docs/formats/akka-v1.md.
var left = map[string]string{
	"akka1-old/default": "head order-1 200 230; head starts-100 100 102",
	"akka1-old/defects": "head f-unprocessed-SH 100 102; head h-98 100 102; head h-hole 100 105; head h-jump 200 209; head h-sh 100 105; head r-100 100 103; head r-99 100 103; hole f-150 2 99; hole f-unprocessed-P 100 100; hole h-98r 102 103; hole h-hole 99 99; hole h-shards 102 199; hole h-shards 202 299; hole h-shards 3 99; hole h-sl2 1 100; hole i-orphan 10 12; hole i-over 10 11; hole i-over2 10 10; hole r-100 100 100; hole r-99 99 101; hole t-mid 2 2; hole t-mid 4 4; incomplete i-first 2 4; incomplete i-last 2 4; incomplete i-mid 2 4; incomplete i-next 2 4; key f-150 0 0; missing i-orphan 1 9; missing i-over 1 9; missing i-over2 1 9; orphan s-clock 10 10; orphan s-clock 20 20; orphan s-filter 1 1; orphan s-filter 2 2; orphan s-filter 3 3",
	"snapshots":         "orphan snap-1 10 10; orphan snap-1 15 15; orphan snap-1 20 20; orphan snap-1 5 5; orphan snap-clock 10 10; orphan snap-clock 20 20; orphan snap-custom 100 100; orphan snap-delete 1 1; orphan snap-delete 2 2; orphan snap-delete 5 5; orphan snap-delete-criteria 3 3; orphan snap-delete-criteria 5 5; orphan snap-empty 1 1; orphan snap-twice 3 3; orphan snap-ünï|a b 1 1",
	"defects":           "head f-unprocessed-SH 100 102; head h-hole 100 105; head h-jump 200 209; head h-sh 100 105; head r-100 100 103; head r-99 100 103; hole f-150 2 99; hole f-unprocessed-P 100 100; hole h-hole 99 99; hole h-shards 102 199; hole h-shards 202 299; hole h-shards 3 99; hole h-sl2 1 100; hole i-orphan 10 12; hole i-over 10 11; hole i-over2 10 10; hole r-100 100 100; hole r-99 99 101; hole t-mid 2 2; hole t-mid 4 4; incomplete i-first 2 4; incomplete i-last 2 4; incomplete i-mid 2 4; incomplete i-next 2 4; key f-150 0 0; missing i-orphan 1 9; missing i-over 1 9; missing i-over2 1 9; orphan s-clock 10 10; orphan s-clock 20 20; orphan s-filter 1 1; orphan s-filter 2 2; orphan s-filter 3 3",
	"mixed":             "head m-100 100 102; orphan m-2 1 1",
	"payloads":          "hole tagged 2 4; hole too-large 2 2; hole too-large 4 5",
	"pekko1/snapshots":  "orphan snap-1 10 10; orphan snap-1 15 15; orphan snap-1 20 20; orphan snap-1 5 5; orphan snap-clock 10 10; orphan snap-clock 20 20; orphan snap-custom 100 100; orphan snap-delete 1 1; orphan snap-delete 2 2; orphan snap-delete 5 5; orphan snap-delete-criteria 3 3; orphan snap-delete-criteria 5 5; orphan snap-empty 1 1; orphan snap-json 7 7; orphan snap-json 8 8; orphan snap-twice 3 3; orphan snap-ünï|a b 1 1",
}

// What is found in the tables of the plugins is what they are known to lose, and nothing else.
func TestGoldenLeft(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.system+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			want, ok := left[s.system+"/"+s.name]
			if !ok {
				want = left[s.name]
			}
			plantest.WantLeft(t, s.layout(), newBench(t, s.layout(), s.tables...).Executor, want)
		})
	}
}
