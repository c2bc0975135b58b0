package host

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/annals-go/annals"
	"github.com/annals-go/annals/internal/panics"
)

// guard runs fn, which is domain code, and returns a panic of fn as an error. It logs the stack. A runtime.Goexit cannot be stopped: the goroutine
// ends, and guard does not return.
func (c *Config) guard(op string, id annals.PersistenceID, fn func() error) (err error) {
	returned := false
	defer func() {
		if !returned { // the stack is read here, so that it shows where the panic began
			err = panics.Error(op, id, recover())
			c.Logger.LogAttrs(context.Background(), slog.LevelError, "annals: domain code panicked",
				slog.String("op", op), slog.String("id", string(id)), slog.Any("error", err), slog.String("stack", string(debug.Stack())))
		}
	}()
	err = fn()
	returned = true
	return err
}

// contain is guard on a goroutine of its own, for work that no command may fail with: a runtime.Goexit in fn ends that goroutine only.
func (c *Config) contain(op string, id annals.PersistenceID, fn func() error) error {
	return panics.Contain(op, id, func() error { return c.guard(op, id, fn) })
}

// Exited is the error when domain code has ended a goroutine of the host with runtime.Goexit.
func Exited(op string, id annals.PersistenceID) error { return panics.Error(op, id, nil) }
