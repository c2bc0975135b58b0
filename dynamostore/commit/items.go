package commit

import (
	"bytes"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// record is an item of an entity's journal: a commit, whole, cut or stripped to a tombstone, or a snapshot.
type record struct {
	id       annals.PersistenceID
	seq      annals.SeqNr // of the first event; of a snapshot the number it covers
	snapshot bool
	count    annals.SeqNr
	from     annals.SeqNr // the first number still held
	at       time.Time
	write    annals.WriteID // zero for a tombstone that SkipTo wrote
	item     plan.Item
}

// last is the number of the commit's last event, deleted or not.
func (r record) last() annals.SeqNr { return r.seq + r.count - 1 }

// deleted reports whether events of the commit are gone.
func (r record) deleted() bool { return r.from > r.seq }

func read(id annals.PersistenceID, it plan.Item) (record, error) {
	n, half, err := place(it)
	if err != nil {
		return record{}, corrupt(n, err)
	}
	if v, _ := plan.Number(it, attrFormat); v > format {
		return record{}, &annals.Error{Kind: annals.ErrUnsupported, Err: fmt.Errorf("the item at %d has format %d, this version reads %d", n, v, format)}
	}
	r := record{id: id, seq: n, snapshot: half, from: n, at: plan.Time(it, attrTime), item: it}
	if half {
		return r, nil
	}
	count, ok := plan.Number(it, attrCount)
	if !ok || count < 1 {
		return record{}, corrupt(n, errors.New("the commit does not say how many events it has"))
	}
	r.count = annals.SeqNr(count)
	if from, ok := plan.Number(it, attrFrom); ok {
		r.from = annals.SeqNr(from)
	}
	write, _ := plan.Bytes(it, attrWrite)
	copy(r.write[:], write)
	return r, nil
}

// events calls yield for the events still held whose numbers lie within from and to, until it returns false.
func (r record) events(from, to annals.SeqNr, yield func(annals.Event) bool) (more bool, err error) {
	if r.from > r.last() {
		return true, nil
	}
	list, ok := r.item[attrEvents].(*types.AttributeValueMemberL)
	if !ok || annals.SeqNr(len(list.Value)) != r.last()-r.from+1 {
		return false, corrupt(r.seq, fmt.Errorf("the commit does not hold the events %d to %d", r.from, r.last()))
	}
	for n := max(from, r.from); n <= min(to, r.last()); n++ {
		m, ok := list.Value[n-r.from].(*types.AttributeValueMemberM)
		if !ok {
			return false, corrupt(n, errors.New("the event is not a map"))
		}
		e := annals.Event{ID: r.id, SeqNr: n, Time: r.at, Payload: payload(m.Value), Tags: tags(m.Value), WriteID: r.write}
		if at := plan.Time(m.Value, attrTime); !at.IsZero() {
			e.Time = at
		}
		if meta, ok := m.Value[attrMeta].(*types.AttributeValueMemberM); ok {
			e.Metadata = payload(meta.Value)
		}
		e.Adapter, _ = plan.Text(m.Value, attrAdapter)
		if !yield(e) {
			return false, nil
		}
	}
	return true, nil
}

// wrote reports whether item was written by w.
func wrote(it plan.Item, w annals.WriteID) bool {
	b, ok := plan.Bytes(it, attrWrite)
	return ok && bytes.Equal(b, w[:])
}

// isCommit tells commits and their tombstones, which stay until an entity is forgotten. Snapshots come and go.
func isCommit(it plan.Item) bool { return it[attrCount] != nil }

func (t *table) commitItem(c annals.Commit, now time.Time) plan.Item {
	list := make([]types.AttributeValue, len(c.Events))
	for i := range c.Events {
		m := eventMap(&c.Events[i])
		if t.index == "" && !c.Events[i].Time.IsZero() {
			m[attrTime] = plan.Micros(c.Events[i].Time)
		}
		list[i] = &types.AttributeValueMemberM{Value: m}
	}
	it := key(c.ID, c.After+1)
	it[attrFormat] = plan.N(format)
	it[attrWrite] = plan.B(c.WriteID[:])
	it[attrTime] = plan.Micros(now)
	it[attrCount] = plan.N(len(list))
	it[attrEvents] = &types.AttributeValueMemberL{Value: list}
	if t.index != "" {
		it[attrFeed] = plan.S(commitFeed(c.ID.Type(), group(c.ID)))
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

// putPayload stores text as a string, so that JSON can be read in the console, and everything else as bytes.
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

func payload(m plan.Item) annals.Payload {
	s, _ := plan.Number(m, attrSerializer)
	p := annals.Payload{SerializerID: int32(s)}
	p.Manifest, _ = plan.Text(m, attrManifest)
	if text, ok := plan.Text(m, attrData); ok {
		p.Data = []byte(text)
	} else {
		p.Data, _ = plan.Bytes(m, attrData)
	}
	return p
}

func putTags(m plan.Item, tags []string) {
	if len(tags) == 0 {
		return
	}
	list := make([]types.AttributeValue, len(tags))
	for i, tag := range tags {
		list[i] = plan.S(tag)
	}
	m[attrTags] = &types.AttributeValueMemberL{Value: list}
}

func tags(m plan.Item) []string {
	list, ok := m[attrTags].(*types.AttributeValueMemberL)
	if !ok {
		return nil
	}
	all := make([]string, 0, len(list.Value))
	for _, v := range list.Value {
		if s, ok := v.(*types.AttributeValueMemberS); ok {
			all = append(all, s.Value)
		}
	}
	return all
}

func putMeta(m plan.Item, p annals.Payload) {
	if p.SerializerID == 0 {
		return
	}
	meta := plan.Item{}
	putPayload(meta, p)
	m[attrMeta] = &types.AttributeValueMemberM{Value: meta}
}

func corrupt(n annals.SeqNr, err error) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("at %d: %w", n, err)}
}

func mapOf(it plan.Item, name string) (plan.Item, bool) {
	m, ok := it[name].(*types.AttributeValueMemberM)
	if !ok {
		return nil, false
	}
	return m.Value, true
}
