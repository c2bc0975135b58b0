package commit

import (
	"fmt"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// decoder reads the attributes of a stored item, or of a map in it. Other programs can write to a table, so everything is checked: an
// attribute that the layout would not write in this form is a fault. The decoder keeps the first fault. A fault names the
// attribute, but not its value.
type decoder struct {
	item  plan.Item
	fault error
}

func (d *decoder) wrong(name string) {
	if d.fault == nil {
		d.fault = fmt.Errorf("attribute %q is not what the layout writes", name)
	}
}

// number returns an integer within bounds; false when there is none.
func (d *decoder) number(name string, least, most int64) (int64, bool) {
	if d.item[name] == nil {
		return 0, false
	}
	n, ok := plan.Number(d.item, name)
	if !ok || n < least || n > most {
		d.wrong(name)
		return 0, false
	}
	return n, true
}

// required is number for an attribute that must exist.
func (d *decoder) required(name string, least, most int64) int64 {
	n, ok := d.number(name, least, most)
	if !ok {
		d.wrong(name)
	}
	return n
}

// bytes returns a binary of that length; nil when there is none.
func (d *decoder) bytes(name string, length int) []byte {
	if d.item[name] == nil {
		return nil
	}
	b, ok := plan.Bytes(d.item, name)
	if !ok || len(b) != length {
		d.wrong(name)
		return nil
	}
	return b
}

func (d *decoder) text(name string) string {
	s, ok := plan.Text(d.item, name)
	if !ok && d.item[name] != nil {
		d.wrong(name)
	}
	return s
}

func (d *decoder) flag(name string) bool {
	if _, ok := d.item[name].(*types.AttributeValueMemberBOOL); !ok && d.item[name] != nil {
		d.wrong(name)
	}
	return plan.Flag(d.item, name)
}

// time returns the zero time when there is none.
func (d *decoder) time(name string) time.Time {
	n, ok := d.number(name, math.MinInt64, math.MaxInt64)
	if !ok {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

func (d *decoder) payload() annals.Payload {
	serializer := d.required(attrSerializer, math.MinInt32, math.MaxInt32)
	p := annals.Payload{SerializerID: int32(serializer), Manifest: d.text(attrManifest)}
	switch data := d.item[attrData].(type) {
	case nil:
	case *types.AttributeValueMemberS:
		p.Data = []byte(data.Value)
	case *types.AttributeValueMemberB:
		p.Data = data.Value
	default:
		d.wrong(attrData)
	}
	return p
}

// meta returns the zero Payload when there is none.
func (d *decoder) meta() annals.Payload {
	if d.item[attrMeta] == nil {
		return annals.Payload{}
	}
	m, ok := mapOf(d.item, attrMeta)
	if !ok {
		d.wrong(attrMeta)
		return annals.Payload{}
	}
	meta := decoder{item: m}
	p := meta.payload()
	if meta.fault != nil {
		d.wrong(attrMeta)
	}
	return p
}

func (d *decoder) tags() []string {
	if d.item[attrTags] == nil {
		return nil
	}
	list, ok := d.item[attrTags].(*types.AttributeValueMemberL)
	if !ok {
		d.wrong(attrTags)
		return nil
	}
	all := make([]string, len(list.Value))
	for i, v := range list.Value {
		s, ok := v.(*types.AttributeValueMemberS)
		if !ok {
			d.wrong(attrTags)
			return nil
		}
		all[i] = s.Value
	}
	return all
}

// readable returns ErrUnsupported for an item of a later version of this package.
func (d *decoder) readable(what string) error {
	if v, _ := d.number(attrFormat, 0, math.MaxInt64); v > formatGone {
		return &annals.Error{Kind: annals.ErrUnsupported, Err: fmt.Errorf("%s has format %d, this version reads %d", what, v, formatGone)}
	}
	return nil
}
