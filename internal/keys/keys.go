// Package keys has the keys of the commands that an entity has executed, so that a command which is sent again has its effect once.
package keys

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/codec"
	"github.com/annals-go/annals/internal/document"
	"github.com/annals-go/annals/internal/quote"
)

// Executed is a command of an entity.
type Executed struct {
	Key    string       `json:"k"`           // a hash: the text of a key may say something of a person
	SeqNr  annals.SeqNr `json:"n"`           // of the entity after the command
	Events int          `json:"e,omitempty"` // so many the command has stored, of an event-sourced entity
	At     int64        `json:"t"`           // seconds since 1970
}

// List has the commands of an entity in the order in which they were executed.
type List []Executed

// ID is the id of the durable state with the keys of the entity id.
func ID(id annals.PersistenceID) annals.PersistenceID {
	return annals.NewPersistenceID("annals.keys", string(id))
}

var lists = codec.JSON[List]("annals.keys")

// Of is the document with the keys of the entity id.
func Of(id annals.PersistenceID) document.Document[List] {
	return document.Document[List]{ID: ID(id), Codec: lists, Check: func(l List) error {
		for _, x := range l {
			if x.Key == "" || x.SeqNr < 0 || x.Events < 0 || annals.SeqNr(x.Events) > x.SeqNr {
				return fmt.Errorf("the entry of key %s is wrong", quote.Text(x.Key))
			}
		}
		return nil
	}}
}

// Find returns the command with the key.
func (l List) Find(key string) (Executed, bool) {
	key = hash(key)
	if i := slices.IndexFunc(l, func(x Executed) bool { return x.Key == key }); i >= 0 {
		return l[i], true
	}
	return Executed{}, false
}

// Since returns l without what was executed longer ago than age.
func (l List) Since(now time.Time, age time.Duration) List {
	return slices.DeleteFunc(slices.Clone(l), func(x Executed) bool { return now.Sub(time.Unix(x.At+1, 0)) > age }) // At is rounded down
}

// With returns l with x under the key, executed at now.
func (l List) With(key string, x Executed, now time.Time) List {
	x.Key, x.At = hash(key), now.Unix()
	return append(slices.Clone(l), x)
}

// hash is 128 bits of SHA-256 as text.
func hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(sum[:16])
}
