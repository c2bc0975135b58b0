package subscription

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The attributes of the items.
const (
	attrName     = "name" // the hash key
	attrItem     = "item" // the range key
	attrWrite    = "write"
	attrFilter   = "filter"
	attrStream   = "stream"
	attrRound    = "round"
	attrListed   = "listed"
	attrLease    = "lease"
	attrShard    = "shard"
	attrParent   = "parent"
	attrOwner    = "owner"
	attrPosition = "position"
	attrSince    = "since"
	attrEnded    = "ended"
	attrSeq      = "seq"
	attrTime     = "time"
	attrGaps     = "gaps"
	attrBorn     = "born"
	attrID       = "id"
	attrError    = "error"
)

// Range keys. The items of a subscription are read in their order: the head comes first.
const (
	itemHead  = "head"
	itemLoop  = "loop "
	itemShard = "shard "
	itemID    = "id "
	itemHash  = "sha256 "
)

const (
	maxName = 1000 // bytes in the name of a subscription; a hash key has up to 2,048
	maxItem = 1024 // bytes in a range key
)

// Table describes a table of subscriptions.
func Table(name string) plan.Table {
	return plan.Table{Name: name, Hash: plan.Key{Name: attrName}, Range: plan.Key{Name: attrItem}}
}

// own is the hash key of the items of a subscription, but for those of entities. It ends with "#", that of marks with a digit, and that of parked
// entities with a letter, so they differ whatever the names are.
func own(name string) string { return name + "#" }

func key(name, item string) plan.Item {
	return plan.Item{attrName: plan.S(own(name)), attrItem: plan.S(item)}
}

// newWrite is the value of attrWrite for one write.
func newWrite() string { return rand.Text()[:16] }

// head is the item that the loops of a subscription have in common.
type head struct {
	filter string // of all loops
	stream string // the ARN
	// round counts how often the subscription began to catch up. The shards of earlier rounds are void.
	round  int64
	listed time.Time // before this time the shards of the stream were listed, and all of them stored; long ago when a new round is ordered
	write  string    // changes with each write
}

func (h head) item(name string) plan.Item {
	it := key(name, itemHead)
	it[attrFilter], it[attrStream], it[attrRound] = plan.S(h.filter), plan.S(h.stream), plan.N(h.round)
	it[attrListed], it[attrWrite] = plan.Micros(h.listed), plan.S(h.write)
	return it
}

// member is a loop.
type member struct {
	lease time.Duration
	round int64  // that the loop knows of; 0 is none. It holds no shards of earlier rounds
	write string // changes with each sign of life
}

func (m member) item(name, id string) plan.Item {
	it := key(name, itemLoop+id)
	it[attrLease], it[attrRound], it[attrWrite] = plan.N(m.lease.Milliseconds()), plan.N(m.round), plan.S(m.write)
	return it
}

// shard is a part of the work, which one loop does at a time: a shard of the stream, or a part of the catch-up.
type shard struct {
	round    int64
	id       string    // of the stream's shard, or catchUp with the number of the part
	parent   string    // the shard that has to be ended before this one begins; catchUp is all parts of the catch-up; "" is none
	since    time.Time // the shard has no records from before this time that have to be read
	owner    string    // a loop; "" is none
	position string    // of the last record up to which everything is acknowledged; "" is none
	ended    bool      // everything is acknowledged, and nothing will follow
	write    string    // changes with each write
}

// catchUp is the first part of the ids of parts of the catch-up.
const catchUp = "catch-up"

// parts is into how many parts the catch-up is divided.
const parts = 8

// part is the number of a part of the catch-up; false for a shard of the stream.
func (s shard) part() (n int, ok bool) {
	text, ok := strings.CutPrefix(s.id, catchUp+" ")
	n, err := strconv.Atoi(text)
	return n, ok && err == nil
}

func (s shard) key(name string) plan.Item {
	return key(name, fmt.Sprintf("%s%012d %s", itemShard, s.round, s.id))
}

func (s shard) item(name string) plan.Item {
	it := s.key(name)
	it[attrRound], it[attrShard], it[attrSince], it[attrWrite] = plan.N(s.round), plan.S(s.id), plan.Micros(s.since), plan.S(s.write)
	for attribute, text := range map[string]string{attrParent: s.parent, attrOwner: s.owner, attrPosition: s.position} {
		if text != "" {
			it[attribute] = plan.S(text)
		}
	}
	if s.ended {
		it[attrEnded] = plan.Bool(true)
	}
	return it
}

// view is what is stored of a subscription, but for the progress of entities.
type view struct {
	head   *head // nil: nothing is stored
	loops  map[string]member
	shards []shard     // of the round of head, in the order of their ids
	parts  int         // how many of them are parts of the catch-up of that round
	void   []plan.Item // the keys of shards of earlier rounds
}

// load reads the view of the subscription name. The parts of the catch-up are stored with the head, in one transaction, and stay as long as their
// round. When some are missing, the read may have seen a part of that transaction.
func load(ctx context.Context, x plan.Executor, table, name string) (v view, err error) {
	err = plan.Whole(ctx, func() (missing, err error) {
		if v, err = read(ctx, x, table, name); v.head != nil && v.parts != parts {
			missing = corrupt(fmt.Errorf("%d of %d parts of the catch-up of the subscription %s are there", v.parts, parts, quote.Text(name)))
		}
		return missing, err
	})
	return v, err
}

// read reads the view once.
func read(ctx context.Context, x plan.Executor, table, name string) (view, error) {
	v := view{loops: map[string]member{}}
	for it, err := range x.Query(ctx, plan.Query{Table: table, Hash: own(name)}) {
		if err == nil {
			err = v.add(name, it)
		}
		if err != nil {
			return view{}, err
		}
	}
	return v, nil
}

func (v *view) add(name string, it plan.Item) error {
	d := plan.Decoder{Item: it}
	item := d.Text(attrItem)
	d.Require(attrWrite, attrRound)
	write, round := d.Text(attrWrite), d.Required(attrRound, 0, math.MaxInt64)
	loop, isLoop := strings.CutPrefix(item, itemLoop)
	switch {
	case item == itemHead:
		d.Require(attrStream, attrListed)
		v.head = &head{filter: d.Text(attrFilter), stream: d.Text(attrStream), round: round, listed: d.Time(attrListed), write: write}
	case isLoop:
		v.loops[loop] = member{lease: time.Duration(d.Required(attrLease, 1, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond, round: round, write: write}
	case strings.HasPrefix(item, itemShard):
		d.Require(attrShard, attrSince)
		s := shard{round: round, id: d.Text(attrShard), parent: d.Text(attrParent), since: d.Time(attrSince), owner: d.Text(attrOwner),
			position: d.Text(attrPosition), ended: d.Flag(attrEnded), write: write}
		switch {
		case v.head == nil || round < v.head.round:
			v.void = append(v.void, key(name, item))
		case round == v.head.round: // a later one has begun during the read
			v.shards = append(v.shards, s)
			if _, ok := s.part(); ok {
				v.parts++
			}
		}
	default:
		d.Wrong(attrItem)
	}
	if d.Fault != nil {
		return corrupt(fmt.Errorf("item %s of a subscription: %w", quote.Text(item), d.Fault))
	}
	return nil
}

func corrupt(err error) error { return &annals.Error{Kind: annals.ErrCorrupt, Err: err} }

// mark says up to which event an entity has been handled. The zero mark is before the first event.
type mark struct {
	seq  annals.SeqNr
	time time.Time // of the event: an entity that was forgotten and begins again has another time at this number
	born time.Time // of the event with number 1; zero: not known
	gaps bool      // numbers up to seq are unused, or may be, and the feed counts events
}

// known is what a reader knows of an entity.
type known struct {
	mark        // of the last event that was read
	stored mark // as the reader has read or stored it
}

// markOp stores the mark of k in place of the one that k has as stored.
func (s *Subscriptions) markOp(name string, id annals.PersistenceID, k known) plan.Op {
	op := plan.Op{Table: s.Table, Put: k.item(name, id), Condition: "attribute_not_exists(#seq)", Names: map[string]string{"#seq": attrSeq}}
	if k.seq == 0 {
		op.Put, op.Key, op.Delete = nil, entityKey(name, id), true
	}
	if k.stored.seq == 0 {
		return op
	}
	op.Condition, op.Values = "#seq = :seq", plan.Item{":seq": plan.N(k.stored.seq)}
	if !k.stored.time.IsZero() {
		op.Condition += " AND #time = :time"
		op.Names["#time"], op.Values[":time"] = attrTime, plan.Micros(k.stored.time)
	}
	return op
}

// same reports whether m and other are of the same event.
func (m mark) same(other mark) bool {
	return m.seq == other.seq && plan.KeyText(plan.Micros(m.time)) == plan.KeyText(plan.Micros(other.time))
}

// entityKey is the key of the mark of id. The marks of a subscription are in many partitions, since one partition takes 1,000 write units
// a second. An id that is too long for a key is hashed.
func entityKey(name string, id annals.PersistenceID) plan.Item {
	return plan.Item{attrName: plan.S(own(name) + strconv.Itoa(id.Slice())), attrItem: entityItem(id)}
}

func entityItem(id annals.PersistenceID) types.AttributeValue {
	item := itemID + string(id)
	if len(item) > maxItem {
		sum := sha256.Sum256([]byte(id))
		item = itemHash + hex.EncodeToString(sum[:])
	}
	return plan.S(item)
}

func (m mark) item(name string, id annals.PersistenceID) plan.Item {
	it := entityKey(name, id)
	it[attrSeq] = plan.N(m.seq)
	if !m.time.IsZero() {
		it[attrTime] = plan.Micros(m.time)
	}
	if !m.born.IsZero() {
		it[attrBorn] = plan.Micros(m.born)
	}
	if m.gaps {
		it[attrGaps] = plan.Bool(true)
	}
	return it
}

// loadMarks returns the stored marks of ids, which must differ. An id without one has the zero mark.
func loadMarks(ctx context.Context, x plan.Executor, table, name string, ids []annals.PersistenceID) (map[annals.PersistenceID]mark, error) {
	keys, byItem := make([]plan.Item, len(ids)), map[string]annals.PersistenceID{}
	for i, id := range ids {
		keys[i] = entityKey(name, id)
		byItem[plan.KeyText(keys[i][attrItem])] = id
	}
	items, err := x.GetAll(ctx, table, keys)
	if err != nil {
		return nil, err
	}
	marks := make(map[annals.PersistenceID]mark, len(ids))
	for _, it := range items {
		d := plan.Decoder{Item: it}
		id := byItem[d.Text(attrItem)]
		marks[id] = mark{annals.SeqNr(d.Required(attrSeq, 1, math.MaxInt64)), d.Time(attrTime), d.Time(attrBorn), d.Flag(attrGaps)}
		if d.Fault != nil {
			return nil, &annals.Error{ID: id, Kind: annals.ErrCorrupt, Err: fmt.Errorf("the progress of a subscription: %w", d.Fault)}
		}
	}
	return marks, nil
}

var errLost = &annals.Error{Kind: annals.ErrFenced, Err: errors.New("the loop of the delivery has ended, or has lost the shard")}
