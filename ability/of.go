package ability

import (
	"fmt"
	"reflect"

	"github.com/annals-go/annals"
)

// Of returns the ability T of s, such as Skipper or Transactor[pgx.Tx]. It is the one way to ask: a Go type can have methods that do not work
// with the tables or the options of this store. The error is ErrUnsupported and says what is missing. Within a transaction ask the
// store that InTx hands over, which may have fewer abilities.
//
// For the authors of stores and wrappers: s has an ability when its Go type has the method. If s also has the method
//
//	Lacks(want any) error
//
// it says why s does not have the ability all the same, or nil. want is a nil pointer to the ability, such as (*Skipper)(nil). If s has no method of the
// ability but the method
//
//	Unwrap() annals.Store
//
// it has the abilities of that store that its Lacks does not refuse. Their calls do not pass s. Stores of package driver have both methods, and ask
// their driver. A type that embeds such a store has both, too: one that adds an ability of its own answers for that by a Lacks of its own.
// A wrapper that embeds an annals.Store has only the abilities of its own methods.
func Of[T any](s annals.Store) (T, error) {
	missing := fmt.Errorf("%T has no such method", s)
	for s != nil {
		if l, ok := s.(interface{ Lacks(want any) error }); ok {
			if lacks := l.Lacks((*T)(nil)); lacks != nil {
				missing = lacks
				break
			}
		}
		if t, ok := s.(T); ok {
			return t, nil
		}
		w, ok := s.(interface{ Unwrap() annals.Store })
		if !ok {
			break
		}
		s = w.Unwrap()
	}
	var none T
	return none, &annals.Error{Op: "look for an ability", Kind: annals.ErrUnsupported,
		Err: fmt.Errorf("the store is no %v: %w; docs/claims.md says which stores and settings have it", reflect.TypeFor[T](), missing)}
}
