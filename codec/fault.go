package codec

import (
	"errors"
	"fmt"
)

// Fault is an error whose text repeats nothing of a value or payload, for example "broken JSON at byte 7". The functions given to Of and
// Was return a Fault when its text may be shown. Of any other error only the Go type is shown, because decoders often repeat their
// input in errors. errors.Is and errors.As find every error.
type Fault string

func (f Fault) Error() string { return string(f) }

// safeText is a text for err that repeats nothing of a payload.
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

// opError is an error of a Type. It has no Unwrap, so that a program that prints a chain of errors does not print a payload. errors.Is and
// errors.As find the cause.
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
