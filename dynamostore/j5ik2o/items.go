package j5ik2o

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/akkawire"
	"github.com/annals-go/annals/internal/writes"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type attribute = types.AttributeValue

// eventItem returns the row of event n of c.
func (j *journal) eventItem(c annals.Commit, n annals.SeqNr, e *annals.NewEvent, now time.Time) (plan.Item, error) {
	it, err := j.row(akkawire.Record{Payload: e.Payload, SeqNr: n, ID: c.ID, Adapter: e.Adapter, Writer: c.WriteID.String(), Metadata: e.Metadata}, false, now)
	if err != nil {
		return nil, err
	}
	return it, putTags(it, j.columns.Tags, e.Tags, j.tagSeparator)
}

// row returns the row with the message r.
func (j *journal) row(r akkawire.Record, deleted bool, now time.Time) (plan.Item, error) {
	it, err := j.rows.Key(r.ID, r.SeqNr)
	if err != nil {
		return nil, err
	}
	it[j.columns.PersistenceID] = plan.S(string(r.ID))
	it[j.columns.SequenceNr] = plan.N(r.SeqNr)
	it[j.columns.Deleted] = plan.Bool(deleted)
	it[j.columns.Ordering] = plan.N(now.UnixMilli())
	it[j.columns.Message] = plan.B(r.Append(nil))
	return it, nil
}

// event decodes a row. live is false for a row that is flagged as deleted.
func (j *journal) event(it plan.Item) (e annals.Event, live bool, err error) {
	n, c := j.rows.NumberOf(it), j.columns
	damaged := func(err error) error {
		return j.rows.Corrupt(it, &ability.Damage{Code: ability.Unreadable, From: n, To: n, Err: err})
	}
	d := decode(it)
	d.Require(c.Deleted)
	if d.Flag(c.Deleted) {
		return annals.Event{SeqNr: n}, false, nil
	}
	d.Require(c.Message, c.Ordering)
	message, at, tags := d.Bytes(c.Message), d.millis(c.Ordering), tagsOf(d.Text(c.Tags), j.tagSeparator)
	if d.Fault != nil {
		return e, false, damaged(d.Fault)
	}
	record, err := akkawire.ParseRecord(message)
	if err != nil {
		return e, false, damaged(fmt.Errorf("column %q: %w", c.Message, err))
	}
	if id, _ := plan.Text(it, c.PersistenceID); record.SeqNr != n || string(record.ID) != id {
		return e, false, damaged(fmt.Errorf("column %q is the message of another event", c.Message))
	}
	if record.Deleted {
		return annals.Event{SeqNr: n}, false, nil
	}
	e = annals.Event{ID: record.ID, SeqNr: n, Time: at, Payload: record.Payload, Metadata: record.Metadata,
		Adapter: record.Adapter, Tags: tags}
	e.WriteID, _ = writes.ParseID(record.Writer) // zero for the name of a foreign writer in another form
	return e, true, nil
}

// putTags joins tags as the plugin does. A tag that contains the separator is refused, because it would be read as two tags. Without a
// separator there can be one tag.
func putTags(it plan.Item, column string, tags []string, separator string) error {
	if len(tags) == 0 {
		return nil
	}
	if separator == "" {
		if len(tags) > 1 {
			return plan.Misfit("%d tags, the table takes one", len(tags))
		}
		it[column] = plan.S(tags[0])
		return nil
	}
	if slices.ContainsFunc(tags, func(tag string) bool { return strings.Contains(tag, separator) }) {
		return plan.Misfit("a tag contains the separator %q", separator)
	}
	it[column] = plan.S(strings.Join(tags, separator))
	return nil
}

func tagsOf(joined, separator string) []string {
	switch {
	case joined == "":
		return nil
	case separator == "":
		return []string{joined}
	}
	tags := strings.Split(joined, separator)
	for len(tags) > 0 && tags[len(tags)-1] == "" {
		tags = tags[:len(tags)-1]
	}
	return tags
}

// metadata is an attribute of this package, on snapshots and states that have metadata. The plugin keeps none and ignores it.
const metadata = "annals-metadata"

func putMetadata(it plan.Item, p annals.Payload) {
	if p.SerializerID != 0 {
		it[metadata] = plan.B(akkawire.AppendSnapshot(nil, p))
	}
}

// decoder reads a row.
type decoder struct{ plan.Decoder }

func decode(it plan.Item) decoder { return decoder{plan.Decoder{Item: it}} }

// millis returns a time in milliseconds since 1970.
func (d *decoder) millis(column string) time.Time {
	d.Number(column, math.MinInt64, math.MaxInt64)
	return millis(d.Item, column)
}

// metadata returns the zero Payload when there is none.
func (d *decoder) metadata() annals.Payload {
	data := d.Bytes(metadata)
	if data == nil {
		return annals.Payload{}
	}
	p, err := akkawire.ParseSnapshot(data)
	if err != nil {
		d.Wrong(metadata)
	}
	return p
}

func millis(it plan.Item, column string) time.Time {
	n, ok := plan.Number(it, column)
	if !ok {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

// writer returns the id of the writer of a row; "" when there is none.
func (j *journal) writer(it plan.Item) string {
	message, _ := plan.Bytes(it, j.columns.Message)
	record, err := akkawire.ParseRecord(message)
	if err != nil {
		return ""
	}
	return record.Writer
}
