package akka

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf16"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
	"github.com/annals-go/annals/internal/writes"
)

// Attributes of the journal table. An item with attrEvent is of the new format (1.2.0 and later), one with attrPay of the old format.
const (
	attrPar        = "par"
	attrNum        = "num"
	attrPay        = "pay"
	attrID         = "persistence_id"
	attrSeq        = "seq"
	attrEvent      = "event"
	attrSerializer = "ev_ser_id"
	attrManifest   = "ev_ser_manifest"
	attrWriter     = "writer_uuid"
	attrAdapter    = "manifest"
	attrIndex      = "idx" // position in the batch, from 0
	attrCount      = "cnt" // last position in the batch
)

// eventItem returns the item of event n of c.
func (j *journal) eventItem(c annals.Commit, n annals.SeqNr, e *annals.NewEvent) (plan.Item, error) {
	it := j.key(c.ID, n)
	if j.old {
		it[attrPay] = plan.B(akkawire.Akka24.Append(nil, akkawire.Record{Payload: e.Payload, SeqNr: n, ID: c.ID, Adapter: e.Adapter, Writer: c.WriteID.String()}))
	} else {
		it[attrID] = plan.S(string(c.ID))
		it[attrSeq] = plan.N(n)
		it[attrEvent] = plan.B(e.Data)
		it[attrSerializer] = plan.N(e.SerializerID)
		it[attrWriter] = plan.S(c.WriteID.String())
		putText(it, attrManifest, e.Manifest)
		putText(it, attrAdapter, e.Adapter)
	}
	if size := j.pluginSize(c.ID, it); size > maxPluginSize {
		return nil, &annals.Error{Kind: annals.ErrTooLarge, Err: fmt.Errorf("an event of %d bytes, the plugin takes %d", size, maxPluginSize)}
	}
	if last := len(c.Events) - 1; last > 0 {
		it[attrIndex], it[attrCount] = plan.N(int64(n-c.After)-1), plan.N(last)
	}
	return it, nil
}

func putText(it plan.Item, name, text string) {
	if text != "" {
		it[name] = plan.S(text)
	}
}

// maxPluginSize is the plugin's default for the size of an event, as pluginSize counts it.
const maxPluginSize = 400_000

// pluginSize returns the size of an event's item as the plugin estimates it.
func (j *journal) pluginSize(id annals.PersistenceID, it plan.Item) int {
	size := utf16Len(string(id)) + utf16Len(j.Name) + 26
	for _, name := range []string{attrPay, attrEvent} {
		data, _ := plan.Bytes(it, name)
		size += len(data)
	}
	for _, name := range []string{attrID, attrSeq, attrSerializer, attrManifest, attrWriter, attrAdapter} {
		size += len(plan.KeyText(it[name]))
	}
	return size
}

func utf16Len(s string) int { return len(utf16.Encode([]rune(s))) }

// row is the item of an event, with what its key and its batch say.
type row struct {
	n           annals.SeqNr
	first, last annals.SeqNr // of its batch; both are n for an event of its own
	item        plan.Item
}

// row returns the row of an item that a query of a group has found.
func (j *journal) row(group int64, it plan.Item) (row, error) {
	d := plan.Decoder{Item: it}
	n := annals.SeqNr(group*perGroup + d.Required(attrNum, 0, perGroup-1))
	r := row{n: n, first: n, last: n, item: it}
	if it[attrIndex] != nil || it[attrCount] != nil {
		count := d.Required(attrCount, 0, math.MaxInt64)
		index := d.Required(attrIndex, 0, min(count, int64(n)))
		r.first = n - annals.SeqNr(index)
		if r.last = r.first + annals.SeqNr(count); r.last < n { // overflow
			d.Wrong(attrCount)
		}
	}
	if d.Fault != nil {
		return row{}, j.Corrupt(it, &ability.Damage{Code: ability.Unreadable, From: n, To: n, Err: d.Fault})
	}
	return r, nil
}

// event decodes an item. live is false for an event that its writer has stored as deleted.
func (j *journal) event(id annals.PersistenceID, r row) (e annals.Event, live bool, err error) {
	d := plan.Decoder{Item: r.item}
	var record akkawire.Record
	if r.item[attrEvent] != nil || r.item[attrPay] == nil {
		d.Require(attrEvent, attrWriter, attrID)
		record = akkawire.Record{ID: annals.PersistenceID(d.Text(attrID)), SeqNr: annals.SeqNr(d.Required(attrSeq, 0, math.MaxInt64)),
			Payload: annals.Payload{SerializerID: int32(d.Required(attrSerializer, math.MinInt32, math.MaxInt32)), Manifest: d.Text(attrManifest), Data: d.Bytes(attrEvent)},
			Writer:  d.Text(attrWriter), Adapter: d.Text(attrAdapter)}
	} else if record, err = akkawire.ParseRecord(d.Bytes(attrPay)); err != nil {
		err = fmt.Errorf("attribute %q: %w", attrPay, err)
	}
	if err = cmp.Or(d.Fault, err); err == nil && (record.ID != id || record.SeqNr != r.n) {
		err = errors.New("the item has the event of another key")
	}
	if err != nil {
		return annals.Event{}, false, j.Corrupt(r.item, &ability.Damage{Code: ability.Unreadable, From: r.n, To: r.n, Err: err})
	}
	e = annals.Event{ID: id, SeqNr: r.n, Payload: record.Payload, Metadata: record.Metadata, Adapter: record.Adapter}
	if record.Timestamp > 0 {
		e.Time = time.UnixMilli(record.Timestamp).UTC()
	}
	e.WriteID, _ = writes.ParseID(record.Writer) // zero for the name of a foreign writer in another form
	return e, !record.Deleted, nil
}

// owner returns the id and the writer of an event's item, as far as they can be read.
func owner(it plan.Item) (id annals.PersistenceID, writer string) {
	if text, ok := plan.Text(it, attrID); ok {
		writer, _ = plan.Text(it, attrWriter)
		return annals.PersistenceID(text), writer
	}
	pay, _ := plan.Bytes(it, attrPay)
	record, err := akkawire.ParseRecord(pay)
	if err != nil {
		return "", ""
	}
	return record.ID, record.Writer
}
