package codec

import (
	"errors"
	"fmt"
)

// Fault is an error that repeats nothing of a value or payload: "broken JSON at byte 7". The functions that Of and WasOf take
// return one where its text is to be seen. Of any other error only the type is: what a decoder complains about is often the
// input. errors.Is and errors.As find it all the same.
type Fault string

func (f Fault) Error() string { return string(f) }

// safeText says what err is about without repeating any of a payload.
func safeText(err error) string {
	switch e := err.(type) { //nolint:errorlint // what wraps one of these has a text of its own
	case Fault:
		return string(e)
	case *opError:
		return e.text
	case *UnknownManifestError:
		return e.Error()
	}
	return fmt.Sprintf("it failed with a %T", err)
}

// opError is an error of a Type. Only errors.Is and errors.As get at the cause: who prints a chain of errors must not print a
// payload.
type opError struct {
	text  string
	cause error
}

func newError(op string, k key, cause error) error {
	return &opError{fmt.Sprintf("codec: %s %v: %s", op, k, safeText(cause)), cause}
}

func (e *opError) Error() string        { return e.text }
func (e *opError) Is(target error) bool { return errors.Is(e.cause, target) }
func (e *opError) As(target any) bool   { return errors.As(e.cause, target) }
