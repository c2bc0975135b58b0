package sqlitestore

import (
	"cmp"
	sqldriver "database/sql/driver"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/ability"
)

// values decodes the columns of one row from left to right, and keeps the error of the first column that is wrong. The error does not
// contain the value. The driver allocates each []byte anew, so it need not be copied.
type values struct {
	row  []sqldriver.Value // int64, float64, string, []byte or nil
	next int
	err  error
	code ability.Code // of err; "" is that of the row
}

// damage is ErrCorrupt for a row whose columns are wrong.
func (v *values) damage(code ability.Code, id annals.PersistenceID, n annals.SeqNr, text string) error {
	return &annals.Error{ID: id, Kind: annals.ErrCorrupt, Err: &ability.Damage{Code: cmp.Or(v.code, code), ID: id, From: n, To: n, Err: fmt.Errorf("%s: %w", text, v.err)}}
}

// corrupt is ErrCorrupt for the first column that is wrong, nil when there is none.
func (v *values) corrupt() error {
	if v.err == nil {
		return nil
	}
	return &annals.Error{Kind: annals.ErrCorrupt, Err: v.err}
}

func (v *values) take() any {
	value := v.row[v.next]
	v.next++
	return value
}

func (v *values) fault(column, what string) {
	if v.err == nil {
		v.err = fmt.Errorf("column %s holds %s", column, what)
	}
}

// mismatch is a fault that names the type of value.
func (v *values) mismatch(column string, value any) {
	switch value.(type) {
	case nil:
		v.fault(column, "NULL")
	case int64:
		v.fault(column, "an integer")
	case float64:
		v.fault(column, "a real number")
	case string:
		v.fault(column, "a text")
	default:
		v.fault(column, "a blob")
	}
}

// integer decodes a number between least and most.
func (v *values) integer(column string, least, most int64) int64 {
	value := v.take()
	n, ok := value.(int64)
	switch {
	case !ok:
		v.mismatch(column, value)
	case n < least || n > most:
		v.fault(column, fmt.Sprintf("%d, which is not between %d and %d", n, least, most))
	default:
		return n
	}
	return least
}

// The first microsecond of the year 2, before which no snapshot was taken, and the last of the year 9999. Later times cannot be written as text in RFC 3339.
const (
	firstMicros = -62104060800_000000
	lastMicros  = 253402300799_999999
)

func (v *values) any64(column string) int64  { return v.integer(column, math.MinInt64, math.MaxInt64) }
func (v *values) micros(column string) int64 { return v.integer(column, 0, lastMicros) }

// seqNr decodes the number of an event, or a revision. least is 0 when there may be none.
func (v *values) seqNr(column string, least annals.SeqNr) annals.SeqNr {
	return annals.SeqNr(v.integer(column, int64(least), int64(annals.MaxSeqNr)))
}

func (v *values) serializerID(column string) int32 {
	return int32(v.integer(column, math.MinInt32, math.MaxInt32))
}

func (v *values) text(column string) string {
	value := v.take()
	text, ok := value.(string)
	switch {
	case !ok:
		v.mismatch(column, value)
	case strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text):
		v.fault(column, "a text that is not valid UTF-8 without U+0000")
	default:
		return text
	}
	return ""
}

// textAgain decodes a text that is often the same as the last one, which was valid. Then it is not checked again.
func (v *values) textAgain(column, last string) string {
	if text, ok := v.row[v.next].(string); ok && text == last {
		v.next++
		return last
	}
	return v.text(column)
}

// optionalText decodes a text, "" for NULL.
func (v *values) optionalText(column string) string {
	if v.row[v.next] == nil {
		v.next++
		return ""
	}
	return v.text(column)
}

func (v *values) id(column string) annals.PersistenceID {
	id := v.text(column)
	if id == "" {
		v.fault(column, "no id")
	}
	return annals.PersistenceID(id)
}

func (v *values) blob(column string) []byte {
	value := v.take()
	data, ok := value.([]byte)
	if !ok {
		v.mismatch(column, value)
	}
	return data
}

// tags decodes a JSON array, no tags for NULL.
func (v *values) tags(column string) []string {
	text := v.optionalText(column)
	if text == "" {
		return nil
	}
	tags, err := parseTags(text)
	if err != nil {
		v.fault(column, err.Error())
	}
	return tags
}

// metadata decodes three columns, which are all NULL or all set.
func (v *values) metadata() annals.Payload {
	const serializerID, manifest, data = "meta_ser_id", "meta_ser_manifest", "meta_payload"
	if v.row[v.next] == nil {
		v.next++
		for _, column := range []string{manifest, data} {
			if value := v.take(); value != nil {
				v.mismatch(column, value)
			}
		}
		return annals.Payload{}
	}
	p := annals.Payload{SerializerID: v.serializerID(serializerID), Manifest: v.text(manifest), Data: v.blob(data)}
	if p.SerializerID == 0 {
		v.fault(serializerID, "0")
	}
	return p
}
