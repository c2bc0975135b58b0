package dynamo

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strconv"
)

// shards are those of one stream. The records of an item are in the shard that has the hash of its partition key.
type shards struct {
	arn         string
	description map[string]json.RawMessage
	hash        string // the attribute with the partition key
	iterator    string // the server's
	all         []*shard
	waiting     []streamRecord // in no shard yet
	last        int            // the number of the last record, shard or end of a shard
}

// shard is a shard with the hashes from ≤ h < to.
type shard struct {
	id, parent string
	from, to   uint64
	start, end string // sequence numbers; end is "" while the shard is open
	records    []streamRecord
	trimmed    int    // records that were removed
	trim       string // the sequence number of the last of them
	removed    bool   // the shard itself
}

type streamRecord struct {
	item     string // its key
	hash     uint64 // of its partition key
	fields   map[string]json.RawMessage
	change   map[string]json.RawMessage // the field "dynamodb"
	sequence string
	data     json.RawMessage
}

const hashes = 1 << 32

func (s *shards) begin(n int) {
	for i := range uint64(n) {
		s.grow("", hashes*i/uint64(n), hashes*(i+1)/uint64(n))
	}
}

func (s *shards) grow(parent string, from, to uint64) {
	start := s.next()
	s.all = append(s.all, &shard{id: fmt.Sprintf("shardId-%020d-%08x", s.last, from), parent: parent, from: from, to: to, start: start})
}

// next returns the next sequence number. As those of the service, it is larger than 64 bits.
func (s *shards) next() string {
	s.last++
	return fmt.Sprintf("1%025d", s.last)
}

func (s *shards) find(id string) *shard {
	i := slices.IndexFunc(s.all, func(sh *shard) bool { return sh.id == id })
	if i < 0 {
		return nil
	}
	return s.all[i]
}

func (s *shards) split(children int) {
	for _, sh := range slices.Clone(s.all) {
		if sh.end != "" {
			continue
		}
		sh.end = s.next()
		for i := range uint64(children) {
			s.grow(sh.id, sh.from+(sh.to-sh.from)*i/uint64(children), sh.from+(sh.to-sh.from)*(i+1)/uint64(children))
		}
	}
}

func (s *shards) trim(keep int) {
	young := map[string]bool{} // the open shards and their parents
	for _, sh := range s.all {
		if sh.end == "" {
			young[sh.id], young[sh.parent] = true, true
		}
	}
	for _, sh := range s.all {
		n := len(sh.records)
		if young[sh.id] {
			n -= keep
		}
		if n > 0 {
			sh.trimmed, sh.trim = sh.trimmed+n, sh.records[n-1].sequence
			sh.records = sh.records[n:]
		}
		sh.removed = sh.end != "" && len(sh.records) == 0
	}
}

// add takes a record of the server.
func (s *shards) add(fields map[string]json.RawMessage) error {
	r := streamRecord{fields: fields}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(fields["dynamodb"], &r.change); err != nil {
		return err
	}
	if err := json.Unmarshal(r.change["Keys"], &keys); err != nil {
		return err
	}
	item, err := json.Marshal(keys) // in the order of the names
	r.item, r.hash = string(item), uint64(crc32.ChecksumIEEE(keys[s.hash]))
	s.waiting = append(s.waiting, r)
	return err
}

// release puts waiting records into their shards: all, or, to reorder them, some of them in any order. Those of one item keep their order.
func (s *shards) release(reorder bool) error {
	n := len(s.waiting)
	if reorder && n > 0 {
		ofItem := map[string][]streamRecord{}
		for _, r := range s.waiting {
			ofItem[r.item] = append(ofItem[r.item], r)
		}
		rand.Shuffle(n, func(i, k int) { s.waiting[i], s.waiting[k] = s.waiting[k], s.waiting[i] })
		for i, r := range s.waiting {
			s.waiting[i], ofItem[r.item] = ofItem[r.item][0], ofItem[r.item][1:]
		}
		n = 1 + rand.IntN(n)
	}
	for _, r := range s.waiting[:n] {
		i := slices.IndexFunc(s.all, func(sh *shard) bool { return sh.end == "" && sh.from <= r.hash && r.hash < sh.to })
		r.sequence = s.next()
		r.change["SequenceNumber"] = json.RawMessage(strconv.Quote(r.sequence))
		var err error
		if r.fields["dynamodb"], err = json.Marshal(r.change); err != nil {
			return err
		}
		if r.data, err = json.Marshal(r.fields); err != nil {
			return err
		}
		s.all[i].records = append(s.all[i].records, r)
	}
	s.waiting = slices.Clone(s.waiting[n:])
	return nil
}

func (sh *shard) describe() map[string]any {
	sequences := map[string]any{"StartingSequenceNumber": sh.start}
	if sh.end != "" {
		sequences["EndingSequenceNumber"] = sh.end
	}
	d := map[string]any{"ShardId": sh.id, "SequenceNumberRange": sequences}
	if sh.parent != "" {
		d["ParentShardId"] = sh.parent
	}
	return d
}

// position returns how many records of the shard an iterator leaves out.
func (sh *shard) position(kind, sequence string) (int, error) {
	switch kind {
	case "TRIM_HORIZON":
		return sh.trimmed, nil
	case "LATEST":
		return sh.trimmed + len(sh.records), nil
	case "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER":
	default:
		return 0, refusal("ValidationException")
	}
	switch {
	case len(sequence) != len(sh.start) || sequence < sh.start || sh.end != "" && sequence > sh.end:
		return 0, refusal("ValidationException")
	case sequence <= sh.trim:
		return 0, refusal("TrimmedDataAccessException")
	}
	n := sh.trimmed
	for _, r := range sh.records {
		if r.sequence < sequence || r.sequence == sequence && kind == "AFTER_SEQUENCE_NUMBER" {
			n++
		}
	}
	return n, nil
}
