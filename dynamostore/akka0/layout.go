package akka0

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/driver"
	"github.com/annals-go/annals/dynamostore/internal/akkakeys"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// Layout describes a table of the plugin. Table is required, as in the plugin; other zero fields are the plugin's defaults.
type Layout struct {
	Table       string
	JournalName string // begins all keys; "journal"
	// SequenceShards is over how many items the last number of an entity is distributed; 0 is 1000. It must not be smaller than the
	// plugin's ever was.
	SequenceShards int
	// Permanent says that DeleteTo removes events. Otherwise it marks them as deleted, and Messages still yields them.
	Permanent bool
	// OtherNames are names of other journals in the table. Open refuses a table with items of which none begins with JournalName or with one
	// of these.
	OtherNames []string
}

// maxItems is the most items in a transaction of DynamoDB. maxShards limits the reads of a last number to 1,000 requests.
const (
	maxItems  = 100
	maxShards = 100_000
)

// Plan implements dynamostore.Layout. Programs do not call it.
func (l Layout) Plan() (plan.Offer, error) {
	shards, name := cmp.Or(l.SequenceShards, 1000), cmp.Or(l.JournalName, "journal")
	var faults []error
	if l.Table == "" {
		faults = append(faults, errors.New("the layout has no Table"))
	}
	if shards < 1 || shards > maxShards {
		faults = append(faults, fmt.Errorf("SequenceShards is %d, from 1 to %d are allowed", shards, maxShards))
	}
	j := journal{Journal: akkakeys.Journal{Table: l.Table, Hash: keyName, Number: numberName, Name: name, Others: l.OtherNames, Shards: int64(shards), Step: 1}, permanent: l.Permanent}
	maxID := j.MaxID(int64(annals.MaxSeqNr))
	if maxID < 1 {
		faults = append(faults, fmt.Errorf("JournalName has %d bytes, keys have at most %d", len(name), akkakeys.MaxKey))
	}
	if err := errors.Join(faults...); err != nil {
		return plan.Offer{}, err
	}
	return plan.Offer{
		Name:   "akka0",
		Tables: []plan.Table{{Name: l.Table, Hash: plan.Key{Name: keyName}, Stream: true}},
		Capabilities: annals.Capabilities{Events: true, FenceAfterDelete: true, GuardsReads: true,
			// A transaction has an item for each event, and one for each sequence shard that their numbers are in.
			Limits: annals.Limits{MaxEvents: max(maxItems/2, maxItems-shards), MaxIDBytes: maxID}},
		Check: plan.Compare(j.Sample()),
		Row:   j.owned,
		On: func(x plan.Executor) plan.Contracts {
			j := j
			j.x, j.Reads = x, func(id annals.PersistenceID) driver.Reader { return &reader{journal: &j, id: id} }
			return plan.Contracts{Journal: &j, Recoverer: &j, Skipper: &j, Guard: j.guard, Audit: j.audit}
		},
	}, nil
}
