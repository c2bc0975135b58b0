package sqlitestore

import (
	"encoding/binary"
	"hash/crc32"
	"math"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksums computes the CRC-32C of rows for the column crc32c, which is NULL in rows that were written without checksums. SQLite
// checks its own structures only, so without a checksum a payload with a flipped bit is read as if it had been written so.
type checksums struct {
	head []byte // everything except the payloads; reused for the next row
}

// another returns checksums for another goroutine; nil where c is nil.
func (c *checksums) another() *checksums {
	if c == nil {
		return nil
	}
	return &checksums{}
}

// of returns the checksum of e as it is stored. Snapshots and states are passed as events in which some fields are empty.
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

// verify reads the column and compares it with the checksum of e, unless it is NULL. A deleted row has no checksum.
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
		v.fault(column, "a checksum that does not fit the row")
		v.code = ability.Checksum
	}
}
