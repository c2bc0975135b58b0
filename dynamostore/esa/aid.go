package esa

import (
	"strings"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/dynamostore/internal/plan"
	"github.com/annals-go/annals/internal/quote"
)

// aids maps ids to the aggregate ids of the libraries, which are the text type-value.
type aids struct {
	types []string // the entity types whose names contain "-"
	bare  bool     // an aid is the value alone
}

// untyped is the type of ids that have no "|". No entity type contains this character.
const untyped = "|"

// split returns the type and the value of id. It is ErrInvalid for an id whose text type-value is that of another id.
func (a aids) split(id annals.PersistenceID) (entityType, value string, err error) {
	entityType, value = id.Type(), id.EntityID()
	if !strings.Contains(string(id), "|") {
		entityType = untyped
	}
	if len(a.types) == 0 && !strings.Contains(entityType, "-") {
		return entityType, value, nil // the first "-" of the aggregate id is the one after the type
	}
	if text := typeValue(entityType, value); a.id(text) != id {
		return "", "", plan.Misfit("the ids %s and %s have the same aggregate id %s, which is the second one's: the entity types whose names contain \"-\" are %q",
			quote.Text(string(id)), quote.Text(string(a.id(text))), quote.Text(text), a.types)
	}
	return entityType, value, nil
}

// aid returns the attribute aid of id; "" for an id that split refuses.
func (a aids) aid(id annals.PersistenceID) string {
	entityType, value, err := a.split(id)
	if err != nil {
		return ""
	}
	return aidText(a.bare, entityType, value)
}

// id returns the id whose text type-value is text. The type is the longest one of types that fits, or else the part before the first "-". A
// text without "-" is a value without a type.
func (a aids) id(text string) annals.PersistenceID {
	entityType, value, ok := strings.Cut(text, "-")
	for _, t := range a.types {
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

func aidText(bare bool, entityType, value string) string {
	if bare {
		return value
	}
	return typeValue(entityType, value)
}

func typeValue(entityType, value string) string { return entityType + "-" + value }
