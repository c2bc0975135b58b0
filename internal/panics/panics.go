// Package panics limits the effect of a panic or a runtime.Goexit in the user's code to the call that runs the code.
package panics

import (
	"errors"
	"fmt"

	"github.com/annals-go/annals"
)

// Contain runs the user's fn on a goroutine of its own and waits for it. A panic in fn or in a method of its error, such as that of a nil
// pointer, or a runtime.Goexit, becomes an *annals.Error of kind ErrPanic with op and id; both are empty if the caller adds them later.
func Contain(op string, id annals.PersistenceID, fn func() error) error {
	// runtime.Goexit always ends the goroutine on which it is called, so fn must not run on the caller's.
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
		if err = fn(); err != nil {
			_ = err.Error()
			_ = errors.Is(err, errGoexit)
		}
		returned = true
	}()
	return <-result
}

// Error returns the error of op on id after the user's code panicked with value; a nil value means runtime.Goexit. If value is an error,
// errors.Is and errors.As find it.
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

// Unwrap returns nil for an error whose methods cannot be called, such as a nil pointer.
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
