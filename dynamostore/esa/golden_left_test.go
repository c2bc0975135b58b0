package esa_test

import (
	"testing"

	"github.com/annals-go/annals/dynamostore/internal/plantest"
)

// left is what the libraries lost or left in their tables, by system and scenario: see docs/formats/event-store-adapter.md.
var left = map[string]string{
	"esa-go/conflicts":               "orphan UserAccount|snapshot-ahead 50 50; snapshot UserAccount|other 0 0",
	"esa-go/ids":                     "key order-item|1 0 0; key order-item|1 1 1; key order-item|1 2 2",
	"esa-go/shard-count-changed":     "key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 0 0; key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 1 1; key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 2 2",
	"esa-js-3/conflicts":             "orphan UserAccount|snapshot-ahead 50 50",
	"esa-js-3/ids":                   "key order-item|1 0 0; key order-item|1 1 1; key order-item|1 2 2",
	"esa-js-3/shard-count-changed":   "key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 0 0; key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 1 1; key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 2 2",
	"esa-js/conflicts":               "orphan UserAccount|snapshot-ahead 50 50",
	"esa-js/ids":                     "key order-item|1 0 0; key order-item|1 1 1; key order-item|1 2 2",
	"esa-js/shard-count-changed":     "key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 0 0; key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 1 1; key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 2 2",
	"esa-rust-3/conflicts":           "missing UserAccount|taken-number 3 3",
	"esa-rust-3/ids":                 "key order-item|1 1 1; key order-item|1 2 2",
	"esa-rust-3/shard-count-changed": "key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 1 1; key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 2 2",
	"esa-rust/conflicts":             "missing UserAccount|taken-number 3 3; orphan UserAccount|snapshot-ahead 50 50; snapshot UserAccount|other 0 0",
	"esa-rust/ids":                   "key order-item|1 0 0; key order-item|1 1 1; key order-item|1 2 2",
	"esa-rust/shard-count-changed":   "key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 0 0; key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 1 1; key UserAccount|01H42K4ABWQ5V2XQEP3A48VE0Z 2 2",
}

// What is found in the tables of the libraries is what they are known to lose, and nothing else.
func TestGoldenLeft(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios(t) {
		t.Run(s.system+"/"+s.name, func(t *testing.T) {
			t.Parallel()
			l := s.inputs.Read.Settings.layout(systems[s.system])
			plantest.WantLeft(t, l, newBench(t, l, s.tables...).Executor, left[s.system+"/"+s.name])
		})
	}
}
