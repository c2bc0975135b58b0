package offsets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/position"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attributes.
const (
	attrFormat   = "v"
	attrRevision = "rev"
	attrSave     = "save" // id of the save that has written the item
	attrTime     = "at"   // of the Through of a range, in microseconds since 1970
	attrFrom     = "from" // the first slice of a range
	attrZip      = "zip"  // the offsets are compressed by gzip

	attrTo      = "to"      // the first slice after the item's
	attrRanges  = "ranges"  // the positions of the item's slices
	attrEpoch   = "epoch"   // of a range
	attrNumber  = "nr"      // of the Through of a range
	attrEntity  = "entity"  // of the Through of a range
	attrOffsets = "offsets" // of the entities beyond their Through
)

const (
	format     = 1
	mostFormat = 2 // that this version reads
)

// mostBytes is the most bytes of offsets when they are decompressed.
const mostBytes = 64 << 20

// maxPlain is the most bytes of offsets that are not compressed. Less than a write unit need not be.
const maxPlain = 900

// portion is an item of a projection: what is known of the slices from ≤ s < to. The item cut has nothing but the number after those of
// all slices in place of from: annals.SliceCount where the ranges are of annals.SliceRanges, position.End where they are of annals.SpreadRanges.
type portion struct {
	from, to int   // to is 0 in the item cut
	revision int64 // 0 when there is no item yet
	position.Projection
}

// item returns the item of the next revision of p, without its key.
func (p portion) item() plan.Item {
	it := plan.Item{attrFormat: plan.N(format), attrRevision: plan.N(p.revision + 1)}
	if p.to == 0 {
		return it
	}
	list := make([]types.AttributeValue, len(p.Ranges))
	for i, x := range p.Ranges {
		m := plan.Item{attrFrom: plan.N(x.From), attrTo: plan.N(x.To)}
		if x.Epoch > 0 {
			m[attrEpoch] = plan.N(x.Epoch)
		}
		if x.Through.Compare(annals.Offset{}) != 0 {
			m[attrTime], m[attrNumber], m[attrEntity] = plan.Micros(x.Through.Time), plan.N(x.Through.SeqNr), plan.S(string(x.Through.ID))
		}
		list[i] = plan.M(m)
	}
	it[attrTo], it[attrRanges] = plan.N(p.to), plan.L(list...)
	if len(p.Entities) > 0 {
		b := encodeOffsets(p.Entities)
		if len(b) > maxPlain {
			b, it[attrZip] = plan.Compress(b), plan.Bool(true)
		}
		it[attrOffsets] = plan.B(b)
	}
	return it
}

// portionOf decodes an item.
func (o Store) portionOf(it plan.Item) (portion, error) {
	d := decoder{plan.Decoder{Item: it}}
	if err := d.Readable(attrFormat, mostFormat, "the progress of a projection"); err != nil {
		return portion{}, err
	}
	p := portion{from: int(d.Required(o.Range, 0, position.End)), revision: d.Required(attrRevision, 1, math.MaxInt64-1)}
	cut := p.from > 0 && p.from%annals.SliceCount == 0 && it[attrTo] == nil && it[attrRanges] == nil
	if !cut && d.Fault == nil {
		p.to = int(d.Required(attrTo, int64(p.from)+1, position.End))
		p.Ranges = d.ranges(p.from, p.to)
		p.Entities = d.offsets(annals.SliceRange{From: p.from, To: p.to}, o.MaxHash)
	}
	if d.Fault != nil {
		return portion{}, corrupt(d.Fault)
	}
	return p, nil
}

func corrupt(err error) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("the progress of a projection: %w", err)}
}

// decoder reads an item, or a map in it.
type decoder struct{ plan.Decoder }

// ranges decodes the positions of the slices from ≤ s < to.
func (d *decoder) ranges(from, to int) (all position.Ranges) {
	list, ok := d.Item[attrRanges].(*types.AttributeValueMemberL)
	if !ok {
		d.Wrong(attrRanges)
		return nil
	}
	for _, v := range list.Value {
		m, ok := v.(*types.AttributeValueMemberM)
		if !ok {
			d.Wrong(attrRanges)
			return nil
		}
		each := plan.Decoder{Item: m.Value}
		x := position.Range{From: int(each.Required(attrFrom, int64(from), position.End-1))}
		x.To = int(each.Required(attrTo, int64(x.From)+1, int64(to)))
		x.Epoch, _ = each.Number(attrEpoch, 0, math.MaxInt64)
		if n, ok := each.Number(attrNumber, math.MinInt64, math.MaxInt64); ok {
			x.Through = annals.Offset{Time: each.Time(attrTime), SeqNr: annals.SeqNr(n), ID: annals.PersistenceID(each.Text(attrEntity))}
		}
		if each.Fault != nil {
			d.Wrong(attrRanges)
			return nil
		}
		all, from = append(all, x), x.To
	}
	return all
}

// encodeOffsets returns the binary form of offsets: for each, in the order of Offset, the microseconds since the one before, its number, the length
// of its id, and the id. Numbers are varints.
func encodeOffsets(offsets map[annals.PersistenceID]annals.Offset) (b []byte) {
	var last int64
	for _, o := range slices.SortedFunc(maps.Values(offsets), annals.Offset.Compare) {
		at := o.Time.UnixMicro()
		b = binary.AppendVarint(b, at-last)
		b = binary.AppendVarint(b, int64(o.SeqNr))
		b = binary.AppendUvarint(b, uint64(len(o.ID)))
		b = append(b, o.ID...)
		last = at
	}
	return b
}

// offsets decodes what encodeOffsets has made, of entities of the slices r, whose ids have up to maxID bytes.
func (d *decoder) offsets(r annals.SliceRange, maxID int) map[annals.PersistenceID]annals.Offset {
	if d.Item[attrOffsets] == nil {
		return nil
	}
	var err error
	b := d.Bytes(attrOffsets)
	if d.Flag(attrZip) {
		b, err = plan.Decompress(b, mostBytes)
	}
	all := map[annals.PersistenceID]annals.Offset{}
	var at int64
	for len(b) > 0 && err == nil {
		var o annals.Offset
		b, err = decodeOffset(b, maxID, &at, &o)
		if err == nil && (!r.Contains(o.ID.Slice()) || all[o.ID].ID != "" || o.ID == "") {
			err = errForm
		}
		all[o.ID] = o
	}
	if err != nil {
		d.Wrong(attrOffsets)
		return nil
	}
	return all
}

var errForm = errors.New("not the form of encodeOffsets")

// decodeOffset decodes the first offset of b and returns the rest of b. at is the time of the offset before, then that of o.
func decodeOffset(b []byte, maxID int, at *int64, o *annals.Offset) ([]byte, error) {
	step, n := binary.Varint(b)
	if n <= 0 {
		return nil, errForm
	}
	number, m := binary.Varint(b[n:])
	if m <= 0 {
		return nil, errForm
	}
	b = b[n+m:]
	length, n := binary.Uvarint(b)
	if n <= 0 || length > uint64(len(b)-n) || length > uint64(maxID) {
		return nil, errForm
	}
	*at += step
	end := n + int(length)
	*o = annals.Offset{Time: time.UnixMicro(*at).UTC(), SeqNr: annals.SeqNr(number), ID: annals.PersistenceID(b[n:end])}
	return b[end:], nil
}
