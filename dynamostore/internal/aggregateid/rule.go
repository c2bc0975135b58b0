// Package aggregateid maps persistence ids to the aggregate ids of the event-store-adapter libraries, which are the text type-value.
package aggregateid

import (
	"fmt"
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/quote"
)

// Form says what the attribute aid has.
type Form int

const (
	// TypeValue is the type, "-" and the value.
	TypeValue Form = iota
	// Value is the value alone. Only the key tells the type.
	Value
)

// Rule says how the aggregate ids of a table are made.
type Rule struct {
	Types []string // the entity types whose names contain "-"
	Form  Form
}

// untyped is the type of ids that have no "|". No entity type contains this character.
const untyped = "|"

// Split returns the type and the value of id. It is ErrInvalid for an id whose text type-value is that of another id.
func (r Rule) Split(id annals.PersistenceID) (entityType, value string, err error) {
	entityType, value = id.Type(), id.EntityID()
	if !strings.Contains(string(id), "|") {
		entityType = untyped
	}
	if len(r.Types) == 0 && !strings.Contains(entityType, "-") {
		return entityType, value, nil // the first "-" of the aggregate id is the one after the type
	}
	if other := r.ID(Join(entityType, value)); other != id {
		return "", "", &annals.Error{Kind: annals.ErrInvalid, Err: fmt.Errorf("the ids %s and %s have the same aggregate id %s, which is the second one's: the entity types whose names contain \"-\" are %q",
			quote.Text(string(id)), quote.Text(string(other)), quote.Text(Join(entityType, value)), r.Types)}
	}
	return entityType, value, nil
}

// AID returns the attribute aid of id. It is ErrInvalid for an id that Split refuses.
func (r Rule) AID(id annals.PersistenceID) (string, error) {
	entityType, value, err := r.Split(id)
	switch {
	case err != nil:
		return "", err
	case r.Form == Value:
		return value, nil
	}
	return Join(entityType, value), nil
}

// ID returns the id whose text type-value is text. The type is the longest one of Types that fits, or else the part before the first "-". A
// text without "-" is a value without a type.
func (r Rule) ID(text string) annals.PersistenceID {
	entityType, value, ok := strings.Cut(text, "-")
	for _, t := range r.Types {
		if rest, fits := strings.CutPrefix(text, t+"-"); fits && len(t) > len(entityType) {
			entityType, value = t, rest
		}
	}
	switch {
	case !ok:
		return annals.PersistenceID(text)
	case entityType == untyped:
		return annals.PersistenceID(value)
	}
	return annals.NewPersistenceID(entityType, value)
}

// Join returns the text type-value.
func Join(entityType, value string) string { return entityType + "-" + value }
