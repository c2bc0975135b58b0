package sealed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
)

// Serializer is the serializer id of sealed payloads. Their manifest is that of the payload inside.
const Serializer = 1397047628 // the letters SEAL

// version is the first byte of the data of a sealed payload. After it come, as varints of encoding/binary, the serializer id of the payload
// inside, the number of the key and the length of the subject; then the subject, a nonce of 12 bytes, and the ciphertext with its tag of 16
// bytes. Everything before the nonce, and the manifest, is authenticated.
const version = 1

// Payloads returns a codec that seals what c encodes, with the key of the subject of the value. A value with the subject "" is stored as c
// encodes it, and payloads that are not sealed are decoded by c: so a codec can have personal and other events, and can be rolled out on a
// store that has payloads of c already, when all processes that read it know this codec.
//
// When the key of a subject is destroyed, Decode returns forgotten(subject). Encode is ErrForgotten then, so the subject of a value that
// is written afterwards has to be "": let forgotten return such a value for states.
//
// When a key cannot be had, Decode is annals.ErrUnavailable: that says nothing of the payload, and a later try may work. Hosts and
// projections treat it so. A payload that was changed, cut, or sealed for another manifest or subject is annals.ErrCorrupt, and so is one
// whose key was lost and not destroyed. Encode is annals.ErrUnavailable when a key cannot be read or stored for a while.
//
// The codec has a Validate, which reports an argument that is nil, and the faults of c.
func Payloads[T any](c codec.Codec[T], keys *Keys, subject func(T) string, forgotten func(subject string) T) codec.Codec[T] {
	if c == nil || keys == nil || subject == nil || forgotten == nil {
		return &payloads[T]{inner: c, fault: errors.New("sealed: an argument of Payloads is nil")}
	}
	return &payloads[T]{inner: c, subject: subject, seal: keys.seal, open: keys.open,
		forgotten: func(subject string, _ annals.Payload) (T, error) { return forgotten(subject), nil }}
}

type payloads[T any] struct {
	inner     codec.Codec[T]
	subject   func(T) string
	seal      func(subject string, p annals.Payload) (annals.Payload, error)
	open      func(p annals.Payload) (inner annals.Payload, subject string, err error)
	forgotten func(subject string, rest annals.Payload) (T, error) // rest is what open returns beside ErrForgotten
	fault     error
}

func (c *payloads[T]) Validate() error {
	if v, ok := c.inner.(interface{ Validate() error }); ok && c.fault == nil {
		return v.Validate()
	}
	return c.fault
}

// Unwrap is for entitytest: two payloads of one value differ.
func (c *payloads[T]) Unwrap() codec.Codec[T] { return c.inner }

func (c *payloads[T]) Encode(v T) (annals.Payload, error) {
	if c.fault != nil {
		return annals.Payload{}, c.fault
	}
	p, err := c.inner.Encode(v)
	if err != nil {
		return annals.Payload{}, err
	}
	return c.seal(c.subject(v), p)
}

func (c *payloads[T]) Decode(p annals.Payload) (v T, err error) {
	if c.fault != nil {
		return v, c.fault
	}
	p, subject, err := c.open(p)
	switch {
	case errors.Is(err, ErrForgotten):
		return c.forgotten(subject, p)
	case err != nil:
		return v, err
	}
	return c.inner.Decode(p)
}

// seal returns p when subject is "".
func (k *Keys) seal(subject string, p annals.Payload) (annals.Payload, error) {
	if subject == "" {
		return p, nil
	}
	key, number, err := k.key(subject, 0)
	if errors.Is(err, annals.ErrUnknown) || errors.Is(err, annals.ErrConflict) { // of the key; the entity was not written
		err = k.later("seal", subject, errors.New(err.Error()))
	}
	if err != nil {
		return annals.Payload{}, err
	}
	data := make([]byte, 0, 64+len(subject)+len(p.Data))
	data = append(data, version)
	data = binary.AppendVarint(data, int64(p.SerializerID))
	data = binary.AppendUvarint(data, number)
	data = binary.AppendUvarint(data, uint64(len(subject)))
	data = append(data, subject...)
	data = key.Seal(data, nil, p.Data, slices.Concat(data, []byte(p.Manifest)))
	return annals.Payload{SerializerID: Serializer, Manifest: p.Manifest, Data: data}, nil
}

// open returns the payload in p, and its subject, which is known also when the error is ErrForgotten. A p that is not sealed is returned.
func (k *Keys) open(p annals.Payload) (inner annals.Payload, subject string, err error) {
	if p.SerializerID != Serializer {
		return p, "", nil
	}
	h, ok := parse(p.Data)
	if !ok {
		return inner, "", unreadable("", "it is cut or was changed")
	}
	key, _, err := k.key(h.subject, h.number)
	switch {
	case errors.Is(err, ErrForgotten) || errors.Is(err, annals.ErrCorrupt):
		return inner, h.subject, err
	case err != nil:
		// Also when a store says ErrInvalid, such as for a missing right: the subject was valid when the payload was sealed.
		return inner, h.subject, k.later("open a payload", h.subject, err)
	}
	data, err := key.Open(nil, nil, p.Data[h.size:], slices.Concat(p.Data[:h.size], []byte(p.Manifest)))
	if err != nil {
		return inner, h.subject, unreadable(k.id(h.subject), "it was changed, or belongs to another manifest or subject")
	}
	return annals.Payload{SerializerID: h.serializer, Manifest: p.Manifest, Data: data}, h.subject, nil
}

func (k *Keys) later(op, subject string, err error) error {
	return &annals.Error{Op: op, ID: k.id(subject), Kind: annals.ErrUnavailable, Err: err}
}

func unreadable(key annals.PersistenceID, text string) error {
	return &annals.Error{Op: "open a payload", ID: key, Kind: annals.ErrCorrupt, Err: errors.New("sealed: " + text)}
}

// header is what is before the nonce in the data of a sealed payload.
type header struct {
	serializer int32
	number     uint64
	subject    string
	size       int
}

func parse(data []byte) (h header, ok bool) {
	r := bytes.NewReader(data)
	format, err := r.ReadByte()
	serializer, err2 := binary.ReadVarint(r)
	number, err3 := binary.ReadUvarint(r)
	length, err4 := binary.ReadUvarint(r)
	if err != nil || err2 != nil || err3 != nil || err4 != nil || format != version || serializer != int64(int32(serializer)) || number == 0 ||
		length == 0 || length > uint64(r.Len()) {
		return h, false
	}
	size := len(data) - r.Len() + int(length)
	subject := string(data[size-int(length) : size])
	return header{int32(serializer), number, subject, size}, utf8.ValidString(subject) && !strings.Contains(subject, "\x00")
}
