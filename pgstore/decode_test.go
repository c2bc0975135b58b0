package pgstore

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/annals-go/annals"
)

// row is one row of eventColumns, as the wire brings it in eventFormats.
type row struct {
	pgx.Rows
	values [][]byte
}

func (r row) RawValues() [][]byte { return r.values }

func (r row) FieldDescriptions() []pgconn.FieldDescription {
	fields := make([]pgconn.FieldDescription, len(idAndEventFormats))
	for i, f := range idAndEventFormats {
		fields[i].Format = f
	}
	return fields
}

// Whatever bytes a row has: they are read as the driver reads them, or they are ErrCorrupt. Bit i of null makes column i NULL.
func FuzzDecodeEvent(f *testing.F) {
	types := pgtype.NewMap()
	f.Fuzz(func(t *testing.T, id, seqNr, at, serID, data, tags, metaID, meta []byte, null uint16) {
		values := [][]byte{id, seqNr, at, serID, []byte("manifest"), data, []byte("writer"), nil, tags, metaID, []byte("meta"), meta}
		for i := range values {
			if null&(1<<i) != 0 {
				values[i] = nil
			} else if values[i] == nil {
				values[i] = []byte{}
			}
		}
		var e annals.Event
		if err := newEventDecoder(row{values: values}, "", nil).event(&e); err != nil {
			if !errors.Is(err, annals.ErrCorrupt) {
				t.Errorf("got %v, want ErrCorrupt", err)
			}
			return
		}
		number := func(column []byte) (n int64) {
			oid := map[int]uint32{4: pgtype.Int4OID, 8: pgtype.Int8OID}[len(column)]
			if err := types.Scan(oid, pgtype.BinaryFormatCode, column, &n); err != nil {
				t.Errorf("the driver refuses the number %x: %v", column, err)
			}
			return n
		}
		want := annals.Event{ID: annals.PersistenceID(values[0]), SeqNr: annals.SeqNr(number(values[1])),
			Payload: annals.Payload{SerializerID: int32(number(values[3])), Manifest: string(values[4]), Data: values[5]}}
		if err := types.Scan(pgtype.TimestamptzOID, pgtype.BinaryFormatCode, values[2], &want.Time); err != nil {
			t.Errorf("the driver refuses the time %x: %v", values[2], err)
		}
		want.Time = want.Time.In(time.UTC)
		if values[8] != nil {
			var list pgtype.Array[string]
			if err := types.Scan(pgtype.TextArrayOID, pgtype.BinaryFormatCode, values[8], &list); err != nil {
				t.Errorf("the driver refuses the list %x: %v", values[8], err)
			}
			want.Tags = orNil(list.Elements)
		}
		if values[9] != nil {
			want.Metadata = annals.Payload{SerializerID: int32(number(values[9])), Manifest: string(values[10]), Data: values[11]}
		}
		if e.Tags = orNil(e.Tags); !reflect.DeepEqual(e, want) {
			t.Errorf("read %+v, the driver reads %+v", e, want)
		}
	})
}
