package j5ik2o

import (
	"crypto/md5"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Sharding are the settings that resolvers use.
type Sharding struct {
	Count     int
	Separator string
	pattern   *regexp.Regexp // of Separator; nil when Separator has no special characters
}

// PartitionKey computes partition keys. The zero PartitionKey is the plugin's PersistenceIdBased, its default since version 1.12: it keeps all rows of an id
// in one shard, and the key is the prefix of the id and a shard from 1 to Count, computed from the MD5 of the id. The functions are called from many goroutines at once.
// They return an error for an id for which the plugin could not compute the key either.
type PartitionKey struct {
	Key func(id annals.PersistenceID, n annals.SeqNr, s Sharding) (string, error)
	// Keys returns all keys that Key can return for id; a read by key queries all of them. nil: reads go through the index.
	Keys func(id annals.PersistenceID, s Sharding) ([]string, error)
}

// SortKey computes sort keys. The zero SortKey is the plugin's default, PersistenceIdWithSeqNr: the second part of the id and the number in 19 digits.
type SortKey struct {
	Key func(id annals.PersistenceID, n annals.SeqNr, s Sharding) (string, error)
	// Ordered says that the keys of one id sort like their numbers, so that a range of numbers is a range of keys. If it is false,
	// reads go through the index.
	Ordered bool
	number  bool // the sort key is the number column
}

// The resolvers of the zero PartitionKey and the zero SortKey.
var (
	idBased = PartitionKey{Key: idPartition, Keys: func(id annals.PersistenceID, s Sharding) ([]string, error) {
		key, err := idPartition(id, 0, s)
		return []string{key}, err
	}}
	idAndNumber = SortKey{Key: idSort, Ordered: true}
)

// The plugin's other resolvers, and two variants.
var (
	// SequenceNumberBased distributes the events of an id over all shards. It is the default of the versions 1.1 to 1.11.
	SequenceNumberBased = PartitionKey{Key: numberPartition, Keys: func(id annals.PersistenceID, s Sharding) ([]string, error) {
		if s.Count > maxShards {
			return nil, fmt.Errorf("%d shards: a read queries all of them, so at most %d are allowed", s.Count, maxShards)
		}
		keys := make([]string, s.Count)
		for shard := range keys {
			keys[shard] = string(id) + "-" + strconv.Itoa(shard)
		}
		return keys, nil
	}}

	// BySeqNr is the number without padding: what the plugin writes.
	BySeqNr = SortKey{Key: func(_ annals.PersistenceID, n annals.SeqNr, _ Sharding) (string, error) {
		return strconv.FormatInt(int64(n), 10), nil
	}}
	// BySeqNrPadded is the number in 19 digits: what the plugin's documentation shows.
	BySeqNrPadded = SortKey{Key: func(_ annals.PersistenceID, n annals.SeqNr, _ Sharding) (string, error) { return padded(n), nil }, Ordered: true}
	// ByNumber is the sort key of the versions 1.0.0 to 1.0.22: the number column itself. It is used with SequenceNumberBased.
	ByNumber = SortKey{Key: BySeqNr.Key, Ordered: true, number: true}
)

// maxShards is the most shards if the events of an id are in all of them.
const maxShards = 10_000

func numberPartition(id annals.PersistenceID, n annals.SeqNr, s Sharding) (string, error) {
	return string(id) + "-" + strconv.FormatInt(int64(n)%int64(s.Count), 10), nil
}

func idPartition(id annals.PersistenceID, _ annals.SeqNr, s Sharding) (string, error) {
	shard := fmt.Sprintf("%040d", shardOf(id, s.Count))
	pieces, divided := split(string(id), s)
	if !divided {
		return shard, nil
	}
	if len(pieces) == 0 {
		return "", fmt.Errorf("the id has no part before %q", s.Separator)
	}
	return pieces[0] + "-" + shard, nil
}

// shardOf returns |h| mod count + 1, where h is the MD5 of the reversed id as a signed big-endian number.
func shardOf(id annals.PersistenceID, count int) uint64 {
	runes := []rune(string(id))
	slices.Reverse(runes)
	sum := md5.Sum([]byte(string(runes)))
	h := new(big.Int).SetBytes(sum[:])
	if sum[0] > 127 { // negative
		h.Sub(new(big.Int).Lsh(big.NewInt(1), 128), h)
	}
	return h.Mod(h, big.NewInt(int64(count))).Uint64() + 1
}

func idSort(id annals.PersistenceID, n annals.SeqNr, s Sharding) (string, error) {
	pieces, divided := split(string(id), s)
	if !divided {
		return padded(n), nil
	}
	if len(pieces) < 2 {
		return "", fmt.Errorf("the id has no part after %q", s.Separator)
	}
	return pieces[1] + "-" + padded(n), nil
}

func padded(n annals.SeqNr) string { return fmt.Sprintf("%019d", int64(n)) }

// resolver computes the keys of one table.
type resolver struct {
	partition, sort string // attributes
	partitionKey    PartitionKey
	sortKey         SortKey
	sharding        Sharding
}

func newResolver(p PartitionKey, s SortKey, sharding Sharding) (resolver, error) {
	var faults []error
	if p.Key == nil && p.Keys != nil || s.Key == nil && s.Ordered {
		faults = append(faults, errors.New("a resolver has no Key"))
	}
	if p.Key == nil {
		p = idBased
	}
	if s.Key == nil {
		s = idAndNumber
	}
	if sharding.Count < 1 {
		faults = append(faults, fmt.Errorf("the shard count is %d", sharding.Count))
	}
	var err error
	if sharding.pattern, err = pattern(sharding.Separator); err != nil {
		faults = append(faults, fmt.Errorf("the separator %q: %w", sharding.Separator, err))
	}
	if p.Keys != nil && sharding.Count > 0 {
		if _, err := p.Keys("sample", sharding); err != nil {
			faults = append(faults, err)
		}
	}
	return resolver{partitionKey: p, sortKey: s, sharding: sharding}, errors.Join(faults...)
}

// legacyResolver is the resolver of the snapshot table before version 1.9, whose keys are the id and the number.
func legacyResolver(c SnapshotColumns) resolver {
	return resolver{
		partition: c.PersistenceID, sort: c.SequenceNr,
		partitionKey: PartitionKey{
			Key:  func(id annals.PersistenceID, _ annals.SeqNr, _ Sharding) (string, error) { return string(id), nil },
			Keys: func(id annals.PersistenceID, _ Sharding) ([]string, error) { return []string{string(id)}, nil },
		},
		sortKey: ByNumber,
	}
}

// ordered reports whether reads by key are possible.
func (r resolver) ordered() bool { return r.partitionKey.Keys != nil && r.sortKey.Ordered }

// key returns the key of row n of id.
func (r resolver) key(id annals.PersistenceID, n annals.SeqNr) (plan.Item, error) {
	p, err := r.partitionKey.Key(id, n, r.sharding)
	if err != nil {
		return nil, &annals.Error{Kind: annals.ErrInvalid, Err: err}
	}
	s, err := r.sortValue(id, n)
	if err != nil {
		return nil, &annals.Error{Kind: annals.ErrInvalid, Err: err}
	}
	if err := keyFault(p, s); err != nil {
		return nil, err
	}
	return plan.Item{r.partition: plan.S(p), r.sort: s}, nil
}

// keyFault is ErrInvalid for a key that DynamoDB does not take.
func keyFault(partition string, sort types.AttributeValue) error {
	if len(partition) > maxPartitionKey {
		return plan.Misfit("the partition key has %d bytes, DynamoDB takes %d", len(partition), maxPartitionKey)
	}
	if s, ok := sort.(*types.AttributeValueMemberS); ok && len(s.Value) > maxSortKey {
		return plan.Misfit("the sort key has %d bytes, DynamoDB takes %d", len(s.Value), maxSortKey)
	}
	return nil
}

// maxID returns how many bytes an id may have, as far as its length decides: where keys contain the id, less than a key. With a
// separator in the id a key contains a part of it, and keyFault decides.
func (r resolver) maxID() int {
	const sample = "sample"
	most := maxPartitionKey
	limit := func(key string, max int) {
		if strings.Contains(key, sample) {
			most = min(most, max-len(key)+len(sample))
		}
	}
	if p, err := r.partitionKey.Key(sample, annals.MaxSeqNr, r.sharding); err == nil {
		limit(p, maxPartitionKey)
	}
	if r.partitionKey.Keys != nil {
		keys, _ := r.partitionKey.Keys(sample, r.sharding)
		for _, p := range keys {
			limit(p, maxPartitionKey)
		}
	}
	if s, err := r.sortKey.Key(sample, annals.MaxSeqNr, r.sharding); err == nil && !r.sortKey.number {
		limit(s, maxSortKey)
	}
	return most
}

func (r resolver) sortValue(id annals.PersistenceID, n annals.SeqNr) (types.AttributeValue, error) {
	if r.sortKey.number {
		return plan.N(n), nil
	}
	s, err := r.sortKey.Key(id, n, r.sharding)
	return plan.S(s), err
}

// shards returns the partition keys that the rows from … to of id can have.
func (r resolver) shards(id annals.PersistenceID, from, to annals.SeqNr) ([]string, error) {
	keys, err := r.partitionKey.Keys(id, r.sharding)
	if err != nil || annals.SeqNr(len(keys)) <= to-from {
		return keys, err
	}
	few := make([]string, 0, to-from+1)
	for n := from; ; n++ {
		key, err := r.partitionKey.Key(id, n, r.sharding)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(few, key) {
			few = append(few, key)
		}
		if n == to {
			return few, nil
		}
	}
}

// split divides an id as the JVM does: if the id contains the separator literally, the separator as a regular expression divides the id, and
// empty pieces at the end are dropped.
func split(id string, s Sharding) (pieces []string, divided bool) {
	if !strings.Contains(id, s.Separator) {
		return nil, false
	}
	if s.pattern == nil {
		pieces = strings.Split(id, s.Separator)
	} else {
		pieces = s.pattern.Split(id, -1)
	}
	for len(pieces) > 0 && pieces[len(pieces)-1] == "" {
		pieces = pieces[:len(pieces)-1]
	}
	return pieces, true
}

// pattern compiles a separator. It returns nil for one without special characters.
func pattern(separator string) (*regexp.Regexp, error) {
	if regexp.QuoteMeta(separator) == separator {
		return nil, nil
	}
	return regexp.Compile(separator)
}
