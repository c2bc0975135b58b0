package aggregate_test

import (
	"errors"
	"testing"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/aggregate"
	"github.com/annals-go/annals/driver"
)

// A behavior without a type, on a store that can do nothing: both faults are reported.
func TestNewRefuses(t *testing.T) {
	t.Parallel()
	bad := account
	bad.Type, bad.Evolve = "", nil
	_, err := aggregate.New(driver.Unsupported(), bad, aggregate.Options{ConflictTimeout: -1})
	if !errors.Is(err, annals.ErrInvalid) || !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("%v, want invalid and not supported", err)
	}
	if _, err := aggregate.NewState(driver.Unsupported(), accountState, aggregate.Options{}); !errors.Is(err, annals.ErrUnsupported) {
		t.Errorf("%v, want not supported", err)
	}
}
