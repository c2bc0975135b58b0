package plan

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// Table describes a table.
type Table struct {
	Name        string
	Hash, Range Key // Range.Name is "" for a table without a range key
	Indexes     []Index
	Stream      bool // the table holds events: Options.Streams gives a created one a stream of new images
}

// Index is a global secondary index with all attributes, or with the keys only.
type Index struct {
	Name        string
	Hash, Range Key
	KeysOnly    bool
}

// Key is an attribute of a key.
type Key struct {
	Name   string
	Number bool // type N; S otherwise
}

// Keys returns the key attributes of the table, or of one of its indexes.
func (t Table) Keys(index string) (hash, sort Key) {
	for _, i := range t.Indexes {
		if i.Name == index {
			return i.Hash, i.Range
		}
	}
	return t.Hash, t.Range
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
