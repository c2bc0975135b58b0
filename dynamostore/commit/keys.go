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

// Attributes. Their names are short because they count towards the size of each item.
const (
	attrID     = "pid"
	attrSeq    = "seq"
	attrFormat = "v"
	attrWrite  = "w"    // WriteID; a state has its last four, with their times, in w, w1, w2, w3
	attrTime   = "at"   // microseconds since 1970
	attrFeed   = "feed" // hash key of the index: entity type and slice group
	attrCount  = "n"    // number of events of the commit, deleted ones included
	attrFrom   = "from" // number of the first event that is not deleted; absent when none is deleted, one more than the last number in a tombstone
	attrEvents = "ev"
	attrErased = "del" // when a commit or a snapshot was deleted

	attrSerializer = "s"
	attrManifest   = "type"
	attrData       = "data"
	attrTags       = "tags"
	attrMeta       = "meta"
	attrAdapter    = "adapter"

	attrSave  = "save"  // id of a snapshot's save
	attrParts = "parts" // number of items that hold the snapshot's data
	attrZip   = "zip"   // the snapshot's data is compressed by gzip

	attrRevision = "rev"
	attrDeleted  = "gone" // true: a state or a snapshot has been deleted

	attrLayout  = "layout"
	attrIndex   = "index"   // its name, absent when there is none
	attrTypes   = "types"   // the entity types in the index
	attrFilling = "filling" // true: the index is not yet complete
)

// reserved are the names that additional columns of states must not have.
var reserved = []string{attrID, attrSeq, attrFormat, attrWrite, "w1", "w2", "w3", attrTime, attrFeed, attrCount, attrFrom, attrEvents, attrErased, attrSerializer,
	attrManifest, attrData, attrTags, attrMeta, attrAdapter, attrSave, attrParts, attrZip, attrRevision, attrDeleted, attrLayout, attrIndex, attrTypes}

// The range key, seq, orders the items of an entity: the parts of snapshots are below zero, the state is at 0, a commit is at the
// number of its first event, and a snapshot of number n is at n + 0.5.

func key(id annals.PersistenceID, n annals.SeqNr) plan.Item {
	return plan.Item{attrID: plan.S(string(id)), attrSeq: plan.N(n)}
}

// behind returns the range key of a snapshot of number n.
func behind(n annals.SeqNr) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(int64(n), 10) + ".5"}
}

// place returns the range key of an item: the number, and whether it is followed by the half of a snapshot.
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
	maxParts  = 10_000 // four digits of a part's range key are the number of the part
)

// part returns the range key of part i of a save. No two saves share one, so a late write never changes the data of another save.
func part(save []byte, i int) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprintf("-%d%04d", saveNumber(save), i)}
}

// saveNumber is at least 2⁶³, so that all parts are far below the settings.
func saveNumber(save []byte) uint64 { return binary.BigEndian.Uint64(save) | 1<<63 }

func partKey(id annals.PersistenceID, save []byte, i int) plan.Item {
	return plan.Item{attrID: plan.S(string(id)), attrSeq: part(save, i)}
}

// settingsKey is the key of the settings. No entity has an item there, not even one with this id.
func settingsKey() plan.Item { return key("annals", -1) }

const absent = "attribute_not_exists(#pid)"

var idName = map[string]string{"#pid": attrID}
