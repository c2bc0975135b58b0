// Package panics keeps what the user's code may do to a goroutine, panic and runtime.Goexit, within the call that the code is in.
package panics

import (
	"errors"
	"fmt"

	"github.com/annals-go/annals"
)

// Contain runs the user's fn on a goroutine of its own and waits for it. A panic in fn, or a runtime.Goexit, becomes an
// *annals.Error of kind ErrPanic, about op and id; both are empty where the caller names its errors later.
func Contain(op string, id annals.PersistenceID, fn func() error) error {
	// Nothing can stop runtime.Goexit from ending the goroutine that it is called on, so that must not be the caller's.
	result := make(chan error, 1)
	go func() {
		returned := false
		var err error
		defer func() {
			if !returned {
				err = Error(op, id, recover())
			}
			result <- err
		}()
		err = fn()
		returned = true
	}()
	return <-result
}

// Error is what became of op on id where the user's code panicked with value; a nil value is runtime.Goexit. errors.Is and
// errors.As find a value that is an error.
func Error(op string, id annals.PersistenceID, value any) error {
	var cause = errGoexit
	if value != nil {
		cause = panicked{fmt.Sprint(value), value} // fmt, unlike value's own methods, never panics
	}
	return &annals.Error{Op: op, ID: id, Kind: annals.ErrPanic, Err: cause}
}

var errGoexit = errors.New("runtime.Goexit was called")

type panicked struct {
	text  string
	value any
}

func (p panicked) Error() string { return p.text }

// Unwrap leaves out an error whose methods cannot be called, such as a nil pointer.
func (p panicked) Unwrap() (err error) {
	err, ok := p.value.(error)
	if !ok {
		return nil
	}
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	_ = err.Error()
	return err
}
