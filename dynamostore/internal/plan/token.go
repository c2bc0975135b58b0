package plan

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// NewToken returns a random token for Write.Token.
func NewToken() string { return rand.Text() }

// TokenOf returns the token for Write.Token that belongs to parts: a hash, of 36 characters. Equal parts have equal tokens. The parts of
// an append are the table, the id, After and the WriteID, so that a caller's repetition is recognised.
func TokenOf(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:27])
}
