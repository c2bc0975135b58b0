// Package panics keeps a panic in the user's code within the call that it is in.
package panics

import (
	"fmt"

	"github.com/annals-go/annals"
)

// Contain runs the user's fn. A panic in it becomes an *annals.Error of kind ErrPanic, about op and id; both are empty where
// the caller names its errors later.
func Contain(op string, id annals.PersistenceID, fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &annals.Error{Op: op, ID: id, Kind: annals.ErrPanic, Err: fmt.Errorf("%v", p)}
		}
	}()
	return fn()
}
