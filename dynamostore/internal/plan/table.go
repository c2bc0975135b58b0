package plan

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Table describes a table.
type Table struct {
	Name        string
	Hash, Range Key // Range.Name is "" for a table without a range key
	Indexes     []Index
	Stream      bool // the table holds events: Options.Streams gives a created one a stream of new images
}

// Index is a secondary index, which has every item that has the attributes of its key. A global index without a Range may also have one
// that is part of the table's key, since every item has that.
type Index struct {
	Name        string
	Hash, Range Key
	KeysOnly    bool // created with the keys only, and checked for no more; otherwise with all attributes
	// Local says that it is a local index. Its Hash is the table's. It is read strongly consistent, and with all attributes of the
	// items whatever it is created with: the service reads those that it lacks from the table.
	Local bool
}

// Key is an attribute of a key.
type Key struct {
	Name   string
	Number bool // type N; S otherwise
}

// Keys returns the key attributes of the table, or of one of its indexes.
func (t Table) Keys(index string) (hash, sort Key) {
	if i, ok := t.index(index); ok {
		return i.Hash, i.Range
	}
	return t.Hash, t.Range
}

// Local reports whether index is a local index of the table.
func (t Table) Local(index string) bool {
	i, _ := t.index(index)
	return i.Local
}

func (t Table) index(name string) (Index, bool) {
	at := slices.IndexFunc(t.Indexes, func(i Index) bool { return i.Name == name })
	if at < 0 {
		return Index{}, false
	}
	return t.Indexes[at], true
}

// KeyOf returns the key of an item of the table.
func (t Table) KeyOf(it Item) Item {
	key := Item{t.Hash.Name: it[t.Hash.Name]}
	if t.Range.Name != "" {
		key[t.Range.Name] = it[t.Range.Name]
	}
	return key
}

// Value returns the attribute with the text of a key.
func (k Key) Value(text string) types.AttributeValue {
	if k.Number {
		return &types.AttributeValueMemberN{Value: text}
	}
	return S(text)
}

// Type returns the attribute's type in the definition of the table.
func (k Key) Type() types.ScalarAttributeType {
	if k.Number {
		return types.ScalarAttributeTypeN
	}
	return types.ScalarAttributeTypeS
}
