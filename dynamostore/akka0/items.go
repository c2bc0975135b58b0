package akka0

import (
	"fmt"
	"slices"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
	"github.com/annals-go/annals/internal/quote"
	"github.com/annals-go/annals/internal/writes"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The attributes of an event are payload, deleted and confirmations. Those of a counter is sequenceNr.
const (
	payloadName       = "payload"
	deletedName       = "deleted"
	confirmationsName = "confirmations"
	numberName        = "sequenceNr"
)

// Message is an event as the plugin stores it.
type Message struct {
	annals.Event
	Deleted       bool     // it was marked as deleted
	Confirmations []string // the channels that confirmed it, sorted
}

// eventItem returns the item of event n of c.
func (j *journal) eventItem(c annals.Commit, n annals.SeqNr, e *annals.NewEvent) plan.Item {
	it := j.event(c.ID, n)
	it[payloadName] = plan.B(akkawire.Akka23.Append(nil, akkawire.Record{Payload: e.Payload, SeqNr: n, ID: c.ID, Adapter: e.Adapter}))
	it[deletedName] = plan.S("false")
	return it
}

// message decodes the item of event n. An item without payload is no event: the plugin makes one when it updates an event that does not exist.
func (j *journal) message(id annals.PersistenceID, n annals.SeqNr, it plan.Item) (m Message, err error) {
	damaged := func(err error) error {
		return j.Corrupt(it, &ability.Damage{Code: ability.Unreadable, From: n, To: n, Err: err})
	}
	d := plan.Decoder{Item: it}
	payload := d.Bytes(payloadName)
	switch d.Text(deletedName) {
	case "true":
		m.Deleted = true
	case "false":
	default:
		d.Wrong(deletedName)
	}
	if v := it[confirmationsName]; v != nil {
		set, whole := v.(*types.AttributeValueMemberSS)
		if !whole {
			d.Wrong(confirmationsName)
		} else {
			m.Confirmations = slices.Sorted(slices.Values(set.Value))
		}
	}
	if d.Fault != nil {
		return m, damaged(d.Fault)
	}
	record, err := akkawire.ParseRecord(payload)
	if err != nil {
		return m, damaged(fmt.Errorf("attribute %q: %w", payloadName, err))
	}
	if record.ID != id || record.SeqNr != n {
		return m, damaged(fmt.Errorf("attribute %q is event %d of %s", payloadName, record.SeqNr, quote.Text(string(record.ID))))
	}
	m.Event = annals.Event{ID: id, SeqNr: n, Payload: record.Payload, Adapter: record.Adapter}
	m.WriteID, _ = writes.ParseID(record.Writer) // zero for the name of a foreign writer in another form
	return m, nil
}

// marked reports whether the event of an item is marked as deleted.
func marked(it plan.Item) bool {
	text, _ := plan.Text(it, deletedName)
	return text == "true"
}

// collision returns ErrInvalid when old, the item at the key of a put, is of another journal or id.
func (j *journal) collision(id annals.PersistenceID, put, old plan.Item) error {
	payload, event := plan.Bytes(old, payloadName)
	record, err := akkawire.ParseRecord(payload)
	switch {
	case old == nil:
		return nil
	case put[numberName] != nil && old[numberName] != nil:
		return nil // counters
	case put[payloadName] != nil && event && (err != nil || record.ID == id):
		return nil // events
	}
	return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("table %q: the item at the key %s is not of this id and journal", j.Table, quote.Text(plan.KeyText(old[keyName])))}
}
