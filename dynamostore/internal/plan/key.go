package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/quote"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// SameKey reports whether two keys are equal.
func SameKey(a, b Item) bool {
	return maps.EqualFunc(a, b, func(a, b types.AttributeValue) bool { return KeyText(a) == KeyText(b) })
}

// QuoteKey formats a key for an error.
func QuoteKey(key Item) string {
	parts := make([]string, 0, len(key))
	for name, v := range key {
		parts = append(parts, name+" "+quote.Text(KeyText(v)))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// Collision returns ErrInvalid when old, the item at the key of a write to id, is of another id. attribute has the id of an item.
func Collision(id annals.PersistenceID, old Item, attribute string) error {
	owner, ok := Text(old, attribute)
	if !ok || owner == string(id) {
		return nil
	}
	return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the ids %s and %s have the same key with these resolvers, and the row at that key is of the second", quote.Text(string(id)), quote.Text(owner))}
}

// Corrupt returns the error of an item that is not valid.
func Corrupt(table string, key Item, err error) error {
	return &annals.Error{Kind: annals.ErrCorrupt, Err: fmt.Errorf("table %q, item %s: %w", table, QuoteKey(key), err)}
}

// Misfit returns ErrInvalid for what does not fit the layout or its settings: what is to be stored, or what is stored in a table.
func Misfit(text string, args ...any) error {
	return &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf(text, args...)}
}
