package commit

import (
	"math"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// decoder reads an item of the layout, or a map in it.
type decoder struct{ plan.Decoder }

func decode(it plan.Item) decoder { return decoder{plan.Decoder{Item: it}} }

// bytes returns a binary of that length; nil when there is none.
func (d *decoder) bytes(name string, length int) []byte {
	b := d.Bytes(name)
	if len(b) == length || d.Item[name] == nil {
		return b
	}
	d.Wrong(name)
	return nil
}

func (d *decoder) payload() annals.Payload {
	serializer := d.Required(attrSerializer, math.MinInt32, math.MaxInt32)
	p := annals.Payload{SerializerID: int32(serializer), Manifest: d.Text(attrManifest)}
	switch data := d.Item[attrData].(type) {
	case nil:
	case *types.AttributeValueMemberS:
		p.Data = []byte(data.Value)
	case *types.AttributeValueMemberB:
		p.Data = data.Value
	default:
		d.Wrong(attrData)
	}
	return p
}

// meta returns the zero Payload when there is none.
func (d *decoder) meta() annals.Payload {
	if d.Item[attrMeta] == nil {
		return annals.Payload{}
	}
	meta := decode(d.Map(attrMeta))
	p := meta.payload()
	if meta.Fault != nil {
		d.Wrong(attrMeta)
	}
	return p
}

// readable returns ErrUnsupported for an item of a later version of this package.
func (d *decoder) readable(what string) error { return d.Readable(attrFormat, formatGone, what) }
