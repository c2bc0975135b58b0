package commit

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attributes. Their names are short because every item pays for them.
const (
	attrID     = "pid"
	attrSeq    = "seq"
	attrFormat = "v"
	attrWrite  = "w"    // WriteID; of a state the last four, with their times, in w, w1, w2, w3
	attrTime   = "at"   // microseconds since 1970
	attrFeed   = "feed" // hash key of the index: entity type and slice group
	attrCount  = "n"    // events of the commit
	attrFrom   = "from" // the first number still held; behind the last for a tombstone, absent while all are
	attrEvents = "ev"
	attrErased = "del" // when a commit or a snapshot became a tombstone

	attrSerializer = "s"
	attrManifest   = "type"
	attrData       = "data"
	attrTags       = "tags"
	attrMeta       = "meta"
	attrAdapter    = "adapter"

	attrSave  = "save"  // id of a snapshot's save
	attrParts = "parts" // how many items hold the snapshot's data
	attrZip   = "zip"   // the snapshot's data is compressed by gzip

	attrRevision = "rev"
	attrDeleted  = "gone" // true: a state or a snapshot has been deleted

	attrLayout  = "layout"
	attrIndex   = "index"   // its name, absent when there is none
	attrTypes   = "types"   // the entity types in the index
	attrFilling = "filling" // true: the index is not yet complete
)

// reserved are the names that additional columns of states cannot have.
var reserved = []string{attrID, attrSeq, attrFormat, attrWrite, "w1", "w2", "w3", attrTime, attrFeed, attrCount, attrFrom, attrEvents, attrErased, attrSerializer,
	attrManifest, attrData, attrTags, attrMeta, attrAdapter, attrSave, attrParts, attrZip, attrRevision, attrDeleted, attrLayout, attrIndex, attrTypes}

// The range key, seq, orders an entity's items: parts of snapshots below zero, the state at 0, then commits at the number of
// their first event and snapshots half behind the last number they cover.

func key(id annals.PersistenceID, n annals.SeqNr) plan.Item {
	return plan.Item{attrID: plan.S(string(id)), attrSeq: plan.N(n)}
}

// behind is the place of a snapshot of number n.
func behind(n annals.SeqNr) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(n), 10) + ".5"}
}

// place reads a seq: the number, and whether it is a snapshot's half behind it.
func place(it plan.Item) (n annals.SeqNr, half bool, err error) {
	v, ok := it[attrSeq].(*types.AttributeValueMemberN)
	if !ok {
		return 0, false, fmt.Errorf("%s is not a number", attrSeq)
	}
	text, half := strings.CutSuffix(v.Value, ".5")
	i, err := strconv.ParseInt(text, 10, 64)
	return annals.SeqNr(i), half, err
}

const (
	saveBytes = 8      // of the id of a save
	maxParts  = 10_000 // the range keys of a save's parts have four digits for the part
)

// part is the place of part i of a save: no two saves share one, so that a late write never lands in another's data.
func part(save []byte, i int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprintf("-%d%04d", saveNumber(save), i)}
}

// saveNumber is never 0, so that all parts lie far below the settings.
func saveNumber(save []byte) uint64 { return binary.BigEndian.Uint64(save) | 1<<63 }

func partKey(id annals.PersistenceID, save []byte, i int) plan.Item {
	return plan.Item{attrID: plan.S(string(id)), attrSeq: part(save, i)}
}

// settingsKey is a place that no entity uses, also not one of that name.
func settingsKey() plan.Item { return key("annals", -1) }

const absent = "attribute_not_exists(#pid)"

var idName = map[string]string{"#pid": attrID}
