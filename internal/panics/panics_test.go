package panics_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

type myError struct{ text string }

func (e *myError) Error() string { return e.text } // panics for nil

func TestContain(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		if err := panics.Contain("put state", "T|1", func() error { return want }); err != want {
			t.Errorf("got %v, want %v as it is", err, want)
		}
	}
	for name, fn := range map[string]func(){
		"text": func() { panic("text") }, "42": func() { panic(42) }, "broken": func() { panic(broken) },
		"<nil>": func() { panic((*myError)(nil)) }, "Goexit": runtime.Goexit,
		"nil": func() { panic(nil) }, //nolint:govet // on purpose
	} {
		err := panics.Contain("put state", "T|1", func() error { fn(); return nil })
		if e := (*annals.Error)(nil); !errors.As(err, &e) || e.Kind != annals.ErrPanic || e.Op != "put state" || e.ID != "T|1" {
			t.Errorf("%s: got %v, want ErrPanic about the write", name, err)
		}
		if errors.Is(err, broken) != (name == "broken") {
			t.Errorf("%s: errors.Is finds the value: %v", name, errors.Is(err, broken))
		}
		_, _ = fmt.Sprint(err), errors.As(err, new(*myError)) // must not panic
	}
	for _, returned := range []error{(*myError)(nil), fmt.Errorf("wrapped: %w", (*annals.Error)(nil))} {
		if err := panics.Contain("put state", "T|1", func() error { return returned }); !errors.Is(err, annals.ErrPanic) {
			t.Errorf("got %v for an error whose methods panic, want ErrPanic", err)
		}
	}
}
