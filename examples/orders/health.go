package main

import (
	"context"
	"fmt"
	"io"

	"github.com/annals-go/annals/ability"
)

// check asks whether the store can be read and written now. A service answers its health requests with this.
func (s *shop) check(ctx context.Context, out io.Writer) error {
	h, err := ability.Of[ability.HealthChecker](s.store)
	if err != nil {
		return err
	}
	if err := h.CheckHealth(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "the store can be read and written")
	return nil
}
