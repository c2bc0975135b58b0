package esa

import (
	"strconv"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// KeyResolver makes the keys of rows, as the key resolver that a program has given to its library. entityType and value are the parts of an
// id before and after its first "|"; the type of an id without "|" is "|". Two ids must not share both keys of a row. Its functions may
// be called from many goroutines at once. A nil function is that of the Peer.
type KeyResolver struct {
	// PartitionKey has 1 to 2,048 bytes.
	PartitionKey func(entityType, value string, shards int) string
	// SortKey has 1 to 1,024 bytes. n is the number of an event in the journal table; in the snapshot table it is 0 for the head and
	// the number of the state for a copy.
	SortKey func(entityType, value string, n annals.SeqNr) string
}

// own reports whether a function of r is not that of the Peer.
func (r KeyResolver) isSet() bool { return r.PartitionKey != nil || r.SortKey != nil }

// of is r with the functions of a library in place of those that are nil.
func (r KeyResolver) of(p peer, bare bool) KeyResolver {
	if r.PartitionKey == nil {
		r.PartitionKey = func(entityType, value string, shards int) string {
			return entityType + "-" + strconv.FormatInt(p.shard(entityType, value, bare, shards), 10)
		}
	}
	if r.SortKey == nil {
		r.SortKey = sortKey
	}
	return r
}

func sortKey(entityType, value string, n annals.SeqNr) string {
	return typeValue(entityType, value) + "-" + strconv.FormatInt(int64(n), 10)
}

// The service takes partition keys and sort keys of up to these numbers of bytes. maxAID is the most of an aggregate id in Rust5.
const (
	maxPartitionKey = 2048
	maxSortKey      = 1024
	maxAID          = 1024
)

// maxID is how many bytes an id may have, so that the libraries' sort key of its greatest number is taken. An id without "|" is written with
// two more bytes.
const maxID = maxSortKey - len("-9223372036854775807") - 2

// keys makes keys of ids, and ids of rows.
type keys struct {
	aids
	resolver KeyResolver
	shards   int
	apart    bool // the tables are those of Rust5
}

// key returns the key of event n of id.
func (k keys) key(id annals.PersistenceID, n annals.SeqNr) (plan.Item, error) {
	return k.made(id, attrSeq, n)
}

// stateKey returns the key of the copy of state n of id. 0 is the newest state, which is in the head, but for Rust5.
func (k keys) stateKey(id annals.PersistenceID, n annals.SeqNr) (plan.Item, error) {
	return k.made(id, attrSort, n)
}

// headKey returns the key of the head of id.
func (k keys) headKey(id annals.PersistenceID) (plan.Item, error) { return k.made(id, "", 0) }

// made returns a key with the number n. In the tables of Rust5 this is the attribute number, if it has a name.
func (k keys) made(id annals.PersistenceID, number string, n annals.SeqNr) (plan.Item, error) {
	entityType, value, err := k.split(id)
	if err != nil {
		return nil, err
	}
	if k.apart {
		aid := typeValue(entityType, value)
		if len(aid) > maxAID {
			return nil, plan.Misfit("the aggregate id has %d bytes, the tables take %d", len(aid), maxAID)
		}
		key := plan.Item{attrAID: plan.S(aid)}
		if number != "" {
			key[number] = plan.N(n)
		}
		return key, nil
	}
	partition, sort := k.resolver.PartitionKey(entityType, value, k.shards), k.resolver.SortKey(entityType, value, n)
	if len(partition) == 0 || len(partition) > maxPartitionKey || len(sort) == 0 || len(sort) > maxSortKey {
		return nil, plan.Misfit("the keys of the id have %d and %d bytes; the service takes 1 to %d and 1 to %d", len(partition), len(sort), maxPartitionKey, maxSortKey)
	}
	return plan.Item{attrPartition: plan.S(partition), attrSort: plan.S(sort)}, nil
}

// owner returns the id of a row with number n in its sort key; "" for a row without an aggregate id. With bare ids the sort key tells the
// type.
func (k keys) owner(it plan.Item, n annals.SeqNr) annals.PersistenceID {
	aid, ok := plan.Text(it, attrAID)
	if !ok {
		return ""
	}
	if !k.bare {
		return k.id(aid)
	}
	text, _ := plan.Text(it, attrSort)
	text, _ = strings.CutSuffix(text, "-"+strconv.FormatInt(int64(n), 10))
	return k.id(text)
}
