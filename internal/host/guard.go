package host

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// panicked is the error of a panic in domain code, and logs the stack. A nil value means runtime.Goexit, which cannot be stopped: the
// goroutine ends. panicked is called in the deferred function that recovered value, so that the stack shows where the panic began.
func panicked(log *slog.Logger, op string, id annals.PersistenceID, value any) error {
	err := panics.Error(op, id, value)
	log.LogAttrs(context.Background(), slog.LevelError, "annals: domain code panicked",
		slog.String("op", op), slog.String("id", string(id)), slog.Any("error", err), slog.String("stack", string(debug.Stack())))
	return err
}

// guard runs fn and returns a panic of fn as an error.
func guard(log *slog.Logger, op string, id annals.PersistenceID, fn func() error) (err error) {
	returned := false
	defer func() {
		if !returned {
			err = panicked(log, op, id, recover())
		}
	}()
	err = fn()
	returned = true
	return err
}

// Exited is the error when domain code has ended a goroutine of the host with runtime.Goexit.
func Exited(op string, id annals.PersistenceID) error { return panics.Error(op, id, nil) }
