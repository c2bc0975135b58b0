package panics_test

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

func TestContain(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		if err := panics.Contain("put state", "T|1", func() error { return want }); err != want {
			t.Errorf("got %v, want %v as it is", err, want)
		}
	}
	for _, value := range []any{"text", 42, broken} {
		err := panics.Contain("put state", "T|1", func() error { panic(value) })
		if e := (*annals.Error)(nil); !errors.As(err, &e) || e.Kind != annals.ErrPanic || e.Op != "put state" || e.ID != "T|1" {
			t.Errorf("panic(%v): got %v, want ErrPanic about the write", value, err)
		}
	}
}
