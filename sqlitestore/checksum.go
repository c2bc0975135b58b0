package sqlitestore

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/annals-go/annals"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksums are the CRC-32C of rows, kept in their column crc32c: NULL in a row that was written without. Nothing else
// tells a payload in which a bit has flipped from the one that was written: SQLite looks at its own structures only.
type checksums struct {
	head []byte // everything but the payloads; used again for the next row
}

// of is the checksum of what is stored of e. A snapshot or a state is an event of which some fields are empty.
func (c *checksums) of(e *annals.Event) int64 {
	c.head = c.head[:0]
	c.text(string(e.ID))
	c.number(int64(e.SeqNr))
	c.number(e.Time.UnixMicro())
	c.head = append(c.head, e.WriteID[:]...)
	c.text(e.Adapter)
	c.number(int64(len(e.Tags)))
	for _, tag := range e.Tags {
		c.text(tag)
	}
	for _, p := range []*annals.Payload{&e.Payload, &e.Metadata} {
		c.number(int64(p.SerializerID))
		c.text(p.Manifest)
		c.number(int64(len(p.Data)))
	}
	sum := crc32.Checksum(c.head, castagnoli)
	sum = crc32.Update(sum, castagnoli, e.Data)
	return int64(crc32.Update(sum, castagnoli, e.Metadata.Data))
}

func (c *checksums) number(n int64) { c.head = binary.BigEndian.AppendUint64(c.head, uint64(n)) }

func (c *checksums) text(text string) {
	c.number(int64(len(text)))
	c.head = append(c.head, text...)
}

// arg is the value of the column for e: NULL where c is nil.
func (c *checksums) arg(e *annals.Event) any {
	if c == nil {
		return nil
	}
	return c.of(e)
}

// verify reads the column, if it is set. The row is e, or something deleted, which has no checksum.
func (c *checksums) verify(v *values, e *annals.Event, deleted bool) {
	const column = "crc32c"
	if v.row[v.next] == nil {
		v.next++
		return
	}
	switch sum := v.integer(column, 0, math.MaxUint32); {
	case v.err != nil:
	case deleted:
		v.fault(column, "a checksum, though the row is deleted")
	case sum != c.of(e):
		v.fault(column, "the checksum of another row than this")
	}
}
