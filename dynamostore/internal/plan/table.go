package plan

import "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

// Table is what a table must look like.
type Table struct {
	Name        string
	Hash, Range Key // Range.Name is "" where the table has none
	Indexes     []Index
	Stream      bool // it holds events: new ones can get a stream of new images
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

// Keys are the key attributes of the table, or of one of its indexes.
func (t Table) Keys(index string) (hash, sort Key) {
	for _, i := range t.Indexes {
		if i.Name == index {
			return i.Hash, i.Range
		}
	}
	return t.Hash, t.Range
}

// Type is the attribute's type in the table's definition.
func (k Key) Type() types.ScalarAttributeType {
	if k.Number {
		return types.ScalarAttributeTypeN
	}
	return types.ScalarAttributeTypeS
}
