package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/annals-go/annals"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Decoder reads the attributes of a stored item, or of a map in it. Other programs can write to a table, so everything is checked: an
// attribute that the layout would not write in this form is a fault. The Decoder keeps the first fault. A fault names the attribute, but
// not its value. An attribute that does not exist is read as the zero value.
type Decoder struct {
	Item  Item
	Fault error
}

// Wrong records the fault of an attribute.
func (d *Decoder) Wrong(name string) {
	if d.Fault == nil {
		d.Fault = fmt.Errorf("attribute %q is not what the layout writes", name)
	}
}

// Require records a fault for each attribute that does not exist.
func (d *Decoder) Require(names ...string) {
	for _, name := range names {
		if d.Item[name] == nil {
			d.Wrong(name)
		}
	}
}

// Number returns an integer within bounds; false when there is none.
func (d *Decoder) Number(name string, least, most int64) (int64, bool) {
	if d.Item[name] == nil {
		return 0, false
	}
	n, ok := Number(d.Item, name)
	if !ok || n < least || n > most {
		d.Wrong(name)
		return 0, false
	}
	return n, true
}

// Required is Number for an attribute that must exist.
func (d *Decoder) Required(name string, least, most int64) int64 {
	n, ok := d.Number(name, least, most)
	if !ok {
		d.Wrong(name)
	}
	return n
}

// Readable returns ErrUnsupported for an item whose format, in the attribute name, is above most: a later version has written it.
func (d *Decoder) Readable(name string, most int64, what string) error {
	if v, _ := d.Number(name, 0, math.MaxInt64); v > most {
		return &annals.Error{Kind: annals.ErrUnsupported, Err: fmt.Errorf("%s has format %d, this version reads %d", what, v, most)}
	}
	return nil
}

// Bytes returns a binary.
func (d *Decoder) Bytes(name string) []byte {
	v, ok := Bytes(d.Item, name)
	d.check(name, ok)
	return v
}

// Text returns a string.
func (d *Decoder) Text(name string) string {
	v, ok := Text(d.Item, name)
	d.check(name, ok)
	return v
}

// Map returns the attributes of a map.
func (d *Decoder) Map(name string) Item {
	m, ok := d.Item[name].(*types.AttributeValueMemberM)
	if d.check(name, ok); !ok {
		return nil
	}
	return m.Value
}

// check records a fault for an attribute that exists and is not ok.
func (d *Decoder) check(name string, ok bool) {
	if !ok && d.Item[name] != nil {
		d.Wrong(name)
	}
}

// Flag returns a boolean.
func (d *Decoder) Flag(name string) bool {
	_, ok := d.Item[name].(*types.AttributeValueMemberBOOL)
	d.check(name, ok)
	return Flag(d.Item, name)
}

// Texts returns a list of strings.
func (d *Decoder) Texts(name string) []string {
	if d.Item[name] == nil {
		return nil
	}
	list, ok := d.Item[name].(*types.AttributeValueMemberL)
	if !ok {
		d.Wrong(name)
		return nil
	}
	all := make([]string, len(list.Value))
	for i, v := range list.Value {
		s, ok := v.(*types.AttributeValueMemberS)
		if !ok {
			d.Wrong(name)
			return nil
		}
		all[i] = s.Value
	}
	return all
}

// Time returns a time in microseconds since 1970.
func (d *Decoder) Time(name string) time.Time {
	d.Number(name, math.MinInt64, math.MaxInt64)
	return Time(d.Item, name)
}
