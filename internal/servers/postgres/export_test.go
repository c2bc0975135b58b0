package postgres

import (
	"context"
	"syscall"
)

// Create creates a database cluster with the initdb in bin.
func Create(ctx context.Context, bin, data string) error {
	return (&Server{bin: bin, data: data, attr: new(syscall.SysProcAttr)}).create(ctx)
}
