package commit

import (
	"bytes"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/dynamostore/internal/timeline"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// record is an item of an entity: a commit with all, some or none of its events, or a snapshot.
type record struct {
	id       annals.PersistenceID
	seq      annals.SeqNr // the number of the first event, or the number of the snapshot
	snapshot bool
	count    annals.SeqNr
	from     annals.SeqNr // the number of the first event that is not deleted
	at       time.Time
	write    annals.WriteID // zero for a tombstone written by SkipTo
	gone     bool           // this is the tombstone of a snapshot
	save     []byte         // id of the snapshot's save
	parts    int            // number of further items that hold the snapshot's data
	item     plan.Item
}

// last returns the number of the commit's last event, deleted or not.
func (r record) last() annals.SeqNr { return r.seq + r.count - 1 }

// deleted reports whether any event of the commit is deleted.
func (r record) deleted() bool { return r.from > r.seq }

// tombstone reports whether all events of the commit are deleted.
func (r record) tombstone() bool { return r.from > r.last() }

// lastNumber is the highest number of an event, so that the next number does not overflow.
const lastNumber = annals.MaxSeqNr - 1

func read(id annals.PersistenceID, it plan.Item) (record, error) {
	n, half, err := place(it)
	if err == nil && n < 1 {
		err = errors.New("no event has that number")
	}
	if err != nil {
		return record{}, corrupt(n, &ability.Damage{Code: ability.Key, From: max(n, 0), To: max(n, 0), Err: err})
	}
	d := decode(it)
	if err := d.readable(fmt.Sprintf("the item at %d", n)); err != nil {
		return record{}, err
	}
	r := record{id: id, seq: n, snapshot: half, from: n, at: d.Time(attrTime), item: it}
	if half {
		r.gone = d.Flag(attrDeleted)
		r.save = d.bytes(attrSave, saveBytes)
		parts, _ := d.Number(attrParts, 1, maxParts)
		r.parts = int(parts)
	} else {
		count := d.Required(attrCount, 1, int64(lastNumber-n)+1)
		r.count = annals.SeqNr(count)
		if from, ok := d.Number(attrFrom, int64(n), int64(n)+count); ok {
			r.from = annals.SeqNr(from)
		}
		copy(r.write[:], d.bytes(attrWrite, len(r.write)))
	}
	if d.Fault != nil {
		return record{}, corrupt(n, damaged(half, n, d.Fault))
	}
	return r, nil
}

// list returns the events that are not deleted, as they are stored.
func (r record) list() ([]types.AttributeValue, error) {
	if r.tombstone() {
		return nil, nil
	}
	list, ok := r.item[attrEvents].(*types.AttributeValueMemberL)
	if !ok || annals.SeqNr(len(list.Value)) != r.last()-r.from+1 {
		return nil, corrupt(r.seq, &ability.Damage{Code: ability.Incomplete, From: r.from, To: r.last(), Err: fmt.Errorf("the commit does not hold the events %d to %d", r.from, r.last())})
	}
	return list.Value, nil
}

// events appends the events from … to that are not deleted.
func (r record) events(all []annals.Event, from, to annals.SeqNr) ([]annals.Event, error) {
	list, err := r.list()
	if err != nil {
		return all, err
	}
	for n := max(from, r.from); n <= min(to, r.last()); n++ {
		m, ok := list[n-r.from].(*types.AttributeValueMemberM)
		if !ok {
			return all, corrupt(n, damaged(false, n, errors.New("the event is not a map")))
		}
		d := decode(m.Value)
		e := annals.Event{ID: r.id, SeqNr: n, Time: r.at, Payload: d.payload(), Tags: d.Texts(attrTags), Metadata: d.meta(), Adapter: d.Text(attrAdapter), WriteID: r.write}
		if at := d.Time(attrTime); !at.IsZero() {
			e.Time = at
		}
		if d.Fault != nil {
			return all, corrupt(n, damaged(false, n, d.Fault))
		}
		all = append(all, e)
	}
	return all, nil
}

// wrote reports whether w has written an item.
func wrote(it plan.Item, w annals.WriteID) bool {
	b, ok := plan.Bytes(it, attrWrite)
	return ok && bytes.Equal(b, w[:])
}

// isCommit reports whether an item is a commit or its tombstone. These exist until the entity is forgotten, snapshots do not.
func isCommit(it plan.Item) bool { return it[attrCount] != nil }

func (t *table) commitItem(c annals.Commit, now time.Time) plan.Item {
	list := make([]types.AttributeValue, len(c.Events))
	for i := range c.Events {
		m := eventMap(&c.Events[i])
		if t.index == "" && !c.Events[i].Time.IsZero() {
			m[attrTime] = plan.Micros(c.Events[i].Time)
		}
		list[i] = plan.M(m)
	}
	it := key(c.ID, c.After+1)
	it[attrFormat] = plan.N(format)
	it[attrWrite] = plan.B(c.WriteID[:])
	it[attrTime] = plan.Micros(now)
	it[attrCount] = plan.N(len(list))
	it[attrEvents] = plan.L(list...)
	if t.index != "" {
		it[attrFeed] = plan.S(timeline.EventsKey(c.ID))
	}
	return it
}

func eventMap(e *annals.NewEvent) plan.Item {
	m := plan.Item{}
	putPayload(m, e.Payload)
	putTags(m, e.Tags)
	putMeta(m, e.Metadata)
	if e.Adapter != "" {
		m[attrAdapter] = plan.S(e.Adapter)
	}
	return m
}

// putPayload stores text as a string, so that JSON is readable in the console, and other data as bytes.
func putPayload(m plan.Item, p annals.Payload) {
	m[attrSerializer] = plan.N(p.SerializerID)
	if p.Manifest != "" {
		m[attrManifest] = plan.S(p.Manifest)
	}
	switch {
	case len(p.Data) == 0:
	case utf8.Valid(p.Data) && bytes.IndexByte(p.Data, 0) < 0:
		m[attrData] = plan.S(string(p.Data))
	default:
		m[attrData] = plan.B(p.Data)
	}
}

func putTags(m plan.Item, tags []string) {
	if len(tags) > 0 {
		m[attrTags] = plan.Texts(tags)
	}
}

func putMeta(m plan.Item, p annals.Payload) {
	if p.SerializerID == 0 {
		return
	}
	meta := plan.Item{}
	putPayload(meta, p)
	m[attrMeta] = plan.M(meta)
}

// damaged is the damage of an item: that of a snapshot, or of a commit or an event in it.
func damaged(snapshot bool, n annals.SeqNr, err error) error {
	code := ability.Unreadable
	if snapshot {
		code = ability.Snapshot
	}
	return &ability.Damage{Code: code, From: n, To: n, Err: err}
}

func corrupt(n annals.SeqNr, err error) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("at %d: %w", n, err)}
}
