package headed

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/aggregateid"
	"github.com/annals-go/annals/dynamostore/internal/plan"
)

// AIDForm says what the attribute aid has.
type AIDForm aggregateid.Form

const (
	// TypeValue is the type, "-" and the value.
	TypeValue = AIDForm(aggregateid.TypeValue)
	// Value is the value alone, for ids of Rust whose display text is their value.
	Value = AIDForm(aggregateid.Value)
)

func (f AIDForm) text(entityType, value string) string {
	if f == Value {
		return value
	}
	return aggregateid.Join(entityType, value)
}

// KeyResolver makes the keys of rows, as the key resolver that a program has given to its library. entityType and value are the parts of an
// id before and after its first "|"; the type of an id without "|" is "|". Two ids must not share both keys of a row. Its methods may
// be called from many goroutines at once.
type KeyResolver interface {
	// PartitionKey has 1 to 2,048 bytes.
	PartitionKey(entityType, value string, shards int) string
	// SortKey has 1 to 1,024 bytes. n is the number of an event in the journal table; in the snapshot table it is 0 for the head and
	// the number of the state for a copy.
	SortKey(entityType, value string, n annals.SeqNr) string
}

// resolver is the KeyResolver of a library.
type resolver struct {
	peer peer
	form AIDForm
}

// PartitionKey is KeyResolver.
func (r resolver) PartitionKey(entityType, value string, shards int) string {
	return entityType + "-" + strconv.FormatInt(r.peer.shard(entityType, value, r.form, shards), 10)
}

// SortKey is KeyResolver.
func (resolver) SortKey(entityType, value string, n annals.SeqNr) string {
	return aggregateid.Join(entityType, value) + "-" + strconv.FormatInt(int64(n), 10)
}

// The service takes partition keys and sort keys of up to these numbers of bytes.
const (
	maxPartitionKey = 2048
	maxSortKey      = 1024
)

// maxID is how many bytes an id may have, so that the libraries' sort key of its greatest number is taken. An id without "|" is written with
// two more bytes.
const maxID = maxSortKey - len("-9223372036854775807") - 2

// keys makes keys of ids, and ids of rows.
type keys struct {
	rule     aggregateid.Rule
	resolver KeyResolver
	shards   int
}

// key returns the key of row n of id.
func (k keys) key(id annals.PersistenceID, n annals.SeqNr) (plan.Item, error) {
	return k.made(id, func(entityType, value string) string { return k.resolver.SortKey(entityType, value, n) })
}

// current returns the key of the row with the newest snapshot of id, which tables with lean heads have.
func (k keys) current(id annals.PersistenceID) (plan.Item, error) {
	return k.made(id, func(entityType, value string) string { return aggregateid.Join(entityType, value) + "-current" })
}

// aid returns the aggregate id of id, which key has accepted.
func (k keys) aid(id annals.PersistenceID) string {
	aid, _ := k.rule.AID(id)
	return aid
}

// made returns the key with the sort key that sortKey makes.
func (k keys) made(id annals.PersistenceID, sortKey func(entityType, value string) string) (plan.Item, error) {
	entityType, value, err := k.rule.Split(id)
	if err != nil {
		return nil, err
	}
	partition, sort := k.resolver.PartitionKey(entityType, value, k.shards), sortKey(entityType, value)
	if len(partition) == 0 || len(partition) > maxPartitionKey || len(sort) == 0 || len(sort) > maxSortKey {
		return nil, &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the keys of the id have %d and %d bytes; the service takes 1 to %d and 1 to %d", len(partition), len(sort), maxPartitionKey, maxSortKey)}
	}
	return plan.Item{attrPartition: plan.S(partition), attrSort: plan.S(sort)}, nil
}

// owner returns the id of a row with number n in its sort key; "" for a row without an aggregate id. With the form Value the sort key tells the
// type.
func (k keys) owner(it plan.Item, n annals.SeqNr) annals.PersistenceID {
	aid, ok := plan.Text(it, attrAID)
	if !ok {
		return ""
	}
	if AIDForm(k.rule.Form) == TypeValue {
		return k.rule.ID(aid)
	}
	text, _ := plan.Text(it, attrSort)
	text, _ = strings.CutSuffix(text, "-"+strconv.FormatInt(int64(n), 10))
	return k.rule.ID(text)
}
