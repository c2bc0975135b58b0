package dynamostore_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/annals-go/annals"
)

// esaCase is a case of testdata/conformance.json. It has one of the fields Steps, AID and Hash, or is about how a store opens, or has a Fault that
// only a test of the layout can cause.
type esaCase struct {
	ID   string
	Keep *int // copies of snapshots
	// Expire is how many seconds other copies stay; 0 deletes them.
	Expire int
	Steps  []esaStep
	AID    *struct {
		Type, Value, Tail string // the value is Value, Repeat times, and Tail
		Repeat            int
		Error             string
	}
	Hash        *struct{ Text, FNV1a64 string }
	Settings    map[string][2]any // the store_id and the version in each table; nil: those that Open writes
	Open        string            // the error of Open
	Unprocessed bool              // the service answers the keys of one table at a time
	Fault       string
}

// esaStep is a write of one event, a read of the head and the newest snapshot, or a read of events.
type esaStep struct {
	ID     annals.PersistenceID // of a read; "" is Order|1
	Write  *esaEvent
	State  *esaState // stored with the event, or expected
	Latest *annals.SeqNr
	Events []annals.SeqNr
	From   annals.SeqNr

	Fails    string // what the service answers with an error
	Error    string
	Requests int // that a write makes
	Keeps    int // from this write on, in place of Keep
	Copies   []annals.SeqNr
	Marked   []annals.SeqNr // copies with an end
	Deletes  []int          // how many copies each request deletes
	Cancels  []string       // an item of the transaction, and the reason for which it is cancelled once
}

// esaEvent is an event. What it lacks is that of the data: Order|1, 2026-10-05T00:00:00.123456789Z, {"number":seq} and an empty manifest.
type esaEvent struct {
	ID                 annals.PersistenceID
	Seq                annals.SeqNr
	Time               *time.Time
	Payload            json.RawMessage
	Manifest           string
	Size, ManifestSize int // of a payload and a manifest of x
}

// esaState is a snapshot. Without Data it is {"total":seq}.
type esaState struct {
	Seq      annals.SeqNr
	Data     json.RawMessage
	Manifest string
	Size     int
}

// deviation says why a case is not as in the data: how it ends instead, or which test is in its place.
type deviation struct {
	error    string // in place of that of the data; "ok" is none
	requests int    // of a refused write; 0 is as in the data
	instead  bool   // the case is not run
	why      string
}

const (
	gapWhy    = "a writer that has read a head ahead of its own knowledge reads again: ErrConflict, and not a violation of the contract"
	codecWhy  = "stores are given bytes: package codec fails before Append is called, and after a replay (codec.TestReadBack, codec.TestUnionFaults)"
	againWhy  = "a transaction that another one or a limit has kept from being stored is sent again"
	stateWhy  = "the first event needs a state, because libraries 1.x to 3.x cannot read a head without one"
	tablesWhy = "these are the tables of 5.x, which the esa with Rust5 layout has"
)

// deviations are those of both layouts, by the beginning of the case's id. The longest one that fits counts.
var deviations = map[string]deviation{
	"core-gap-":                      {error: "optimistic-lock", why: gapWhy},
	"core-no-head-update-":           {error: "optimistic-lock", why: gapWhy},
	"core-serialize-":                {instead: true, why: codecWhy},
	"core-deserialize-":              {instead: true, why: codecWhy},
	"core-retention-zero":            {error: "ok", why: "Keep 0 is the default, and keeps no copies"},
	"dynamodb-config-retry":          {instead: true, why: "Open repeats a read until its context ends (TestThrottlingEndsWithTheContext)"},
	"dynamodb-config-create-race":    {instead: true, why: "every order of two creations is run (rust5.TestOrdersOfSettings)"},
	"dynamodb-written-item-shapes":   {instead: true, why: "rows are compared with those of the library (rust5.TestGoldenTablesAreEqualled)"},
	"dynamodb-layout-v1":             {instead: true, why: "tables are compared with those of the library (rust5.TestGoldenTablesAreEqualled)"},
	"dynamodb-snapshot-ahead":        {instead: true, why: "head and snapshot are read in one request, and every order of it and a write is run (rust5.TestOrdersOfRecovery)"},
	"dynamodb-no-head-with-snapshot": {instead: true, why: "a snapshot without a head is damage, and no aggregate that was never written"},
	"dynamodb-retention-gsi-":        {instead: true, why: "an index that is late is asked in every order (rust5.TestRetentionOnALaggingIndex, TestRetentionCountsTheNewCopy)"},
	"dynamodb-retention-ttl-stale":   {instead: true, why: "a copy that another process has marked is marked once (esa.TestMarkedMeanwhile, rust5.TestRetentionOnALaggingIndex)"},
	"dynamodb-condition-gap":         {error: "optimistic-lock", why: gapWhy},
	"dynamodb-condition-no-head":     {error: "optimistic-lock", why: gapWhy},
	"dynamodb-journal-condition":     {instead: true, why: "events are put on the condition of the data, and a refusal is ErrConflict (rust5.TestConflictHasTheLastNumber)"},
	"dynamodb-transaction-conflict":  {error: "ok", why: againWhy},
	"dynamodb-journal-":              {error: "ok", why: againWhy},
	"dynamodb-current-snapshot-":     {error: "ok", why: againWhy},
	"dynamodb-history-snapshot-":     {error: "ok", why: againWhy},
}

// deviationsOf are those of one layout.
var deviationsOf = map[string]map[string]deviation{
	"esa, rust 5": {
		"hash-": {instead: true, why: "the keys have no hash"},
	},
	"esa": {
		"aid-ascii-1023":               {error: "contract-violation", why: "a sort key has the aid and a number, and at most 1,024 bytes"},
		"aid-ascii-1024":               {error: "contract-violation", why: "the same"},
		"aid-multibyte-1023":           {error: "contract-violation", why: "the same"},
		"aid-multibyte-1024":           {error: "contract-violation", why: "the same"},
		"seq-above-max-value":          {error: "optimistic-lock", why: "numbers have 63 bits: this one is above the last"},
		"core-seq-above-max":           {error: "optimistic-lock", why: "the same"},
		"dynamodb-config-":             {instead: true, why: tablesWhy},
		"dynamodb-written-item-shapes": {instead: true, why: tablesWhy},
		"dynamodb-layout-v1":           {instead: true, why: tablesWhy},
		"dynamodb-condition-gap":       {error: "optimistic-lock", requests: 2, why: gapWhy + "; the second request looks whether a library has left numbers unused"},
	},
}

func (c esaCase) deviation(layout string) (found deviation, ok bool) {
	longest := -1
	for _, all := range []map[string]deviation{deviations, deviationsOf[layout]} {
		for begin, d := range all {
			if strings.HasPrefix(c.ID, begin) && len(begin) >= longest {
				longest, found = len(begin), d
			}
		}
	}
	return found, longest >= 0
}

// The conformance cases of the event-store-adapter libraries hold, or have a reason why not.
func TestEventStoreAdapterConformance(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/conformance.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []esaCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 116 {
		t.Errorf("%d cases, want 85 scenarios, the layout of the tables and 30 values", len(file.Cases))
	}
	for _, layout := range []string{"esa, rust 5", "esa"} {
		t.Run(layout, func(t *testing.T) {
			t.Parallel()
			ran := 0
			for _, c := range file.Cases {
				d, _ := c.deviation(layout)
				if d.instead {
					t.Logf("%s: not run: %s", c.ID, d.why)
					continue
				}
				ran++
				t.Run(c.ID, func(t *testing.T) { (&esaRun{T: t, esaCase: c, layout: layout, deviation: d}).run() })
			}
			if ran < 65 {
				t.Errorf("%d cases were run", ran)
			}
		})
	}
}
